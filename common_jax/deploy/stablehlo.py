"""Exported StableHLO programs, which XLA runs on a CPU, a GPU or a TPU without model code.

A program maps parameters and arrays to arrays; numbers of rows and lengths are symbolic dims.
"""

import contextlib
import functools
import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import jax
from jax import export

from common_jax.deploy.bounded_program import BoundedProgram
from common_jax.deploy.executables import Executables
from common_jax.deploy.format import PARAMETERS, PROGRAMS
from common_jax.deploy.operations import require_allowed
from common_jax.deploy.predictor import (
    CompiledFunctions,
    Compute,
    format_options,
    parallel_batches,
)
from common_jax.deploy.safetensors_file import read_safetensors
from common_jax.deploy.weights import require_scales
from common_jax.errors import UserError
from common_jax.io.checksums import describe
from common_jax.io.parameters import named_parameters, require_same

PLATFORMS = ("cpu", "cuda", "tpu")


def serialized(serve: Any, params: Any, inputs: Mapping[str, tuple[str, Any]]) -> bytes:
    """Exports `serve(params, arrays)` as a program.

    Args:
      params: the shapes and dtypes of the parameters.
      inputs: each array's dims, with letters for symbolic ones, and dtype.

    Raises:
      UserError: if it does anything but compute on arrays.
    """
    scope = export.SymbolicScope()
    arrays = {
        name: jax.ShapeDtypeStruct(export.symbolic_shape(dims, scope=scope), dtype)
        for name, (dims, dtype) in inputs.items()
    }
    with _without_file_names():
        exported = export.export(jax.jit(serve), platforms=PLATFORMS)(params, arrays)
    require_allowed(exported, "the model")
    return bytes(exported.serialize())


@contextlib.contextmanager
def _without_file_names() -> Iterator[None]:
    """Omits the names of source files from the operations of programs."""
    before = jax.config.jax_hlo_source_file_canonicalization_regex
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")
    try:
        yield
    finally:
        jax.config.update("jax_hlo_source_file_canonicalization_regex", before)


class Programs:
    """The programs of the export in a folder, which share its parameters."""

    def __init__(self, path: Path, digests: Mapping[str, str]):
        """
        Args:
          digests: the SHA-256 of each file that may be read, by name.
        """
        self._path = path
        self._digests = digests

    def compute(self, file: str, memory: float, compiler: Executor | None) -> Compute:
        """The program of a file, compiled when it is called.

        Args:
          memory: the most that a computation may need, in GiB.
          compiler: of `BoundedProgram`.

        Raises:
          UserError: if it cannot be read, is another file than that with the digest, does anything
            but compute on arrays, or expects other parameters than the export's.
        """
        path = self._path / PROGRAMS / file
        content = _content(path)
        self._require(f"{PROGRAMS}/{file}", hashlib.sha256(content).hexdigest())
        stored = Executables.of(content, self._params)
        read = functools.cache(lambda: jax.jit(self._program(path, content).call))
        if stored is None or not stored.folder.exists():
            read()  # raises an error now, not at the first call
        call = BoundedProgram(lambda *inputs: read().lower(*inputs), memory, stored, compiler)

        def compute(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
            try:
                return call(self._params, arrays)
            except (TypeError, ValueError) as error:  # of names, types or dims
                reason = str(error).strip().splitlines()[0]
                raise UserError(
                    f"{path}: does not fit the export's settings or vocabulary: {reason}"
                ) from error

        return compute

    def _program(self, file: Path, content: bytes) -> export.Exported:
        try:
            program = export.deserialize(bytearray(content))
            (params, _), _ = jax.tree.unflatten(program.in_tree, program.in_avals)
            expected = named_parameters(params)
        except Exception as error:  # a damaged file raises many kinds
            raise UserError(f"{file}: not a program that this jax can read") from error
        require_allowed(program, str(file))
        require_same(str(self._path / PARAMETERS), self._params, expected)
        return program

    @functools.cached_property
    def _params(self) -> dict[str, Any]:
        file = self._path / PARAMETERS
        params = read_safetensors(file)
        self._require(PARAMETERS, describe(file)["sha256"])
        require_scales(str(file), params)
        return jax.device_put(params)

    def _require(self, name: str, digest: str) -> None:
        """Raises UserError for the digest of another file than the one that was verified."""
        if self._digests.get(name) != digest:
            raise UserError(
                f"{self._path / name}: has changed since the export was loaded; load it again"
            )


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error


class ExportedPrograms(CompiledFunctions):
    """The programs of an export by their static arguments."""

    def __init__(
        self,
        path: Path,
        choices: Mapping[str, Mapping[str, int]],
        made_with: str,
        digests: Mapping[str, str],
    ):
        """
        Args:
          path: of the export.
          choices: the static arguments of each program, by its file.
          digests: the SHA-256 of its files, by name, when they were verified.
          made_with: the version of jax; older ones may not read the programs.

        Raises:
          UserError: if this jax is older.
        """
        self._path = path
        self._choices = choices
        self._programs = Programs(path, digests)
        self._compute = functools.cache(
            lambda file: self._programs.compute(file, self.memory, self.compiler)
        )
        self.at_once = parallel_batches()
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
        return self._compute(file)

    def choices(self, name: str) -> tuple[int, ...]:
        return tuple(sorted(c[name] for c in self._choices.values() if name in c))


def _numbers(version: str) -> tuple[int, ...]:
    """0.10.2.dev3 -> (0, 10, 2)."""
    components = version.split(".")[:3]
    return tuple(int(component[:9]) for component in components if component.isdecimal())
