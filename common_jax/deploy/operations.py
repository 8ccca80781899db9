"""Checks that an exported program only computes on arrays.

Custom calls run native functions by name (a callback calls an address of the process that made the
program), and other operations communicate with the host or with other devices.
"""

from collections.abc import Iterator

from jax import export
from jax.extend.mlir.ir import Operation, StringAttr, WalkResult
from jax.interpreters import mlir

from common_jax.errors import UserError

DIALECTS = {"builtin", "func", "stablehlo", "chlo"}
CUSTOM_CALLS = {  # only with symbolic dims; removed once these are known
    "shape_assertion",  # jax's check of dims
    "stablehlo.dynamic_reduce_window",  # a cumulative sum; its reducer is a function of the program
}
COMMUNICATION = {
    *("infeed", "outfeed", "send", "recv", "create_token", "after_all"),
    *("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute"),
    *("reduce_scatter", "cross-replica-sum", "partition_id", "replica_id"),
}


def require_allowed(program: export.Exported, place: str) -> None:
    """Raises UserError if a program does anything but compute on arrays.

    Args:
      place: of the program, for the message.
    """
    if program.nr_devices != 1:
        raise UserError(f"{place}: a program for {program.nr_devices} devices, not for one")
    if program.ordered_effects or program.unordered_effects:
        raise UserError(f"{place}: a program with effects beside its results")
    with mlir.make_ir_context():
        module = mlir.ir.Module.parse(program.mlir_module())
        if unknown := next(_not_allowed(module.operation), None):
            raise UserError(f"{place}: {unknown} is not allowed in an export's program")


def _not_allowed(module: Operation) -> Iterator[str]:
    """The operations of a module that are not allowed."""
    names = list[str]()

    def visit(operation: Operation) -> WalkResult:
        dialect, _, name = operation.name.partition(".")
        if name == "custom_call":
            target = StringAttr(operation.attributes["call_target_name"]).value
            if target not in CUSTOM_CALLS:
                names.append(f"a call of {target[:80]!r}")
        elif dialect not in DIALECTS or name in COMMUNICATION:
            names.append(operation.name[:80])
        return WalkResult.ADVANCE

    module.walk(visit)
    return iter(names)
