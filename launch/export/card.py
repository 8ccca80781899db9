"""The model card of an export: its data, metrics and use."""

import inspect
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import jax

from common_jax.deploy.foreign import head
from common_jax.deploy.format import CONFIG, MANIFEST, Manifest
from common_jax.deploy.model_format import ModelFormat
from common_jax.deploy.parameters import Parameters
from common_jax.deploy.predictor import format_options
from common_jax.deploy.service import Service
from common_jax.document import markdown_table
from common_jax.fields import to_mapping
from common_jax.training.scored_run import ScoredRun, devices, scores_name
from launch.export.request import ExportRequest, shareable

_FORMS = {
    "stablehlo": "Compiled programs with their parameters; used without model code, flax or Orbax, "
    "on a CPU, a CUDA GPU or a TPU, for any number of texts of any length.",
    "safetensors": "Parameters by their names in `parameters.safetensors`, used with this suite.",
}
Scores = Mapping[str, Mapping[str, Any]]  # by split and name


def model_card(
    request: ExportRequest,
    service: Service,
    parameters: Parameters,
    manifest: Manifest,
    library: ModelFormat | None = None,
) -> str:
    """README.md of an export.

    Args:
      library: the format of the predictor's own, if it is one.
    """
    task = service.task
    data = shareable(to_mapping(task.config))["data"]
    fields = [(name, f"`{value!r}`") for name, value in data.items() if value != ""]
    result = shareable(request.workdir.result() or {})
    is_exact = manifest.dtype == "float32"  # as what was scored
    scores = _scores(request.workdir, service, parameters) if is_exact else {}
    unscored = f"Weights in {manifest.dtype} have not been scored."
    about = inspect.getdoc(type(task)) or ""

    return "\n\n".join(
        [
            _head(service, data, scores, request.license),
            f"# {request.workdir.path.absolute().name}: {type(task).__name__}",
            about.splitlines()[0],
            _FORMS[manifest.format] if library is None else library.form,
            _listed(_facts(service, parameters, manifest)),
            "## Use",
            _use(shareable(request.name or str(request.out))),
            "## Data",
            markdown_table(("field", "value"), fields),
            "## Metrics",
            _metrics(request.workdir, service, parameters, scores) if is_exact else unscored,
            "## Training",
            _listed(
                [
                    f"task `{task.config.task}`, {result.get('steps', 'unfinished: some')} steps, "
                    f"{result.get('wall_seconds', '?')} seconds on {devices(result)}",
                    f"command: `{result.get('command') or 'not known'}`",
                    f"trained with {_versions(result.get('versions', {}))}",
                    f"exported with {_versions(manifest.versions)}, by "
                    f"`{shareable(request.command) or 'a call from Python'}`",
                    f"every field of the run is in `{CONFIG}`, those of the model in `{MANIFEST}`",
                ]
            ),
            "",
        ]
    )


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) or "not known"


def _facts(service: Service, parameters: Parameters, manifest: Manifest) -> Sequence[str]:
    """Lines on the task, the parameters and the programs."""
    # Which parameters these are.
    count = sum(leaf.size for leaf in jax.tree.leaves(parameters.values))
    which = "the best on dev"
    if parameters.average > 1:
        which = f"the mean of {parameters.average} checkpoints"
    if parameters.ema:
        which += ", moving average"

    # The precision of what is stored or computed.
    computed = f"computed in {service.task.config.train.compute_dtype}"
    if manifest.dtype != "float32":
        computed = f"matrices and tables of vectors stored in {manifest.dtype}"

    generated = service.task.config.data.source == "generated"
    facts = [
        *service.card_facts,
        *([service.predictor(parameters.values).schema.generated] if generated else []),
        f"{count:,} parameters of step {parameters.step} ({which}), {computed}",
    ]
    facts += [f"a program for {format_options(s)}" for s in manifest.programs.values() if s]
    if manifest.format == "stablehlo":
        facts.append(f"needs jax {manifest.versions['jax']} or newer")
    return facts


def _use(name: str) -> str:
    command = f"python -m launch.predict --model {shlex.quote(name)}"
    code = f"from common_jax.deploy import load\n\npredictor = load({name!r})"
    return f"```sh\n{command}\n```\n\n```python\n{code}\n```"


def _head(service: Service, data: Mapping[str, Any], scores: Scores, license: str) -> str:
    """The YAML metadata of the card, with the scores as "model-index"."""
    # The dataset is named by its folder, or by how it is made.
    source = data["source"]
    dataset = {"generated": "generated", "tfds": data["tfds"].partition("/")[0]}.get(source)
    dataset = dataset or PurePath(data["dir"]).name or source

    # The scores that are numbers, for each split.
    results: list[dict[str, Any]] = []
    for split, values in scores.items():
        numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
        results.append(
            {
                "task": {"type": service.hub_task},
                "dataset": {"name": dataset, "type": dataset, "split": split},
                "metrics": [{"type": name, "value": value} for name, value in numbers.items()],
            }
        )
    index = [{"name": type(service.task).__name__, "results": results}]

    return head(
        {
            "license": license or ("apache-2.0" if source == "generated" else "unknown"),
            "language": [*dict.fromkeys(service.languages)],
            "datasets": [dataset],
            "metrics": sorted({m["type"] for result in results for m in result["metrics"]}),
            "library_name": "conv-attention-jax",
            "pipeline_tag": service.hub_task,
            **({"model-index": index} if results else {}),
        }
    )


def _scores(workdir: ScoredRun, service: Service, parameters: Parameters) -> Scores:
    """The scores of these parameters and options of decoding by split; empty if there are none."""
    # Scores of a run are of its moving average, if it has one.
    task = service.task
    if parameters.ema != bool(task.config.train.ema_decay):
        return {}

    # Older scores have no step: those that training wrote are of the best.
    best_step = (workdir.result() or {}).get("best_step")
    scores = {}
    for split in task.splits:
        name = scores_name(split, parameters.average, task.decoding)
        values = workdir.scores(name).value if workdir.is_scored(name) else {}
        if values and values.get("step", best_step if name == split else None) == parameters.step:
            scores[split] = {
                name: value
                for name, value in values.items()
                if name != "step" and isinstance(value, int | float | str)
            }
    return scores


def _metrics(workdir: ScoredRun, service: Service, parameters: Parameters, scores: Scores) -> str:
    rows = [
        (split, name, f"{value:.2f}" if isinstance(value, float) else value)
        for split, values in scores.items()
        for name, value in values.items()
    ]
    if rows:
        return markdown_table(("split", "metric", "value"), rows)
    decoding = service.task.decoding
    average = {"average": parameters.average} if parameters.average > 1 else {}
    flags = "".join(f" --{name} {value}" for name, value in {**average, **decoding}.items())
    path = shlex.quote(shareable(str(workdir.path)))
    settings = " with these settings" if decoding else ""
    what = f"These parameters have not been scored{settings}"
    return f"{what} (`python -m launch.evaluate --workdir {path}{flags}`)."
