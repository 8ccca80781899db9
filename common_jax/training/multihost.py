"""What the processes of one run agree on.

They are JAX's (`jax.distributed`): one program, each process with its own devices and its own rows
of every batch. What is to be the same in all of them though one alone can know it, such as what
lies in the run's folder or that a file is missing on some machine, they tell each other here,
through the service that JAX starts them with: without a device, and however long one takes. Alone,
a process has nobody to ask.
"""

import functools
import itertools
import json
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax

from common_jax.errors import UserError

P = ParamSpec("P")
T = TypeVar("T")

_WEEK = 7 * 24 * 3600 * 1000  # in milliseconds; who has died is found out otherwise

_numbers = itertools.count()  # the same in all, since all ask the same
_in_first_process = False  # this is the first process, inside a call of `broadcast_from_first`


def is_multiprocess() -> bool:
    """Whether the run has more processes than this one."""
    # alone it is not asked: that would take the devices of who only watches over other processes
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_first() -> bool:
    """Whether this is the process that writes."""
    return not is_multiprocess() or jax.process_index() == 0


def broadcast_from_first(call: Callable[[], T]) -> T:
    """The result of `call` in the first process, which alone calls it.

    Inside such a call another one is a plain call.

    Args:
      call: returns what JSON can hold.

    Raises:
      UserError: in all processes, if it does in the first.
    """
    global _in_first_process
    if not is_multiprocess() or _in_first_process:
        return call()
    key = f"conv_attention/{next(_numbers)}"
    if is_first():
        _in_first_process = True
        try:
            _tell(key, _outcome(call))
        finally:
            _in_first_process = False
    return _value(_hear(key))


def first_process_only(method: Callable[P, T]) -> Callable[P, T]:
    """A function that only the first process runs; all get its result."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return broadcast_from_first(lambda: method(*args, **kwargs))

    return call


def gather_from_all(call: Callable[[], T]) -> list[T]:
    """What `call` gives in each process, once all have called it.

    Args:
      call: gives what JSON can hold.

    Raises:
      UserError: in all of them, if it does in any.
    """
    if not is_multiprocess():
        return [call()]
    key = f"conv_attention/{next(_numbers)}"
    said = _outcome(call)
    if "error" in said:
        said["error"] = f"process {jax.process_index()}: {said['error']}"
    _tell(f"{key}/{jax.process_index()}", said)
    return [_value(_hear(f"{key}/{process}")) for process in range(jax.process_count())]


def with_compile_barrier(function: Any) -> Any:
    """A jitted function that no process runs before all have compiled it for such arguments.

    Who runs it waits for the others on the devices, where patience may be short (Gloo connects
    within 30 seconds, or never), while compiling takes minutes, or no time where it was kept.
    """
    if not is_multiprocess():
        return function
    programs: dict[Any, Any] = {}

    def call(*args: Any) -> Any:
        leaves, structure = jax.tree.flatten(args)
        key = structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        if key not in programs:
            programs[key] = function.lower(*args).compile()
            gather_from_all(lambda: None)
        return programs[key](*args)

    return call


def _outcome(call: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"value": call()}
    except UserError as error:
        return {"error": str(error)}


def _value(said: dict[str, Any]) -> Any:
    if "error" in said:
        raise UserError(said["error"])
    return said["value"]


def _tell(key: str, said: dict[str, Any]) -> None:
    _client().key_value_set(key, json.dumps(said))


def _hear(key: str) -> dict[str, Any]:
    return json.loads(_client().blocking_key_value_get(key, _WEEK))


def _client() -> Any:
    """Of JAX's coordination service, which has no public door yet; Orbax takes this one too."""
    from jax._src import distributed

    return distributed.global_state.client
