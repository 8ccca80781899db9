"""Loads a run or an export as a predictor."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, cast

from common_jax.errors import UserError, error_context
from common_jax.export.child import Limits
from common_jax.export.format import ENGINE, VOCABULARY, Export
from common_jax.export.sizes import require_config, require_memory, require_rows
from common_jax.fields import from_mapping, named_class
from common_jax.io.paths import AnyPath
from common_jax.predictor import MEMORY, Predictor


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A run or an export in memory, whose predictors share its parameters.

    Attributes:
      path: its folder.
      kind: the class of its predictors.
      make: makes a predictor with the given options.
    """

    path: AnyPath
    kind: type[Predictor]
    make: Callable[..., Predictor]

    def predictor(self, **options: Any) -> Predictor:
        """A predictor with these options, such as `beam_size` of a translator.

        Raises:
          UserError: for an option that it does not have, or that the export does not support.
        """
        known = [option.name for option in self.kind.options]
        if unknown := {*options} - {*known}:
            names = ", ".join(known) or "none"
            raise UserError(
                f"{self.path}: its predictor has no option {min(unknown)}; it has {names}"
            )
        return self.make(**options)


def load(
    path: str | AnyPath | Export, *, untrusted: Limits | None = None, **options: Any
) -> Predictor:
    """A run's best checkpoint, or an export, as a predictor: `load("runs/csan/quickstart")`.

    For an export in the format "stablehlo" or "ctranslate2", imports no model code, flax, optax or
    Orbax; for the latter, which CTranslate2 computes, no jax either.

    Args:
      path: the folder of the run or of the export; or the name of an export,
        hf://OWNER/NAME@REVISION, https://HOST/ARCHIVE or demo:NAME (`common_jax.io.named`).
      untrusted: limits of a separate process that runs the export's programs; None runs them in
        this process, unless the export is from a hub or an archive: then it means `Limits()`.
      **options: of the predictor, such as `beam_size` of a translator; for a run also `average`, to
        use the mean of that many newest checkpoints instead of the best; and `max_memory`, the most
        that the computation for a text or a batch may need, in GiB.

    Raises:
      UserError: if the folder is neither, or damaged, or for an invalid option.
    """
    export = _export_at(path)
    average = 1 if export is not None else options.pop("average", 1)
    memory = options.pop("max_memory", MEMORY)
    return load_model(export or path, average, memory, untrusted).predictor(**options)


def load_model(
    path: str | AnyPath | Export,
    average: int = 1,
    max_memory: float = MEMORY,
    untrusted: Limits | None = None,
) -> LoadedModel:
    """A run's best checkpoint, or an export, for several predictors.

    Args:
      average: for a run, the number of newest checkpoints whose mean is used, if more than 1.
      max_memory: the most that the computation for a text or a batch may need, in GiB.
      untrusted: as of `load`.

    Raises:
      UserError: if the folder is neither, or damaged; if `untrusted`, for a run or an export
        without programs, whose model code would run in this process.
    """
    export = _export_at(path)
    if export is not None and export.is_foreign:
        untrusted = untrusted or Limits()
    if export is not None and export.manifest.format == "stablehlo":
        return _load_programs(export, max_memory, untrusted)
    if export is not None and export.manifest.format == "ctranslate2" and untrusted is None:
        return _load_engine(export)
    if untrusted is not None:
        what = "a run" if export is None else f"an export in the format {export.manifest.format}"
        raise UserError(
            f"{path if export is None else export.path}: {what}; only exports in the "
            "format stablehlo run in a process of their own"
        )
    from common_jax.config import MeshConfig
    from common_jax.training.config import read_task
    from common_jax.training.load_parameters import read_parameters
    from common_jax.training.mesh import make_mesh
    from common_jax.training.run_folder import RunFolder

    if export is not None:
        require_config(export)
    run = RunFolder(export.path, export) if export is not None else RunFolder(cast(Any, path))
    task = read_task(run)
    parameters = read_parameters(run, task, make_mesh(MeshConfig(data=1)), average)
    make = functools.partial(task.predictor, parameters.values, max_memory)
    return LoadedModel(run.path, task.predictor_class, make)


def predictor_class(path: str | AnyPath | Export) -> type[Predictor]:
    """The class of `load`'s result.

    Raises:
      UserError: if the folder is neither a run's nor an export's.
    """
    export = _export_at(path)
    if export is not None:
        base: Any = Predictor
        return named_class(export.manifest.predictor, base, f"{export.file}: predictor")
    from common_jax.training.config import make_task
    from common_jax.training.run_folder import RunFolder

    return make_task(RunFolder(cast(Any, path))).predictor_class


def _export_at(path: str | AnyPath | Export) -> Export | None:
    """The export in a folder; None if it has none."""
    return path if isinstance(path, Export) else Export(path) if Export.is_at(path) else None


def _load_engine(export: Export) -> LoadedModel:
    cls, vocabulary, settings = _text_interface(export)
    programs = cls.engine(export.path / ENGINE, vocabulary, settings)
    return LoadedModel(export.path, cls, functools.partial(cls, vocabulary, settings, programs))


def _text_interface(export: Export) -> tuple[type[Predictor], Any, Any]:
    """The predictor's class, its vocabulary and its settings."""
    cls = predictor_class(export)
    with error_context(export.file):
        settings: Any = from_mapping(cls.Settings, export.manifest.settings, "settings.")
    return cls, cls.read_vocabulary(export.path / VOCABULARY), settings


def _load_programs(export: Export, max_memory: float, limits: Limits | None) -> LoadedModel:
    from common_jax.export.stablehlo import ExportedPrograms

    if limits is not None:
        require_memory(export, limits.memory)
    cls, vocabulary, settings = _text_interface(export)
    require_rows(export, cls.tables(vocabulary))
    made_with = str(export.manifest.versions.get("jax", "0"))
    programs = ExportedPrograms(
        export.path, export.manifest.programs, made_with, export.digests, limits
    )
    programs.memory = max_memory
    return LoadedModel(export.path, cls, functools.partial(cls, vocabulary, settings, programs))
