"""The folder format of exports.

    export.json             version, format, source, and settings of the predictor
    config.json             of the run
    vocabulary/             of the run
    parameters.safetensors  by "a/b" names; in the format "orbax", of earlier versions, a folder
                            `parameters`
    programs/*.stablehlo    in the format "stablehlo": arrays to arrays, for any number of rows and
                            any lengths
    engine/                 in a format of the predictor's own (`Predictor.formats`), instead of
                            parameters
    examples.json           lines of dev, on request (`launch.export --examples`)
    README.md               the model card
    checksums.json          of every file

Everything in it is data: classes are looked up by name in installed packages
(`common_jax.fields.named_class`), and no pickle is read. `launch.export.write` writes exports;
this module reads them, without a model.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from common_jax.deploy.foreign import require_config, require_head, require_trusted
from common_jax.deploy.named import is_foreign, is_name, located
from common_jax.errors import UserError, error_context
from common_jax.fields import from_mapping, require
from common_jax.file_names import CONFIG, EXPORT, VOCABULARY
from common_jax.io import checksums
from common_jax.io.json_files import read_json
from common_jax.io.paths import NAMES, AnyPath, as_path
from common_jax.io.storage import local_copy

T = TypeVar("T")

VERSION = 1
CARD = "README.md"
MANIFEST = EXPORT
PARAMETERS = "parameters.safetensors"
ORBAX = "parameters"
PROGRAMS = "programs"
ENGINE = "engine"
EXAMPLES = "examples.json"
FORMATS = ("stablehlo", "safetensors")  # of all models, with `PARAMETERS`; the default first
Dtype = Literal["float32", "bfloat16", "int8"]


@dataclasses.dataclass(frozen=True)
class Manifest:
    """export.json.

    Attributes:
      version: of the folder format.
      format: one of `FORMATS` or of `Predictor.formats`; "orbax" in earlier versions.
      predictor: "package.module:Class" of the predictor.
      settings: of the predictor.
      programs: for "stablehlo", the static arguments by file (`CompiledFunctions`).
      source: of the parameters: step, average, ema.
      versions: of Python and the packages that made it.
      dtype: in which the weights are stored; bfloat16 and int8 StableHLO and safetensors are of
        earlier versions (`common_jax.deploy.weights`).
    """

    version: int
    format: str
    predictor: str
    settings: dict
    programs: dict
    source: dict
    versions: dict
    dtype: Dtype = "float32"

    def __post_init__(self):
        require(self.version >= 1, f"version={self.version}: at least 1")
        for file, static in self.programs.items():
            plain = Path(file).name == file and file.endswith(".stablehlo")
            numbers = isinstance(static, dict) and all(type(n) is int for n in static.values())
            require(plain and numbers, f"programs: {file!r}: not a program's file and its choices")
        for name, value_type in (("step", int), ("average", int), ("ema", bool)):
            require(type(self.source.get(name)) is value_type, f"source: {name} is missing")


class Export:
    """An exported model: the folder `path` with its `manifest`.

    Attributes:
      is_foreign: whether it is data of a stranger, whose programs do not run
        (`common_jax.deploy.foreign`): from a hub, or not trusted.
      digests: the SHA-256 of each file, by name, as verified.
    """

    def __init__(
        self, path: str | AnyPath, untrusted: bool = False, trusted_packages: Sequence[str] = ()
    ):
        """Copies an export that is not on a disk to the cache, and verifies the checksum of every
        file.

        Args:
          path: its folder, or its name (`common_jax.deploy.named`).
          untrusted: whether it is foreign, wherever it is from.
          trusted_packages: packages whose classes a foreign export may name beside this suite's.

        Raises:
          UserError: if the folder is no export, of a newer version, or damaged; if it is foreign,
            also without safetensors, for a class of another package, for a size of the config
            beyond the parameters, or for a card without the fields that a hub needs.
        """
        source = located(path)
        self.is_foreign = untrusted or is_foreign(path)
        with error_context(str(path)) if is_name(path) else contextlib.nullcontext():
            self._require_manifest(source)
            self.path = local_copy(source)
            self.manifest = self._verified()
            self.digests = checksums.digests(self.path)
            if self.is_foreign:
                self._require_foreign(trusted_packages)
            if is_foreign(path):
                require_head(self.path / CARD)

    def _verified(self) -> Manifest:
        manifest = self._read()
        entries = (MANIFEST, CONFIG, VOCABULARY, PARAMETERS, ORBAX, PROGRAMS, ENGINE, EXAMPLES)
        try:
            damage = checksums.find_damage(self.path, listed=entries)
        except PermissionError as error:
            raise UserError(f"{error.filename}: {error.strerror}") from error
        if damage:
            raise UserError(f"{self.path}: a damaged export: {damage}")
        return manifest

    def _require_foreign(self, packages: Sequence[str]) -> None:
        """Raises UserError unless it is data that models of trusted packages can use."""
        require(
            self.manifest.format in FORMATS,
            f"{self.path}: an export in the format {self.manifest.format} without safetensors, "
            "which is not loaded from strangers",
        )
        require_trusted(self.config_file, self.config(), packages)
        require_trusted(self.file, {"name": self.manifest.predictor}, packages)
        self.require_sizes()

    @staticmethod
    def is_at(path: str | AnyPath) -> bool:
        """Whether a path is a name (`common_jax.deploy.named`) or a folder with a manifest."""
        return is_name(path) or (as_path(path) / MANIFEST).exists()

    @staticmethod
    def _missing(path: AnyPath) -> str:
        """The message for a folder without a manifest."""
        run = (path / CONFIG).exists() and (path / "checkpoints").is_dir()
        hint = "; it is a run: give it as --workdir" if run else ""
        return f"{path}: not an export (no {MANIFEST}){hint}"

    @classmethod
    def _require_manifest(cls, folder: AnyPath) -> None:
        if not folder.is_dir():
            what = "not a folder" if folder.exists() else f"no such folder; {NAMES}"
            raise UserError(f"{folder}: {what}")
        if not (folder / MANIFEST).is_file():
            raise UserError(cls._missing(folder))

    @property
    def file(self) -> Path:
        """The file of the manifest."""
        return self.path / MANIFEST

    @property
    def config_file(self) -> Path:
        """The file of the run's config."""
        return self.path / CONFIG

    def config(self) -> Any:
        """The run's config as nested values."""
        return read_json(self.config_file).get("config", dict)

    def settings(self, kind: type[T]) -> T:
        """The settings of the predictor, as a `Predictor.Settings`.

        Raises:
          UserError: for an unknown one, or one of another type.
        """
        with error_context(self.file):
            return from_mapping(kind, self.manifest.settings, "settings.")

    @functools.cached_property
    def examples(self) -> list[str]:
        """The lines that are stored as examples, if there are any.

        Raises:
          UserError: if they are not texts.
        """
        file = self.path / EXAMPLES
        lines = read_json(file).get("lines", list) if file.exists() else []
        require(all(isinstance(line, str) for line in lines), f"{file}: lines: not texts")
        return lines

    def require_sizes(self) -> None:
        """Raises UserError for a size in the config larger than the parameters' files."""
        files = [self.path / PARAMETERS, *checksums.files_in(self.path / ORBAX)]
        size = sum(os.path.getsize(file) for file in files if file.is_file())
        require_config(self.config_file, self.config(), size)

    def _read(self) -> Manifest:
        saved = read_json(self.file)
        version = saved.get("version", int)
        if version > VERSION:
            raise UserError(
                f"{self.file}: version {version}, of a newer release; this one reads {VERSION}"
            )
        with error_context(self.file):
            return from_mapping(Manifest, saved.value)
