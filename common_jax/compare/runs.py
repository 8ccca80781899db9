"""Runs and their files, for comparisons and reports."""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.io.json_files import Node
from common_jax.io.paths import AnyPath
from common_jax.training.config import make_task
from common_jax.training.identity import SEED, result_fields
from common_jax.training.scored_run import ScoredRun
from common_jax.training.task import Task


class NoCorpusError(UserError):
    """The corpus of a run cannot be read."""


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A run of a report, named `label` there."""

    label: str
    workdir: ScoredRun

    @functools.cached_property
    def task(self) -> Task:
        """The task, from its config."""
        return make_task(self.workdir)

    @functools.cached_property
    def corpus(self) -> Any:
        """The `data` of the task, with the corpus, which is built if it is not in the cache.

        Raises:
          NoCorpusError: if a file of the corpus is missing or broken, or is not the run's.
        """
        task: Any = self.task
        try:
            task.prepare()
            self.workdir.require_data(task, task.splits)
        except UserError as error:
            raise NoCorpusError(f"{self.label}: {error}") from error
        return task.data

    @functools.cached_property
    def lines(self) -> list[dict[str, Any]]:
        """`RunFolder.metrics`."""
        return self.workdir.metrics()

    @functools.cached_property
    def result(self) -> Mapping[str, Any]:
        """`RunFolder.result`; empty until the run is finished."""
        return self.workdir.result() or {}

    @functools.cached_property
    def is_finished(self) -> bool:
        """Whether it needs no more steps; not so while it is being continued."""
        return self.workdir.finished(self.task.config) is not None

    @functools.cached_property
    def data_identity(self) -> str:
        """Equal for runs of equal data."""
        return json.dumps(self.workdir.data_digests(), sort_keys=True)

    @functools.cached_property
    def scores(self) -> Mapping[str, Node]:
        """`ScoredRun.scores` of the splits that have been scored."""
        scored = filter(self.workdir.is_scored, self.task.splits)
        return {split: self.workdir.scores(split) for split in scored}

    @functools.cached_property
    def fields(self) -> dict[str, Any]:
        """The config fields that its results can depend on."""
        return result_fields(self.task.config)

    @property
    def system(self) -> str:
        """The name by which reports group runs; "" if the config has none."""
        return self.task.config.paper.system

    @property
    def setting(self) -> str:
        """Equal for runs that differ only in their seed."""
        return json.dumps({k: v for k, v in self.fields.items() if k != SEED}, sort_keys=True)


def read_runs(folders: Sequence[AnyPath]) -> list[Run]:
    """The runs of some folders, as `labelled`.

    Raises:
      UserError: for a folder that is not a run's, or is given twice.
    """
    runs = labelled(folders)
    for run in runs:
        if run.workdir.is_export:
            raise UserError(f"{run.workdir.path}: an export; a report needs runs")
        _ = run.task  # reports errors in its config early
    return runs


def labelled(folders: Sequence[AnyPath]) -> list[Run]:
    """Runs, not read yet, labelled by the shortest ends of their folders' paths that differ.

    Raises:
      UserError: for a folder that is given twice.
    """
    resolved = [Path(os.path.realpath(folder)) for folder in folders]
    for folder, path in zip(folders, resolved, strict=True):
        if resolved.count(path) > 1:
            raise UserError(f"{folder}: given twice")
    deepest = max((len(path.parts) for path in resolved), default=1)
    for depth in range(1, deepest + 1):
        labels = ["/".join(path.parts[-depth:]) for path in resolved]
        if len({*labels}) == len(labels):
            break
    return [Run(*pair) for pair in zip(_shortened(labels), map(ScoredRun, folders), strict=True)]


def _shortened(labels: Sequence[str]) -> list[str]:
    """Labels of a sweep's trials, "model.a=1,model.b=2,train.seed=0", without common settings."""
    settings = [label.split(",") for label in labels]
    trials = [fields for fields in settings if all("=" in field for field in fields)]
    common = set.intersection(*map(set, trials)) if len(trials) > 1 else set()
    shortened = []
    for fields, label in zip(settings, labels, strict=True):
        different = ", ".join(_without_section(field) for field in fields if field not in common)
        shortened.append(different if fields in trials else label)
    return shortened if len({*shortened}) == len(shortened) and all(shortened) else list(labels)


def _without_section(setting: str) -> str:
    """model.dim=100 -> dim=100."""
    key, _, value = setting.rpartition("=")
    return f"{key.rpartition('.')[2]}={value}"
