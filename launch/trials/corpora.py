"""The corpora of trials: the fields that their files decide, and whether trials that are not
trained again were trained on the corpora as they are now."""

import collections
import dataclasses
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
_MODELS = ("model.", "decode.")  # of which `data.inferred` does not depend either


def with_inferred(
    trials: Sequence[Trial], models: OpenedSources, given: Sequence[str] = ()
) -> list[Trial]:
    """The trials, with the fields that their own files decide; once for those of one corpus.

    Args:
      given: keys of fields that are set elsewhere.

    Raises:
      UserError: for files that are missing, or that can be meant in several ways.
    """
    groups = collections.defaultdict[str, list[Trial]](list)
    for trial in trials:
        if "data.inferred" not in map(key_of, trial.overrides):
            groups[_corpus(trial.config, (*_OTHERS, *_MODELS))].append(trial)
    resolved = {trial.name: trial for trial in trials}
    for group in groups.values():
        runs = [trial.workdir for trial in group]
        inferred = inferred_overrides(group[0].config, runs, given)
        for trial in group if inferred else ():
            overrides = (*trial.overrides, *inferred)
            config = parse(trial.file, overrides, models)
            resolved[trial.name] = dataclasses.replace(trial, overrides=overrides, config=config)
    return [*resolved.values()]


def require_same_corpora(trials: Sequence[Trial]) -> None:
    """Raises UserError if a finished or stopped trial was trained on other data than its corpus
    has now, of which each is prepared once; not if either is unknown, as of an unpacked trial."""
    models = OpenedSources()
    known: dict[str, Mapping[str, str] | None] = {}
    for trial in trials:
        recorded = trial.workdir.data_digests()
        if not recorded or find(trial).state not in ("finished", "stopped"):
            continue
        (resolved,) = with_inferred([trial], models)
        task = task_of(resolved.config, models)
        key = _corpus(task.config, _OTHERS)
        if key not in known:
            known[key] = digests_of(task)
        require_same_corpus(trial.workdir, recorded, task, known[key])


def _corpus(config: Any, others: tuple[str, ...]) -> str:
    """What configs of one corpus have in common: all but the sections `others`."""
    fields = flat(to_mapping(config)).items()
    return json.dumps({k: v for k, v in fields if not k.startswith(others)}, default=str)
