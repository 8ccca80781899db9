"""Compiles a training step for absent devices: its memory, arithmetic and times."""

import argparse
import dataclasses
import importlib.util
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from common_jax.errors import UserError, missing_extra
from launch.measure.chips import CHIPS, GIB, Chip, Gpu

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from common_jax.training.task import Task


ENVIRONMENT = {  # read when jax and libtpu are imported
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",  # any value: libtpu requires one
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
_GPUS_A_MACHINE = 8


@dataclasses.dataclass(frozen=True)
class CompilePlan:
    """Cost of a training step for each device.

    Attributes:
      shape: sizes of the batch, as in `--shape`.
      memory_bytes: by "arguments" (state and batch), "temporaries" and "code".
      flops: of products and convolutions, a device's share.
      hbm_bytes: bytes read and written in the device's memory.
      collectives: data sent, by kind and mesh axes.
      seconds: time at the chip's peak rates, by "arithmetic", "memory" and "links"; "compile" is
        the compilation's on this machine.
    """

    topology: str
    chip: Chip
    shape: tuple[int, ...]
    mesh: Mapping[str, int]
    memory_bytes: Mapping[str, int]
    flops: float = 0
    hbm_bytes: int = 0
    collectives: Sequence[Any] = ()
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def label(self) -> str:
        """Topology and shape, for a message."""
        return f"{self.topology} {','.join(map(str, self.shape))}"

    @property
    def fits(self) -> bool:
        """Whether the memory of the chip suffices."""
        return sum(self.memory_bytes.values()) <= self.chip.memory

    @property
    def row(self) -> dict[str, Any]:
        """Row of the JSON file."""
        return {
            "topology": self.topology,
            "shape": list(self.shape),
            "mesh": dict(self.mesh),
            "memory_bytes": sum(self.memory_bytes.values()),
            "memory": dict(self.memory_bytes),
            "chip_memory_bytes": self.chip.memory,
            "flops": self.flops,
            "hbm_bytes": self.hbm_bytes,
            "collective_bytes": sum(collective.bytes for collective in self.collectives),
            "collectives": [dataclasses.asdict(collective) for collective in self.collectives],
            "seconds": dict(self.seconds),
            "fits": self.fits,
        }

    @property
    def cells(self) -> dict[str, Any]:
        """Row of the printed table."""
        mesh = " ".join(f"{name} {size}" for name, size in self.mesh.items() if size > 1)
        cells = {
            "topology": self.topology,
            "shape": ",".join(map(str, self.shape)),
            "mesh": mesh or "1 device",
            **{f"{name} GiB": size / GIB for name, size in self.memory_bytes.items()},
            "of GiB": self.chip.memory / GIB,
        }
        if not self.fits:
            return cells | dict.fromkeys(_MEASURES)
        busy = {name: self.seconds[name] for name in ("arithmetic", "memory", "links")}
        values = (
            self.flops / 1e9,
            self.hbm_bytes / 1e9,
            sum(collective.bytes for collective in self.collectives) / 1e9,
            *(1e3 * seconds for seconds in busy.values()),
            100 * busy["arithmetic"] / max(busy.values()),
            self.seconds["compile"],
        )
        return cells | dict(zip(_MEASURES, values, strict=True))


_MEASURES = (
    *("GFLOP", "moved GB", "sent GB", "arithmetic ms", "memory ms", "links ms"),
    *("use at most %", "compile s"),
)


def compile_plan(
    task: "Task", topology: str, devices: Sequence[Any], shape: Sequence[int]
) -> CompilePlan:
    """Compiles the training step for a topology.

    Args:
      topology: "CHIP:SHAPE".
      devices: its devices, of `topology_devices`.
      shape: sizes of the batch, in the order of `task.batch_dims`; as in training, rows are rounded
        up to a multiple of the devices that share them and of `train.accumulate`.
    """
    import jax

    from common_jax.training.mesh import make_mesh
    from launch.measure.flops import count_flops
    from launch.measure.hlo import Program

    chip = CHIPS[topology.partition(":")[0]]
    mesh = make_mesh(task.config.mesh, devices)
    begin = time.perf_counter()
    traced = trace_step(task, mesh, shape)
    fixed = (topology, chip, tuple(shape), dict(mesh.shape))
    try:
        compiled = traced.lower().compile()
    except jax.errors.JaxRuntimeError as error:
        needed = re.search(r"(?:[Uu]sed |temporaries \()([\d.]+)([KMGT])", str(error))
        if needed is None:
            raise
        size = float(needed[1]) * 2 ** (10 * (1 + "KMGT".index(needed[2])))
        return CompilePlan(*fixed, {"arguments": 0, "temporaries": int(size), "code": 0})
    seconds = time.perf_counter() - begin
    memory = compiled.memory_analysis()
    program = Program(compiled.as_text(), dict(mesh.shape))
    flops = count_flops(traced.jaxpr) / mesh.size
    sent = sum(collective.bytes for collective in program.collectives)
    return CompilePlan(
        *fixed,
        {
            "arguments": memory.argument_size_in_bytes
            + memory.output_size_in_bytes
            - memory.alias_size_in_bytes,
            "temporaries": memory.temp_size_in_bytes,
            "code": memory.generated_code_size_in_bytes,
        },
        flops,
        program.bytes_moved,
        program.collectives,
        {
            "arithmetic": flops / chip.peak[task.config.train.compute_dtype],
            "memory": program.bytes_moved / chip.bandwidth,
            "links": sent / chip.links,
            "compile": seconds,
        },
    )


def trace_step(task: "Task", mesh: "Mesh", shape: Sequence[int]) -> Any:
    """The training step, traced for a batch of the given sizes (`jax.stages.Traced`)."""
    import jax

    from common_jax.numerics import random_key
    from common_jax.sharding import row_shards
    from common_jax.training.state import abstract_state
    from common_jax.training.step import make_train_step

    share = row_shards(mesh) * task.config.train.accumulate
    rows = -(-shape[0] // share) * share
    batch = task.abstract_batch(dict(zip(task.batch_dims, (rows, *shape[1:]), strict=True)))
    abstract = abstract_state(task, mesh)
    key = jax.eval_shape(lambda: random_key(0))
    return make_train_step(task, mesh, abstract).trace(abstract, (batch,), key)


def topology_devices(topology: str) -> Sequence[Any]:
    """Descriptions of the devices of a topology "CHIP:SHAPE", to compile for.

    Raises:
      UserError: for a missing extra or an impossible shape.
    """
    from jax.experimental import topologies

    name, _, shape = topology.partition(":")
    gpu, extra = CHIPS[name].gpu, "cuda" if CHIPS[name].gpu else "tpu"
    needed = "jax_cuda13_plugin" if gpu else "libtpu"
    if importlib.util.find_spec(needed) is None:
        raise missing_extra(f"--topology {topology}:", extra, ", though no such device")
    try:
        if gpu is None:
            return topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
        machines = -(-int(shape) // _GPUS_A_MACHINE)
        if int(shape) > _GPUS_A_MACHINE and int(shape) % _GPUS_A_MACHINE:
            raise ValueError(f"machines have {_GPUS_A_MACHINE} GPUs")
        return topologies.get_topology_desc(
            platform="cuda",
            target_config=_target(CHIPS[name], gpu),
            topology=f"1x{machines}x{int(shape) // machines}",
        ).devices
    except (ValueError, RuntimeError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"--topology {topology}: no such topology ({reason})") from error


def _target(chip: Chip, gpu: Gpu) -> str:
    """XLA's GpuTargetConfig of a GPU, as text."""
    major, minor = gpu.capability
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_core: {gpu.shared_memory}
  shared_memory_per_block_optin: {gpu.block_memory}
  core_count: {gpu.cores} fpus_per_core: {gpu.fpus} clock_rate_ghz: {gpu.clock}
  l2_cache_size: {gpu.l2} memory_bandwidth: {int(chip.bandwidth)}
  device_memory_size: {chip.memory}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
runtime_version {{ major: 13 minor: 0 patch: 0 }}
device_description_str: "{chip.kind}"
"""


def topology(text: str) -> str:
    """Argument type: CHIP:SHAPE of a known chip."""
    name, _, shape = text.partition(":")
    if name not in CHIPS:
        raise argparse.ArgumentTypeError(f"{text!r}: the chips are {', '.join(CHIPS)}")
    pattern, example = (r"[1-9]\d*", "8") if CHIPS[name].gpu else (r"[1-9]\d*(x[1-9]\d*)+", "2x2")
    if not re.fullmatch(pattern, shape):
        raise argparse.ArgumentTypeError(f"{text!r}: write {name}:{example}")
    return text


def prepared_shapes(task: "Task") -> list[tuple[int, ...]]:
    """The shapes of the prepared corpus's batches."""
    task.prepare()
    plan = task.train_batches().plan
    sizes = ((int(rows), *map(int, w)) for rows, w in zip(plan.rows, plan.shapes, strict=True))
    return [shape[: len(task.batch_dims)] for shape in sizes]
