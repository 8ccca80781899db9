"""Whether trials that are not trained again were trained on the corpora as they are now."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from common_jax.deploy.configs import OpenedSources, parse, task_of
from common_jax.fields import flat, to_mapping
from common_jax.training.config import key_of
from common_jax.training.inference import inferred_overrides
from launch.trials.reuse import digests_of, require_same_corpus
from launch.trials.status import find
from launch.trials.trials import Trial

# Sections of a config on which no corpus depends.
_OTHERS = ("train.", "optimizer.", "mesh.", "paper.")


def require_same_corpora(trials: Sequence[Trial]) -> None:
    """Raises UserError if a finished or stopped trial was trained on other data than its corpus
    has now, of which each is prepared once; not if either is unknown, as of an unpacked trial."""
    models = OpenedSources()
    known: dict[str, Mapping[str, str] | None] = {}
    for trial in trials:
        recorded = trial.workdir.data_digests()
        if not recorded or find(trial).state not in ("finished", "stopped"):
            continue
        task = task_of(_with_inferred(trial, models), models)
        fields = flat(to_mapping(task.config)).items()
        key = json.dumps({k: v for k, v in fields if not k.startswith(_OTHERS)}, default=str)
        if key not in known:
            known[key] = digests_of(task)
        require_same_corpus(trial.workdir, recorded, task, known[key])


def _with_inferred(trial: Trial, models: OpenedSources) -> Any:
    """A trial's config, with the fields that its files have decided."""
    if "data.inferred" in map(key_of, trial.overrides):
        return trial.config
    inferred = inferred_overrides(trial.config, [trial.workdir])
    return parse(trial.file, [*trial.overrides, *inferred], models) if inferred else trial.config
