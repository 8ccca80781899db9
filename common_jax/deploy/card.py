"""The model card of an export: its data, metrics and use."""

import inspect
import shlex
from collections.abc import Mapping
from typing import Any

import jax

from common_jax.deploy.shareable import shareable
from common_jax.document import markdown_table
from common_jax.export.format import CONFIG, Manifest
from common_jax.fields import to_mapping
from common_jax.io.paths import AnyPath
from common_jax.predictor import format_options
from common_jax.training.load_parameters import Parameters
from common_jax.training.run_folder import RunFolder, devices
from common_jax.training.task import Task

_FORMS = {
    "stablehlo": "Compiled programs with their parameters; used without model code, flax or Orbax, "
    "on a CPU, a CUDA GPU or a TPU, for any number of texts of any length.",
    "safetensors": "Parameters by their names in `parameters.safetensors`, used with this suite.",
    "ctranslate2": "A model of CTranslate2 in `engine`, which computes it on a CPU or a CUDA GPU; "
    "used without jax, with the extra ctranslate2.",
    "orbax": "Parameters in Orbax's format in `parameters`, used with this suite.",
}


def model_card(
    workdir: RunFolder,
    task: Task,
    parameters: Parameters,
    manifest: Manifest,
    command: str,
    out: AnyPath,
) -> str:
    """README.md of an export.

    Args:
      parameters: of the export.
      command: that made it; "" if unknown.
      out: its folder.
    """
    values, result = shareable(to_mapping(task.config)), shareable(workdir.result() or {})
    path = shareable(str(out))
    quoted_path = shlex.quote(path)
    about = inspect.getdoc(type(task)) or ""
    count = sum(leaf.size for leaf in jax.tree.leaves(parameters.values))
    which = (
        f"the mean of {parameters.average} checkpoints"
        if parameters.average > 1
        else "the best on dev"
    )
    average = ", moving average" if parameters.ema else ""
    facts = [
        *task.card_facts,
        f"{count:,} parameters of step {parameters.step} ({which}{average}), computed in "
        f"{task.config.train.compute_dtype if manifest.dtype == 'float32' else manifest.dtype}",
        *(
            f"a program for {format_options(static)}"
            for static in manifest.programs.values()
            if static
        ),
    ]
    if manifest.format == "stablehlo":
        facts.append(f"needs jax {manifest.versions['jax']} or newer")
    sections = {
        "Use": f"```sh\npython -m launch.predict --model {quoted_path}\n```\n\n```python\n"
        f"from common_jax.deploy import load\n\npredictor = load({path!r})\n```",
        "Limits and settings": markdown_table(("setting", "value"), _filled(manifest.settings)),
        "Data": markdown_table(("field", "value"), _filled(values["data"])),
        "Metrics": _metrics(workdir, task, parameters, result),
        "Training": "\n".join(
            [
                f"- task `{values['task']}`, {result.get('steps', 'unfinished: some')} steps, "
                f"{result.get('wall_seconds', '?')} seconds on {devices(result)}",
                f"- command: `{result.get('command') or 'not known'}`",
                f"- every field of the run is in `{CONFIG}`",
            ]
        ),
        "Made by": f"`{shareable(command) or 'not known'}`",
        "Versions": markdown_table(
            ("", "trained with", "exported with"),
            [
                (name, result.get("versions", {}).get(name, "?"), version)
                for name, version in manifest.versions.items()
            ],
        ),
    }
    head = f"# {workdir.path.absolute().name}: {type(task).__name__}\n\n{about.splitlines()[0]}"
    body = "\n\n".join(f"## {name}\n\n{text}" for name, text in sections.items())
    return "\n\n".join(
        [head, _FORMS[manifest.format], "\n".join(f"- {f}" for f in facts), body, ""]
    )


def _metrics(
    workdir: RunFolder, task: Task, parameters: Parameters, result: Mapping[str, Any]
) -> str:
    """The scores of these parameters, if there are any."""
    suffix = f"-average{parameters.average}" if parameters.average > 1 else ""
    names = {split: f"{split}{suffix}" for split in task.splits}
    scored = {s: workdir.scores(name).value for s, name in names.items() if workdir.is_scored(name)}
    if parameters.ema != bool(task.config.train.ema_decay):
        scored = {}
    rows = [
        (split, name, f"{value:.2f}" if isinstance(value, float) else value)
        for split, values in scored.items()
        if values.get("step", result.get("best_step")) == parameters.step
        for name, value in values.items()
        if name != "step" and isinstance(value, int | float | str)
    ]
    if rows:
        return markdown_table(("split", "metric", "value"), rows)
    option = f" --average {parameters.average}" if suffix else ""
    path = shlex.quote(shareable(str(workdir.path)))
    return (
        "These parameters have not been scored "
        f"(`python -m launch.evaluate --workdir {path}{option}`)."
    )


def _filled(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, f"`{value!r}`") for name, value in values.items() if value != ""]
