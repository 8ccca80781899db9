"""Compiles a training step for absent devices: its memory, arithmetic and times."""

import dataclasses
import re
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from launch.measure.chips import CHIPS, GIB, Chip
from launch.plan.collectives import Collective, collectives

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from common_jax.training.task import Task


class CompilePlan(NamedTuple):
    """Cost of a training step for each device.

    Attributes:
      shape: sizes of the batch, as in `--shape`.
      memory_bytes: by "arguments" (state and batch), "temporaries" and "code".
      flops: of products and convolutions, a device's share.
      bytes_accessed: that the kernels read and write, by XLA's cost analysis: also in a TPU's
        on-chip memory or a GPU's cache; the body of a loop counts once.
      loops: their number in the program.
      collectives: data sent, by kind and mesh axes.
      seconds: time at the chip's peak rates, by "arithmetic", "links" and, for a GPU, "memory";
        "compile" is the compilation's on this machine.
    """

    topology: str
    chip: Chip
    shape: tuple[int, ...]
    mesh: Mapping[str, int]
    memory_bytes: Mapping[str, int]
    flops: float = 0
    bytes_accessed: float = 0
    loops: int = 0
    collectives: Sequence[Collective] = ()
    seconds: Mapping[str, float] = MappingProxyType({})

    @property
    def label(self) -> str:
        """Topology and shape, for a message."""
        return f"{self.topology} {','.join(map(str, self.shape))}"

    @property
    def fits(self) -> bool:
        """Whether the memory of the chip suffices."""
        return sum(self.memory_bytes.values()) <= self.chip.memory

    @property
    def sent(self) -> int:
        """Bytes that a device sends to others."""
        return sum(collective.bytes for collective in self.collectives)

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
            "bytes_accessed": self.bytes_accessed,
            "loops": self.loops,
            "collective_bytes": self.sent,
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
            return cells

        # each time at its peak rate; a step takes at least the longest
        busy = {name: self.seconds.get(name) for name in ("arithmetic", "memory", "links")}
        longest = max(filter(None, busy.values()))
        return {
            **cells,
            "GFLOP": self.flops / 1e9,
            "accessed GB": self.bytes_accessed / 1e9,
            "sent GB": self.sent / 1e9,
            **{f"{name} ms": seconds and 1e3 * seconds for name, seconds in busy.items()},
            "use at most %": 100 * self.seconds["arithmetic"] / longest,
            "compile s": self.seconds["compile"],
        }


def compile_plan(
    task: "Task", topology: str, devices: Sequence[Any], shape: Sequence[int]
) -> CompilePlan:
    """Compiles the training step for a topology.

    Args:
      topology: "CHIP:SHAPE".
      devices: its devices, of `topology_devices`.
      shape: sizes of the batch, in the order of `batch_dims`; as in training, rows are rounded up
        to a multiple of the devices that share them and of `train.accumulate`.
    """
    import jax

    from common_jax.training.mesh import make_mesh
    from launch.measure.flops import count_flops

    # the program, or the memory that it would need
    chip = CHIPS[topology.partition(":")[0]]
    mesh = make_mesh(task.config.mesh, devices)
    plan = CompilePlan(topology, chip, tuple(shape), dict(mesh.shape), {})
    begin = time.perf_counter()
    traced = trace_step(task, mesh, shape)
    try:
        compiled = traced.lower().compile()
    except jax.errors.JaxRuntimeError as error:
        needed = re.search(r"(?:[Uu]sed |temporaries \()([\d.]+)([KMGT])", str(error))
        if needed is None:
            raise
        size = int(float(needed[1]) * 2 ** (10 * (1 + "KMGT".index(needed[2]))))
        return plan._replace(memory_bytes={"arguments": 0, "temporaries": size, "code": 0})
    seconds = time.perf_counter() - begin

    # what it needs, computes and exchanges
    memory = compiled.memory_analysis()
    arguments = memory.argument_size_in_bytes + memory.output_size_in_bytes
    text = compiled.as_text()
    plan = plan._replace(
        memory_bytes={
            "arguments": arguments - memory.alias_size_in_bytes,
            "temporaries": memory.temp_size_in_bytes,
            "code": memory.generated_code_size_in_bytes,
        },
        flops=count_flops(traced.jaxpr) / mesh.size,
        bytes_accessed=_cost_analysis(compiled)["bytes accessed"],
        loops=text.count(" while("),
        collectives=collectives(text, dict(mesh.shape)),
    )

    # times at the chip's peak rates
    times = {
        "arithmetic": plan.flops / chip.peak[task.config.train.compute_dtype],
        "links": plan.sent / chip.links,
        "compile": seconds,
    }
    if chip.gpu:  # a TPU's kernels mostly read and write on the chip
        times["memory"] = plan.bytes_accessed / chip.bandwidth
    return plan._replace(seconds=times)


def _cost_analysis(compiled: Any) -> Mapping[str, float]:
    """XLA's cost analysis of a program; for a GPU, which has none, the one of any program."""
    import jax
    from jax._src.lib import _jax

    if analysis := compiled.cost_analysis():
        return analysis
    (module,) = compiled.runtime_executable().hlo_modules()
    return _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)


def trace_step(task: "Task", mesh: "Mesh", shape: Sequence[int]) -> Any:
    """The training step, traced for a batch of the given sizes (`jax.stages.Traced`)."""
    import jax

    from common_jax.numerics import random_key
    from common_jax.sharding import row_shards
    from common_jax.training.state import abstract_state
    from common_jax.training.step import make_train_step

    share = row_shards(mesh) * task.config.train.accumulate
    rows = -(-shape[0] // share) * share
    batch = abstract_batch(task, (rows, *shape[1:]))
    abstract = abstract_state(task, mesh)
    key = jax.eval_shape(lambda: random_key(0))
    return make_train_step(task, mesh, abstract).trace(abstract, (batch,), key)


def batch_dims(task: "Task") -> tuple[str, ...]:
    """The letters of a training batch's symbolic dims, rows first."""
    dims = ", ".join(["B", *(dims for dims, _ in task.training_inputs.values())])
    return tuple(dict.fromkeys(dim for dim in dims.split(", ") if not dim.isdecimal()))


def abstract_batch(task: "Task", shape: Sequence[int]) -> dict[str, Any]:
    """The shapes and types of a training batch (`jax.ShapeDtypeStruct`), by name.

    Args:
      shape: sizes in the order of `batch_dims`.
    """
    import jax

    sizes = dict(zip(batch_dims(task), shape, strict=True))
    arrays = {**task.training_inputs, "index": ("B", np.int32)}
    batch = {}
    for name, (dims, dtype) in arrays.items():
        lengths = tuple(sizes.get(dim) or int(dim) for dim in dims.split(", "))
        batch[name] = jax.ShapeDtypeStruct(lengths, dtype)
    return batch


def prepared_shapes(task: "Task") -> list[tuple[int, ...]]:
    """The shapes of the prepared corpus's batches."""
    task.prepare()
    plan = task.train_batches().plan
    number = len(batch_dims(task))
    shapes = []
    for rows, widths in zip(plan.rows, plan.shapes, strict=True):
        shapes.append((int(rows), *map(int, widths))[:number])
    return shapes
