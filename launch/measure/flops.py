"""Floating-point operations of a traced program."""

import math
from collections.abc import Iterator
from typing import Any


def count_flops(jaxpr: Any) -> int:
    """The operations of products and convolutions, two for a multiplication and an addition.

    The body of a scan counts for each iteration, that of a while loop, whose length is unknown,
    once. Of a conditional the most expensive branch counts. Elementwise operations do not count.

    Args:
      jaxpr: of `jax.make_jaxpr` or `jax.jit(f).trace(...)`, global shapes.
    """
    return sum(map(_of_equation, getattr(jaxpr, "jaxpr", jaxpr).eqns))


def _of_equation(equation: Any) -> int:
    name = equation.primitive.name
    params = equation.params
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        left = equation.invars[0].aval.shape
        return 2 * equation.outvars[0].aval.size * math.prod(left[axis] for axis in contracted)
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval
        features = params["dimension_numbers"].rhs_spec[0]
        return 2 * equation.outvars[0].aval.size * (kernel.size // kernel.shape[features])
    inner = [count_flops(jaxpr) for value in params.values() for jaxpr in _jaxprs(value)]
    if name == "cond":
        return max(inner)
    return sum(inner) * (params["length"] if name == "scan" else 1)


def _jaxprs(value: Any) -> Iterator[Any]:
    if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _jaxprs(item)
