"""Loads a run or an export as a predictor."""

from pathlib import Path
from typing import Any

from common_jax.errors import error_context
from common_jax.export.format import Export
from common_jax.fields import from_mapping, named_class, renamed
from common_jax.old_names import PREDICTOR_FIELDS
from common_jax.predictor import Predictor, require_options


def load(path: str | Path | Export, **options: Any) -> Predictor:
    """A run's best checkpoint, or an export, as a predictor: `load("runs/csan/quickstart")`.

    For an export in the format "stablehlo", imports no model code, flax, optax or Orbax.

    Args:
      path: the folder of the run or of the export.
      **options: of the predictor, such as `beam_size` of a translator; for a run also `average`, to
        use the mean of that many newest checkpoints instead of the best.

    Raises:
      UserError: if the folder is neither, or damaged, or for an invalid option.
    """
    export = path if isinstance(path, Export) else Export(path) if Export.is_at(path) else None
    if export is not None and export.manifest.format == "stablehlo":
        return _of_programs(export, options)
    from common_jax.config import MeshConfig
    from common_jax.training.mesh import make_mesh
    from common_jax.training.parameters import read_parameters
    from common_jax.training.workdir import Workdir

    run = Workdir(export.path, export) if export is not None else Workdir(str(path))
    average = 1 if export is not None else options.pop("average", 1)
    task = run.read_task()
    require_options(task.predictor_class, options, run.path)
    mesh = make_mesh(MeshConfig(data=1))
    return task.predictor(read_parameters(run, task, mesh, average).values, **options)


def predictor_class(path: str | Path | Export) -> type[Predictor]:
    """The class of `load`'s result, whose options the commands have as flags.

    Raises:
      UserError: if the folder is neither a run's nor an export's.
    """
    export = path if isinstance(path, Export) else Export(path) if Export.is_at(path) else None
    if export is not None:
        kind: Any = Predictor
        return named_class(export.manifest.predictor, kind, f"{export.file}: predictor")
    from common_jax.training.workdir import Workdir

    return Workdir(str(path)).make_task().predictor_class


def _of_programs(export: Export, options: dict[str, Any]) -> Predictor:
    from common_jax.export.stablehlo import ExportedPrograms

    kind = predictor_class(export)
    require_options(kind, options, export.path)
    with error_context(export.file):
        saved = renamed(export.manifest.settings, PREDICTOR_FIELDS)
        settings: Any = from_mapping(kind.Settings, saved, "settings.")
    vocabulary = kind.read_vocabulary(export.path / "vocabulary")
    versions = export.manifest.versions
    programs = ExportedPrograms(
        export.path, export.manifest.programs, str(versions.get("jax", "0"))
    )
    return kind(vocabulary, settings, programs, **options)
