"""Broadcast and all-gather of small JSON values and errors between the processes of a run.

They use the coordination service of `jax.distributed`, without devices and without a timeout; in a
single process they are plain calls.
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

_WEEK = 7 * 24 * 3600 * 1000  # in milliseconds; dead processes are detected elsewhere

_call_numbers = itertools.count()  # the same in all processes
_in_first_process = False  # inside a call of `broadcast_from_first` in the first process


def is_multiprocess() -> bool:
    """Whether the run has more processes than this one."""
    # process_count() initializes the devices, which a parent that only starts processes must not
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_first() -> bool:
    """Whether this is the first process, which writes files."""
    return not is_multiprocess() or jax.process_index() == 0


def broadcast_from_first(call: Callable[[], T]) -> T:
    """The result of `call` in the first process, which is the only one to call it.

    Nested calls are plain calls.

    Args:
      call: returns a JSON value.

    Raises:
      UserError: in all processes, if `call` raises it in the first.
    """
    global _in_first_process
    if not is_multiprocess() or _in_first_process:
        return call()
    key = f"conv_attention/{next(_call_numbers)}"
    if is_first():
        _in_first_process = True
        try:
            _publish(key, _result_of(call))
        finally:
            _in_first_process = False
    return _value(_receive(key))


def first_process_only(method: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function that only the first process runs; all processes get its result."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return broadcast_from_first(lambda: method(*args, **kwargs))

    return call


def gather_from_all(call: Callable[[], T]) -> list[T]:
    """The results of `call` in all processes, once all have called it.

    Args:
      call: returns a JSON value.

    Raises:
      UserError: in all processes, if `call` raises it in any.
    """
    if not is_multiprocess():
        return [call()]
    key = f"conv_attention/{next(_call_numbers)}"
    result = _result_of(call)
    if "error" in result:
        result["error"] = f"process {jax.process_index()}: {result['error']}"
    _publish(f"{key}/{jax.process_index()}", result)
    return [_value(_receive(f"{key}/{process}")) for process in range(jax.process_count())]


def with_compile_barrier(function: Any) -> Any:
    """A jitted function that runs only after all processes have compiled it for the arguments.

    Collectives have short timeouts (Gloo: 30 seconds to connect), while compilation takes minutes,
    or no time in processes with a compilation cache.
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

    call.trace = function.trace  # type: ignore[attr-defined]
    return call


def _result_of(call: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"value": call()}
    except UserError as error:
        return {"error": str(error)}


def _value(result: dict[str, Any]) -> Any:
    if "error" in result:
        raise UserError(result["error"])
    return result["value"]


def _publish(key: str, result: dict[str, Any]) -> None:
    _client().key_value_set(key, json.dumps(result))


def _receive(key: str) -> dict[str, Any]:
    return json.loads(_client().blocking_key_value_get(key, _WEEK))


def _client() -> Any:
    """The client of JAX's coordination service, which is not public yet; Orbax uses it too."""
    from jax._src import distributed

    return distributed.global_state.client
