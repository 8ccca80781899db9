"""A jitted function compiled for the shapes of its arrays, within a limit of memory."""

import functools
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any, ClassVar

import numpy as np

from common_jax.deploy.memory_maps import nearly_used_up
from common_jax.errors import UserError

Shapes = tuple[tuple[str, tuple[int, ...]], ...]  # of arrays, by name


class InputTooLargeError(UserError):
    """A text whose computation needs more memory than is allowed."""


class BoundedProgram:
    """A function (parameters, arrays) -> arrays that refuses to run if its compiled program for
    these shapes needs too much memory, by XLA's plan of temporary arrays and outputs.

    With a `compiler`, arrays of new shapes are computed by a program for larger ones if there is
    one: padded with zeros, and some rows at a time. Their own is compiled in the background.
    """

    _all: ClassVar["weakref.WeakSet[BoundedProgram]"] = weakref.WeakSet()

    def __init__(
        self,
        lower: Callable[..., Any],
        gigabytes: float,
        stored: Any = None,
        compiler: Executor | None = None,
    ):
        """
        Args:
          lower: the method of the jitted function.
          gigabytes: the most memory that a computation may need, in GiB.
          stored: its executables on disk (`common_jax.deploy.executables.Executables`), or None.
          compiler: compiles in the background, for functions of arrays [B, ...] to trees of arrays
            [B, ...] and scalars, whose results do not depend on padding; None compiles when called.
        """
        self._lower = lower
        self._gigabytes = gigabytes
        self._stored = stored
        self._compiler = compiler
        self._programs: dict[Shapes, tuple[Any, float]] = {}
        self._compiling: dict[Shapes, threading.Lock] = {}
        self._all.add(self)

    def __call__(self, params: Any, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """The function's result, with more rows and columns if it is of a larger program; raises
        InputTooLargeError if it would need more memory."""
        import jax

        shapes = tuple((name, np.shape(array)) for name, array in sorted(arrays.items()))
        if (known := self._larger(shapes)) is not None:
            self._compile_later(shapes, params, arrays)
            larger, program = known
            results = [program(params, rows) for rows in _padded(arrays, dict(larger))]
            outputs: Mapping[str, Any] = jax.tree.map(_joined, *results)
            return outputs

        # the program for these shapes
        program, needed = self._compiled(shapes, params, arrays)
        if program is None:
            raise InputTooLargeError(
                f"too long: it needs {needed:.1f} GiB of memory, and {self._gigabytes:g} are "
                "allowed (--max_memory)"
            )
        outputs = jax.block_until_ready(program(params, arrays))
        return outputs

    def _larger(self, shapes: Shapes) -> tuple[Shapes, Any] | None:
        """The program that computes these shapes with the least padding, and its own; None if they
        have a program, or no other fits."""
        programs = {other: program for other, (program, _) in [*self._programs.items()] if program}
        if self._compiler is None or shapes in programs:
            return None
        fitting = (other for other in programs if _fits(shapes, other))
        best = min(fitting, key=functools.partial(_cost, shapes[0][1][0]), default=None)
        return None if best is None else (best, programs[best])

    def _compile_later(self, shapes: Shapes, params: Any, arrays: Mapping[str, Any]) -> None:
        if shapes not in self._compiling and not nearly_used_up():
            self._compiling[shapes] = threading.Lock()
            assert self._compiler is not None
            self._compiler.submit(self._compiled, shapes, params, arrays)

    def _compiled(self, shapes: Shapes, params: Any, arrays: Mapping[str, Any]) -> Any:
        """The program for these shapes, None if it needs too much memory, and its GiB.

        The programs of this process are released first if their memory maps are nearly used up.
        """
        import jax

        with self._compiling.setdefault(shapes, threading.Lock()):
            if (known := self._programs.get(shapes)) is not None:
                return known
            if nearly_used_up():
                for bounded in [*self._all]:
                    bounded._release()
                jax.clear_caches()
            lower = functools.partial(self._lower, params, arrays)
            stored = self._stored
            compiled = lower().compile() if stored is None else stored.compiled(shapes, lower)
            memory = compiled.memory_analysis()
            needed = (memory.temp_size_in_bytes + memory.output_size_in_bytes) / 2**30
            program = compiled if needed <= self._gigabytes else None
            self._programs[shapes] = known = program, needed
            return known

    def _release(self) -> None:
        """Releases the programs; with a compiler all but the first, by which others wait for
        nothing."""
        kept = [*self._programs.items()][: 1 if self._compiler else 0]
        self._programs = dict(kept)
        self._compiling = {shapes: threading.Lock() for shapes, _ in kept}


def _fits(shapes: Shapes, larger: Shapes) -> bool:
    """Whether arrays, some rows at a time, can be padded to larger shapes."""
    pairs = zip(shapes, larger, strict=False)
    return len(shapes) == len(larger) and all(
        name == other and len(dims) == len(most) and all(map(int.__le__, dims[1:], most[1:]))
        for (name, dims), (other, most) in pairs
    )


def _cost(rows: int, shapes: Shapes) -> int:
    """The numbers in the arrays of all computations for `rows`."""
    calls = -(-rows // shapes[0][1][0])
    return calls * sum(math.prod(dims) for _, dims in shapes)


def _padded(
    arrays: Mapping[str, Any], larger: Mapping[str, tuple[int, ...]]
) -> Iterator[dict[str, Any]]:
    """The rows of arrays, some at a time, padded with zeros to larger shapes."""
    rows = next(iter(larger.values()))[0]
    total = len(next(iter(arrays.values())))
    for first in range(0, total, rows):
        padded = {}
        for name, array in arrays.items():
            part = np.asarray(array)[first : first + rows]
            dims = zip(part.shape, larger[name], strict=True)
            padded[name] = np.pad(part, [(0, most - dim) for dim, most in dims])
        yield padded


def _joined(*arrays: Any) -> Any:
    """The rows of several computations; a scalar is the same in all."""
    return np.concatenate(arrays) if np.ndim(arrays[0]) else arrays[0]
