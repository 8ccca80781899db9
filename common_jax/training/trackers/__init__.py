"""Trackers, which show a run's numbers elsewhere: TensorBoard, Weights & Biases, Trackio, MLflow.

A tracker is a module here and its entry in `common_jax.config.TRACKERS`.
"""

import abc
import dataclasses
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from common_jax.config import TRACKERS
from common_jax.errors import missing_extra


@dataclasses.dataclass(frozen=True)
class TrackedRun:
    """The run that a tracker records.

    Attributes:
      folder: for the tracker's files.
      name: the run's name, which no other run has.
      id: unique, of letters and digits; that of the record which a resumed run continues.
      start: the step after which the run continues; 0 for a new one.
      config: its values by the fields' full names.
      warn: reports an outage that the tracker survives.
    """

    folder: Path
    name: str
    id: str
    start: int
    config: Mapping[str, Any]
    warn: Callable[[str], None] = print


class Tracker(abc.ABC):
    """Opens the record of a run and writes to it; any exception is an outage.

    Attributes:
      package: the module that it needs, of the extra with the tracker's name.
      in_process: whether it runs in the process of the run, as it only writes to the disk; others
        have a process of their own (`common_jax.training.trackers.process`).
      location: where to look at the record.
    """

    package: ClassVar[str]
    in_process: ClassVar[bool] = False
    location: str = ""

    @abc.abstractmethod
    def __init__(self, run: TrackedRun):
        """Continues the record of this id, if there is one."""

    @abc.abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Writes numbers by name; steps do not decrease."""

    def end(self) -> None:  # noqa: B027 (not all have something to do)
        """Announces the end of the run, without waiting."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the record, once all is written."""


def tracker_class(name: str) -> type[Tracker]:
    """The class of a tracker; does not import its package."""
    return pkgutil.resolve_name(TRACKERS[name])


def require_installed(names: Sequence[str]) -> None:
    """Raises UserError for a tracker whose package is missing."""
    for name in names:
        package = tracker_class(name).package
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:  # a folder of that name is no package
            raise missing_extra(f"train.trackers: {package} is not installed; {name}", name)
