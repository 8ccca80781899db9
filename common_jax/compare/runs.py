"""Runs with what they have left behind, as comparisons and reports read them."""

import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.fields import to_mapping
from common_jax.io.files import read_lines
from common_jax.training.log import read_metrics
from common_jax.training.task import Task
from common_jax.training.workdir import Workdir, flat

SEED = "train.seed"
_NO_MATTER = ("mesh.", "paper.", "data.cache_dir")


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A run in a report.

    Attributes:
      label: what it is called there.
      workdir: its folder.
    """

    label: str
    workdir: Workdir

    @functools.cached_property
    def task(self) -> Task:
        """By its config alone."""
        return self.workdir.make_task()

    @functools.cached_property
    def lines(self) -> list[dict[str, Any]]:
        """Of metrics.jsonl."""
        return read_metrics(self.workdir.metrics)

    @functools.cached_property
    def result(self) -> Mapping[str, Any]:
        """result.json; empty while the run is not over."""
        return self.workdir.read_result() or {}

    @functools.cached_property
    def fields(self) -> dict[str, Any]:
        """Of the config, what its results may depend on."""
        fields = flat(to_mapping(self.task.config))
        return {k: v for k, v in fields.items() if not k.startswith(_NO_MATTER)}

    @property
    def system(self) -> str:
        """The name by which reports group runs; "" where the config has none."""
        return self.task.config.paper.system

    @property
    def setting(self) -> str:
        """Equal for runs that differ in their seed alone."""
        return json.dumps({k: v for k, v in self.fields.items() if k != SEED}, sort_keys=True)

    def file(self, split: str, ending: str) -> list[str]:
        """The lines of eval/<split><ending>.

        Raises:
          UserError: if it is not there or cannot be read.
        """
        return list(read_lines(self.workdir.path / "eval" / f"{split}{ending}"))


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs of some folders, labelled by as much of their paths as tells them apart.

    Raises:
      UserError: for a folder that is not a run's, or is given twice.
    """
    resolved = [Path(os.path.realpath(folder)) for folder in folders]
    for folder, path in zip(folders, resolved, strict=True):
        if resolved.count(path) > 1:
            raise UserError(f"{folder}: given twice")
    deepest = max(len(path.parts) for path in resolved)
    for parts in range(1, deepest + 1):
        labels = ["/".join(path.parts[-parts:]) for path in resolved]
        if len({*labels}) == len(labels):
            break
    runs = [Run(*pair) for pair in zip(_shortened(labels), map(Workdir, folders), strict=True)]
    for run in runs:
        if run.workdir.export is not None:
            raise UserError(f"{run.workdir.path}: an export; a report is of runs")
        _ = run.task  # whatever is wrong with it is said now
    return runs


def read_notes(runs: Iterable[Run], split: str, name: str, kind: Any) -> dict[str, Any]:
    """What `Task.score` has put into its notes as `name`, by the labels of the runs that have some.

    Args:
      kind: a list or an object, as `Node.get` has it.

    Raises:
      UserError: for notes of another kind.
    """
    found = {run.label: run.workdir.read_scored(split).get(name, kind, kind()) for run in runs}
    return {label: value for label, value in found.items() if value}


def _shortened(labels: Sequence[str]) -> list[str]:
    """Labels of a sweep's trials, "model.a=1,model.b=2,train.seed=0", without what all have."""
    parts = [label.split(",") for label in labels]
    trials = [each for each in parts if all("=" in part for part in each)]
    common = set.intersection(*map(set, trials)) if len(trials) > 1 else set()
    kept = [
        ", ".join(part.rpartition("=")[0].rpartition(".")[2] + "=" + part.rpartition("=")[2]
                  for part in each if part not in common) if each in trials else label
        for each, label in zip(parts, labels, strict=True)
    ]  # fmt: skip
    return kept if len({*kept}) == len(kept) and all(kept) else list(labels)
