"""Exported StableHLO programs, which XLA runs on a CPU, a GPU or a TPU without model code.

A program maps parameters and arrays to arrays, with symbolic dims for the number of rows and the
lengths.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from jax import export

from common_jax.errors import UserError
from common_jax.export.format import PARAMETERS, PROGRAMS
from common_jax.io.parameters import named_parameters, read_safetensors, require_same
from common_jax.predictor import BoundedProgram, CompiledFunctions, Compute, format_options

PLATFORMS = ("cpu", "cuda", "tpu")


def serialized(serve: Any, params: Any, inputs: Mapping[str, tuple[str, Any]]) -> bytes:
    """Exports `serve(params, arrays)`.

    Args:
      params: the parameters' shapes and types.
      inputs: each array's dims, with letters for symbolic ones, and type.
    """
    scope = export.SymbolicScope()
    arrays = {
        name: jax.ShapeDtypeStruct(export.symbolic_shape(dims, scope=scope), dtype)
        for name, (dims, dtype) in inputs.items()
    }
    exported = export.export(jax.jit(serve), platforms=PLATFORMS)(params, arrays)
    return bytes(exported.serialize())


class ExportedPrograms(CompiledFunctions):
    """The programs of an export."""

    def __init__(self, path: Path, choices: Mapping[str, Mapping[str, int]], made_with: str):
        """
        Args:
          path: of the export.
          choices: the static arguments of each program, by its file.
          made_with: the version of jax; older ones may not read the programs.

        Raises:
          UserError: if this jax is older.
        """
        self._path, self._choices = path, choices
        if _numbers(jax.__version__) < _numbers(made_with):
            raise UserError(
                f"{path}: made with jax {made_with}, newer than this jax {jax.__version__}"
            )

    def __call__(self, **static: int | float) -> Compute:
        file = next((file for file, choices in self._choices.items() if choices == static), None)
        if file is None:
            requested = format_options(static) or "no choice"
            available = " or ".join(
                format_options(choices) or "no choice" for choices in self._choices.values()
            )
            raise UserError(
                f"{self._path}: has no program for {requested}, but for {available}; "
                "launch.export makes others"
            )
        program = self._read(self._path / PROGRAMS / file)
        call = BoundedProgram(jax.jit(program.call), self.memory)

        def compute(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
            try:
                return call(self._params, arrays)
            except (TypeError, ValueError) as error:  # of names, types or dims
                reason = str(error).strip().splitlines()[0]
                raise UserError(
                    f"{self._path / PROGRAMS / file}: does not fit the export's settings or "
                    f"vocabulary: {reason}"
                ) from error

        return compute

    def choices(self, name: str) -> tuple[int, ...]:
        return tuple(sorted(c[name] for c in self._choices.values() if name in c))

    def _read(self, file: Path) -> export.Exported:
        try:
            program = export.deserialize(bytearray(file.read_bytes()))
            (params, _), _ = jax.tree.unflatten(program.in_tree, program.in_avals)
            expected = named_parameters(params)
        except OSError as error:
            raise UserError(f"{file}: {error.strerror}") from error
        except Exception as error:  # a damaged file raises many kinds
            raise UserError(f"{file}: not a program that this jax can read") from error
        require_same(str(self._path / PARAMETERS), self._params, expected)
        return program

    @functools.cached_property
    def _params(self) -> dict[str, Any]:
        return jax.device_put(read_safetensors(self._path / PARAMETERS))


def _numbers(version: str) -> tuple[int, ...]:
    """0.10.2.dev3 -> (0, 10, 2)."""
    components = version.split(".")[:3]
    return tuple(int(component[:9]) for component in components if component.isdecimal())
