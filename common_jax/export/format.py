"""What `launch.export` leaves: a folder with all that is needed to use a trained model.

    export.json             version, format, what made it, and what a program needs to be run
    config.json             the run's
    vocabulary/             the run's: what turns text into numbers and back
    parameters.safetensors  by "a/b" names; or, in the format "orbax", a folder `parameters`
    programs/*.stablehlo    in the format "stablehlo": arrays to arrays, for any number of rows and
                            any lengths
    README.md               the model card
    checksums.json          of every file

Everything in it is data: the names of classes in it are looked up among the packages that are
installed (`common_jax.fields.named_class`), and no pickle is read. `common_jax.deploy.export`
writes it; this reads it, without a model.
"""

import dataclasses
import os
from pathlib import Path
from typing import Literal

from common_jax.errors import UserError, error_context
from common_jax.fields import from_mapping, require
from common_jax.io import checksums
from common_jax.io.json_files import read_json

VERSION = 1
MANIFEST = "export.json"
PARAMETERS, ORBAX, PROGRAMS = "parameters.safetensors", "parameters", "programs"
Format = Literal["stablehlo", "safetensors", "orbax"]


@dataclasses.dataclass(frozen=True)
class Manifest:
    """export.json.

    Attributes:
      version: of the folder's form.
      format: which of the forms of a model it is.
      predictor: "package.module:Class" of what reads and writes text.
      settings: the predictor's.
      programs: of "stablehlo": for each file its choices (`CompiledFunctions`).
      source: which parameters these are: step, average, ema.
      versions: of Python and the packages that made it.
    """

    version: int
    format: Format
    predictor: str
    settings: dict
    programs: dict
    source: dict
    versions: dict

    def __post_init__(self):
        require(self.version >= 1, f"version={self.version}: at least 1")
        for file, static in self.programs.items():
            plain = Path(file).name == file and file.endswith(".stablehlo")
            numbers = isinstance(static, dict) and all(type(n) is int for n in static.values())
            require(plain and numbers, f"programs: {file!r}: not a program's file and its choices")
        for name, kind in (("step", int), ("average", int), ("ema", bool)):
            require(type(self.source.get(name)) is kind, f"source: {name} is missing")


class Export:
    """An exported model.

    Attributes:
      path: its folder.
      manifest: export.json.
    """

    def __init__(self, path: str | Path):
        """Compares every file with its checksum.

        Raises:
          UserError: if the folder is no export, of a newer version, or damaged.
        """
        self.path = Path(path)
        self.manifest = self._read()
        parts = (MANIFEST, "config.json", "vocabulary", PARAMETERS, ORBAX, PROGRAMS)
        if damage := checksums.find_damage(self.path, listed=parts):
            raise UserError(f"{self.path}: a damaged export: {damage}")

    @staticmethod
    def is_at(path: str | Path) -> bool:
        """Whether the folder says that it is an export."""
        return os.path.exists(Path(path) / MANIFEST)

    @property
    def file(self) -> Path:
        """Its manifest's."""
        return self.path / MANIFEST

    def _read(self) -> Manifest:
        if not os.path.isdir(self.path):
            what = "not a folder" if os.path.exists(self.path) else "no such folder"
            raise UserError(f"{self.path}: {what}")
        if not self.file.is_file():
            run = (self.path / "config.json").exists() and (self.path / "checkpoints").is_dir()
            hint = "; it is a run: give it as --workdir" if run else ""
            raise UserError(f"{self.path}: not an export (no {MANIFEST}){hint}")
        saved = read_json(self.file)
        version = saved.get("version", int)
        if version > VERSION:
            raise UserError(
                f"{self.file}: version {version}, of a newer release; this one reads {VERSION}"
            )
        with error_context(self.file):
            return from_mapping(Manifest, saved.value)
