"""Loads a run or an export as a predictor."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, cast

from common_jax.deploy.foreign import require_rows
from common_jax.deploy.format import ENGINE, PARAMETERS, VOCABULARY, Export
from common_jax.deploy.model_format import ModelFormat
from common_jax.deploy.named import located
from common_jax.deploy.predictor import MEMORY, CompiledFunctions, Predictor
from common_jax.errors import UserError
from common_jax.fields import named_class
from common_jax.io.paths import AnyPath


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A run or an export in memory, whose predictors share its parameters.

    Attributes:
      path: its folder.
      kind: the class of its predictors.
      make: makes a predictor with the given options.
      examples: lines of dev that an export stores.
      generated: whether it is trained on its family's generated corpus.
    """

    path: AnyPath
    kind: type[Predictor]
    make: Callable[..., Predictor]
    examples: Sequence[str] = ()
    generated: bool = False

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
    path: str | AnyPath | Export,
    *,
    untrusted: bool = False,
    trusted_packages: Sequence[str] = (),
    **options: Any,
) -> Predictor:
    """A run's best checkpoint, or an export, as a predictor: `load("runs/csan/quickstart")`.

    For an export in the format "stablehlo", or one of the predictor's own, imports no model code,
    flax, optax or Orbax.

    Args:
      path: the folder of the run or of the export; or the name of an export,
        hf://OWNER/NAME@REVISION or demo:NAME (`common_jax.deploy.named`).
      untrusted: whether an export is data of a stranger, as those of a hub always are: its programs
        do not run, and its parameters are computed by this suite's code.
      trusted_packages: packages whose classes such an export may name beside this suite's.
      **options: of the predictor, such as `beam_size` of a translator; for a run also `average`, to
        use the mean of that many newest checkpoints instead of the best; and `max_memory`, the most
        that the computation for a text or a batch may need, in GiB.

    Raises:
      UserError: if the folder is neither, or damaged, or for an invalid option.
    """
    export = export_at(path, untrusted, trusted_packages)
    average = 1 if export is not None else options.pop("average", 1)
    memory = options.pop("max_memory", MEMORY)
    return load_model(export or path, average, memory).predictor(**options)


def load_model(
    path: str | AnyPath | Export,
    average: int = 1,
    max_memory: float = MEMORY,
    compiler: Executor | None = None,
) -> LoadedModel:
    """A run's best checkpoint, or an export, for several predictors, which share its programs.

    Args:
      average: for a run, the number of newest checkpoints whose mean is used, if more than 1.
      max_memory: the most that the computation for a text or a batch may need, in GiB.
      compiler: of `common_jax.deploy.bounded_program.BoundedProgram`.

    Raises:
      UserError: if the folder is neither, or damaged.
    """
    export = export_at(path)
    if export is not None and not export.is_foreign:
        if export.manifest.format == "stablehlo":
            return _load_programs(export, max_memory, compiler)
        if export.manifest.format in predictor_class(export).formats:
            return _load_model_format(export)
    return _load_parameters(export or path, average, max_memory, compiler)


def export_at(
    path: str | AnyPath | Export, untrusted: bool = False, trusted_packages: Sequence[str] = ()
) -> Export | None:
    """The export of a name or in a folder, verified; None for another folder.

    Raises:
      UserError: if it is damaged; if `untrusted`, for a folder that has no export.
    """
    if isinstance(path, Export):
        return path
    if untrusted or Export.is_at(path):
        return Export(path, untrusted, trusted_packages)
    return None


def predictor_class(path: str | AnyPath | Export) -> type[Predictor]:
    """The class of `load`'s result.

    Raises:
      UserError: if the folder is neither a run's nor an export's.
    """
    export = export_at(path)
    if export is not None:
        base: Any = Predictor
        return named_class(export.manifest.predictor, base, f"{export.file}: predictor")
    from common_jax.deploy.service import service_class
    from common_jax.training.config import make_task
    from common_jax.training.run_folder import RunFolder

    task = make_task(RunFolder(located(cast(Any, path))))
    return service_class(type(task)).predictor_class


def model_format(name: str, predictor: type[Predictor]) -> ModelFormat:
    """A format of `Predictor.formats`."""
    base: Any = ModelFormat
    return named_class(predictor.formats[name], base, f"{predictor.__name__}.formats")()


def _load_parameters(
    path: str | AnyPath | Export, average: int, max_memory: float, compiler: Executor | None
) -> LoadedModel:
    """A run, or an export's parameters and options of decoding, with the code of its model."""
    from common_jax.config import MeshConfig
    from common_jax.deploy.parameters import read_parameters, source_of
    from common_jax.deploy.service import JittedPrograms, service_of, take_decoding
    from common_jax.training.config import read_task
    from common_jax.training.mesh import make_mesh

    source = source_of(path)
    task = read_task(source.folder)
    service = service_of(task)
    if source.export is not None:
        take_decoding(service, source.export)
        _require_rows(source.export, service.predictor_class, service.vocabulary)
    parameters = read_parameters(source, task, make_mesh(MeshConfig(data=1)), average)
    programs = JittedPrograms(service, parameters.values)
    programs.memory = max_memory
    programs.compiler = compiler
    cls = service.predictor_class
    make = functools.partial(cls, service.vocabulary, service.settings, programs)
    examples = source.export.examples if source.export is not None else ()
    generated = getattr(task.config.data, "source", "") == "generated"
    return LoadedModel(source.folder.path, cls, make, examples, generated)


def _load_programs(export: Export, max_memory: float, compiler: Executor | None) -> LoadedModel:
    from common_jax.deploy.stablehlo import ExportedPrograms

    cls, vocabulary, settings = _text_interface(export)
    _require_rows(export, cls, vocabulary)
    made_with = str(export.manifest.versions.get("jax", "0"))
    programs = ExportedPrograms(export.path, export.manifest.programs, made_with, export.digests)
    programs.memory = max_memory
    programs.compiler = compiler
    return _with_programs(export, cls, vocabulary, settings, programs)


def _require_rows(export: Export, cls: type[Predictor], vocabulary: Any) -> None:
    """Raises UserError if a table of the parameters has no row for an id of the vocabulary."""
    parameters = export.path / PARAMETERS
    if parameters.exists():  # Orbax compares the shapes itself
        require_rows(parameters, export.path / VOCABULARY, cls.tables(vocabulary))


def _load_model_format(export: Export) -> LoadedModel:
    cls, vocabulary, settings = _text_interface(export)
    library = model_format(export.manifest.format, cls)
    programs = library.read(export.path / ENGINE, vocabulary, settings)
    return _with_programs(export, cls, vocabulary, settings, programs)


def _with_programs(
    export: Export,
    cls: type[Predictor],
    vocabulary: Any,
    settings: Any,
    programs: CompiledFunctions,
) -> LoadedModel:
    make = functools.partial(cls, vocabulary, settings, programs)
    generated = export.config().get("data", {}).get("source") == "generated"
    return LoadedModel(export.path, cls, make, export.examples, generated)


def _text_interface(export: Export) -> tuple[type[Predictor], Any, Any]:
    """The predictor's class, its vocabulary and its settings."""
    cls = predictor_class(export)
    settings: Any = export.settings(cls.Settings)
    return cls, cls.read_vocabulary(export.path / VOCABULARY), settings
