"""The table of a model's parameters."""

import dataclasses
import math

import jax
from jax.sharding import AbstractMesh

from common_jax.io.parameters import named_parameters
from common_jax.training.mesh import mesh_shape
from common_jax.training.state import abstract_state
from common_jax.training.task import Task


def describe(task: Task) -> str:
    """The table of parameters: name, shape, count, sharding, bytes per device; totals of the state,
    of parameters without word vectors, and of all. Needs none of the devices of the config's mesh.
    """
    least = math.prod(max(1, size) for size in dataclasses.astuple(task.config.mesh))
    shape = mesh_shape(task.config.mesh, max(jax.device_count(), least))
    state = abstract_state(task, AbstractMesh(tuple(shape.values()), tuple(shape)))
    rows = [("parameter", "shape", "count", "sharding", "bytes/device")]
    parameters = named_parameters(state.params)
    for name, leaf in parameters.items():
        dims = "x".join(map(str, leaf.shape))
        axes = [a or "-" for a in leaf.sharding.spec]
        spread = ",".join(axes) if any(leaf.sharding.spec) else "replicated"
        rows.append((name, dims, f"{leaf.size:,}", spread, f"{_bytes(leaf):,}"))

    def is_table(name, leaf):
        return name.endswith("word_embedding") and leaf.ndim == 2

    model_leaves = [leaf for name, leaf in parameters.items() if not is_table(name, leaf)]
    without = {"without word vectors": model_leaves} if len(model_leaves) < len(parameters) else {}
    for name, tree in {"with optimizer and EMA": state, **without, "total": state.params}.items():
        leaves = jax.tree.leaves(tree)
        count = sum(leaf.size for leaf in leaves)
        rows.append((name, "", f"{count:,}", "", f"{sum(map(_bytes, leaves)):,}"))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i in (0, 1, 3) else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _bytes(leaf: jax.ShapeDtypeStruct) -> int:
    """The bytes of an array on one device."""
    return math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
