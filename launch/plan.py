"""Compiles a training step for absent accelerators: memory, arithmetic and times."""

import argparse
import dataclasses
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common_jax.errors import UserError
from common_jax.planning.chips import CHIPS, GIB, Chip, Gpu
from launch.cli import Parser, command_line, configure_logging, run

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from common_jax.training.task import Task

DESCRIPTION = (
    __doc__
    + """

A topology is CHIP:SHAPE, the devices of a slice of TPUs (v5e:4x4, v5p:2x2x1) or the number of GPUs
(h100:8; eight a machine). The extra `tpu` or `cuda` must be installed, but no such device. A shape
is what `launch.train` compiles a step for: rows of a batch, then lengths (source and target for
translation, passage and question for reading, the texts for classification; packed batches have
rows alone). Without --shape every shape of the prepared corpus is planned for.

What the compiler says is exact: memory and exchanges. The rest is an estimate: bytes moved do not
see a GPU's cache, times are those of the makers' peak figures one at a time, and a GPU's kernels
are chosen without trying them.

example:
  python -m launch.plan --config configs/csan/wmt14_ende.py:big --topology v5e:4x4 --shape 512,32,32
  python -m launch.plan --config configs/csan/wmt14_ende.py --topology h100:8 --shape 3072,64,64"""
)

_TPU_ENVIRONMENT = {  # read when jax and libtpu are imported
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",  # any: libtpu looks for one, whatever it compiles for
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
_GPUS_A_MACHINE = 8
_TAKES_LESS = "fewer rows, train.accumulate, mesh.fsdp over more devices or bfloat16 take less"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a training step costs each device.

    Attributes:
      shape: of the batch, as in `--shape`.
      memory_bytes: by "arguments" (state and batch), "temporaries" and "code".
      flops: of products and convolutions, a device's share.
      hbm_bytes: read and written in its memory.
      collectives: what it sends, by kind and axes of the mesh.
      seconds: that these take at the chip's peak, by "arithmetic", "memory" and "links"; "compile"
        is this machine's.
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
    def fits(self) -> bool:
        return sum(self.memory_bytes.values()) <= self.chip.memory

    @property
    def row(self) -> dict[str, Any]:
        """Of the JSON file."""
        return {
            "topology": self.topology,
            "shape": list(self.shape),
            "mesh": dict(self.mesh),
            "memory_bytes": sum(self.memory_bytes.values()),
            "memory": dict(self.memory_bytes),
            "chip_memory_bytes": self.chip.memory,
            "flops": self.flops,
            "hbm_bytes": self.hbm_bytes,
            "collective_bytes": sum(one.bytes for one in self.collectives),
            "collectives": [dataclasses.asdict(one) for one in self.collectives],
            "seconds": dict(self.seconds),
            "fits": self.fits,
        }

    @property
    def cells(self) -> dict[str, Any]:
        """Of the printed table."""
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
            sum(one.bytes for one in self.collectives) / 1e9,
            *(1e3 * seconds for seconds in busy.values()),
            100 * busy["arithmetic"] / max(busy.values()),
            self.seconds["compile"],
        )
        return cells | dict(zip(_MEASURES, values, strict=True))


_MEASURES = (
    *("GFLOP", "moved GB", "sent GB", "arithmetic ms", "memory ms", "links ms"),
    *("use at most %", "compile s"),
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.plan", description=DESCRIPTION)
    parser.add_argument("--config", required=True, metavar="FILE[:ARG]", help="config file")
    parser.add_argument(
        "--config.KEY", metavar="VALUE", dest="_", help="set a field: --config.mesh.fsdp=4"
    )
    parser.add_argument(
        "--topology",
        required=True,
        metavar="CHIP:SHAPE,...",
        type=lambda text: [_topology(one) for one in text.split(",")],
        help=f"{' | '.join(CHIPS)}, each with a shape",
    )
    parser.add_argument(
        "--shape",
        action="append",
        metavar="N,N,...",
        type=_sizes,
        help="sizes of a batch; may be given several times",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    args, overrides = parser.parse_known_args(argv)
    if args.json and not args.json.absolute().parent.is_dir():
        raise UserError(f"--json: there is no folder {args.json.absolute().parent}")
    os.environ |= _TPU_ENVIRONMENT
    configure_logging()
    from common_jax.training.config import parse, task_class
    from launch.timing import table

    config = parse(args.config, overrides)
    task = task_class(config.task)(config)
    shapes = args.shape or prepared_shapes(task)
    for shape in shapes:
        if len(shape) != len(task.batch_dims):
            raise UserError(
                f"--shape {','.join(map(str, shape))}: a batch has {len(task.batch_dims)} sizes, "
                f"{','.join(task.batch_dims)}"
            )
    plans = []
    for topology in args.topology:
        devices = topology_devices(*topology)
        plans += [plan(task, f"{topology[0]}:{topology[1]}", devices, shape) for shape in shapes]
    print(table([one.cells for one in plans]))
    for one in plans:
        for collective in one.collectives:
            print(
                f"{one.topology} {','.join(map(str, one.shape))}: {collective.count} "
                f"{collective.kind} over {' x '.join(collective.axes)}, "
                f"{collective.bytes / 1e6:,.1f} MB"
            )
    if args.json:
        from common_jax.io.atomic import writing

        report = {"command": command_line("plan", argv), "rows": [one.row for one in plans]}
        with writing(args.json):
            args.json.write_text(json.dumps(report, indent=1) + "\n")
    if not all(one.fits for one in plans):
        for one in plans:
            if not one.fits:
                print(
                    f"{one.topology} {','.join(map(str, one.shape))}: does not fit: "
                    f"{sum(one.memory_bytes.values()) / GIB:.1f} GiB a device, which has "
                    f"{one.chip.memory / GIB:.1f}; {_TAKES_LESS}",
                    file=sys.stderr,
                )
        sys.exit(1)


def plan(task: "Task", topology: str, devices: Sequence[Any], shape: Sequence[int]) -> Plan:
    """Compiles the step that `launch.train` runs, for devices that need not be here.

    Args:
      topology: "CHIP:SHAPE".
      shape: sizes of the batch, in the order of `task.batch_dims`; rows are rounded up to a
        multiple of what shares them, as training does.
    """
    import jax

    from common_jax.planning.flops import count_flops
    from common_jax.planning.hlo import Program
    from common_jax.training.mesh import make_mesh

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
        return Plan(*fixed, {"arguments": 0, "temporaries": int(size), "code": 0})
    seconds = time.perf_counter() - begin
    memory = compiled.memory_analysis()
    program = Program(compiled.as_text(), dict(mesh.shape))
    flops = count_flops(traced.jaxpr) / mesh.size
    sent = sum(one.bytes for one in program.collectives)
    return Plan(
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
    """The step of `launch.train`, traced for a batch of some sizes (`jax.stages.Traced`)."""
    import jax

    from common_jax.training.state import abstract_state
    from common_jax.training.step import make_train_step

    share = mesh.shape["data"] * mesh.shape["fsdp"] * task.config.train.accumulate
    rows = -(-shape[0] // share) * share
    batch = task.abstract_batch(dict(zip(task.batch_dims, (rows, *shape[1:]), strict=True)))
    abstract = abstract_state(task, mesh)
    key = jax.eval_shape(lambda: jax.random.key(0))
    return make_train_step(task, mesh, abstract).trace(abstract, (batch,), key)


def topology_devices(name: str, shape: str) -> Sequence[Any]:
    """The devices of a topology, to compile for.

    Raises:
      UserError: for a missing extra, or a shape that there is not.
    """
    from jax.experimental import topologies

    gpu, extra = CHIPS[name].gpu, "cuda" if CHIPS[name].gpu else "tpu"
    needed = "jax_cuda13_plugin" if gpu else "libtpu"
    if importlib.util.find_spec(needed) is None:
        raise UserError(
            f"--topology {name}:{shape}: needs the extra {extra} "
            f"(pip install 'conv-attention-jax[{extra}]'), though no such device"
        )
    try:
        if gpu is None:
            return topologies.get_topology_desc(
                platform="tpu", topology_name=f"{name}:{shape}"
            ).devices
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
        raise UserError(f"--topology {name}:{shape}: no such topology ({reason})") from error


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


def _topology(text: str) -> tuple[str, str]:
    name, _, shape = text.partition(":")
    if name not in CHIPS:
        raise argparse.ArgumentTypeError(f"{text!r}: the chips are {', '.join(CHIPS)}")
    pattern, example = (r"[1-9]\d*", "8") if CHIPS[name].gpu else (r"[1-9]\d*(x[1-9]\d*)+", "2x2")
    if not re.fullmatch(pattern, shape):
        raise argparse.ArgumentTypeError(f"{text!r}: write {name}:{example}")
    return name, shape


def _sizes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d{0,8}(,[1-9]\d{0,8})*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: write sizes above 0, such as 512,32,32")
    return tuple(map(int, text.split(",")))


def prepared_shapes(task: "Task") -> list[tuple[int, ...]]:
    """Of the corpus's batches."""
    task.prepare()
    plan = task.train_batches().plan
    sizes = ((int(rows), *map(int, w)) for rows, w in zip(plan.rows, plan.shapes, strict=True))
    return [one[: len(task.batch_dims)] for one in sizes]


if __name__ == "__main__":
    run(main)
