"""The page of runs while they train: state and time left of each, above their report."""

import collections
import contextlib
import datetime
import itertools
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from common_jax.compare.runs import Run, labelled
from common_jax.document import Cell, Report, Section, Table, shown, without_empty
from common_jax.errors import UserError
from common_jax.file_names import CONFIG, EXPORT
from common_jax.io.json_files import read_json
from common_jax.io.paths import AnyPath
from common_jax.io.storage import folder_of
from common_jax.io.threads import threaded_map
from common_jax.training.best import best_step
from launch.pages.runs import report, require_split
from launch.trials.trials import TRIALS, list_file, record_file

_SILENT_SECONDS = 120.0  # after which a run that writes nothing shows no sign of life
_SILENT_GAPS = 3  # or this many times the longest time between two lines, if that is longer
_MOST_CURVES = 14  # of a chart
_THREADS = 16  # for requests to a bucket
_HEAD = ("run", "state", "done", "time left", "step", "loss", "dev", "best dev", "steps/s")


class Progress(NamedTuple):
    """The state of a run.

    Attributes:
      state: "running", "scoring", "finished", "stopped", "failed", "compiling for N minutes" (its
        process is there, but has written no line), "no sign of life for N minutes", "unreadable",
        or of a trial "not begun".
      reason: of a stop or failure.
      steps: that the run is to take; 0 if its config is missing or unreadable.
      seconds_left: of training, at the last line of the log; None if that is not known.
    """

    state: str
    reason: str = ""
    steps: int = 0
    seconds_left: float | None = None


class LivePage:
    """The page of all runs at and below some folders, which need not exist yet."""

    def __init__(self, folders: Sequence[AnyPath], split: str | None = None):
        """
        Args:
          split: as of `launch.pages.runs.report`.
        """
        self._folders = folders
        self._split = split
        self._runs: dict[str, Run] = {}  # by label; results of comparisons are stored by run
        self._grown: dict[str, tuple[int, float]] = {}  # lines of a log in a bucket, and since when

    def report(self) -> Report:
        """The page of what the folders have now.

        Raises:
          UserError: for a split that no run has, or a bucket that cannot be read.
        """
        # Runs with their state, without starts that failed and were taken up again.
        by_path = {os.path.realpath(path): path for top in self._folders for path in find(top)}
        runs = labelled([*by_path.values()])
        progress = dict(threaded_map(self._look, runs, _THREADS))
        begun = [run for run, now in progress.items() if now.steps]
        for run in begun:
            if progress[run].state == "failed" and _is_taken_up(run, begun):
                del progress[run]
        begun = [run for run in begun if run in progress]
        self._runs = {run.label: run for run in begun}
        if not progress:
            text = f"No run yet in {', '.join(map(str, self._folders))}."
            return Report("Runs", [Section("Progress", [text])])

        # The report of those that have a step; a damaged score does not hide the others' state.
        rows = [_row(run, now) for run, now in progress.items()]
        table = Table(*without_empty(_HEAD, rows), _summary(progress))
        reasons = [f"{run.label}: {now.reason}" for run, now in progress.items() if now.reason]
        head = Section("Progress", [table, *reasons])
        logged = [run for run in begun if run.lines]
        if not logged:
            return Report("Runs", [head])
        require_split(logged, self._split)
        try:
            page = report(logged, self._split, examples=False, most_curves=_MOST_CURVES)
        except UserError as error:
            page = Report("Runs", [Section("Comparisons", [str(error)])])
        return Report(page.title, [head, *page.sections])

    def _look(self, run: Run) -> tuple[Run, Progress]:
        """A run, the one of the last page if nothing has changed, and its state."""
        try:
            if not run.workdir.config_file.exists():
                return run, _recorded_end(run, 0) or Progress("not begun")
            known = self._runs.get(run.label)
            content = _content(run)  # read now, also of a new run, to be compared later
            if known and _content(known) == content:
                run = known
            return run, self._progress(run)
        except (UserError, OSError) as error:  # an OSError of a folder that is being deleted
            return run, Progress("unreadable", str(error))

    def _progress(self, run: Run) -> Progress:
        steps = run.task.config.train.steps
        if run.workdir.finished(run.task.config):
            return Progress("finished", "", steps)
        if end := _recorded_end(run, steps):
            return end
        silent = self._silent_seconds(run)
        if silent > max(_SILENT_SECONDS, _SILENT_GAPS * _longest_gap(run.lines)):
            compiling = not run.lines and run.workdir.trained_by
            state = "compiling" if compiling else "no sign of life"
            return Progress(f"{state} for {silent / 60:.0f} minutes", "", steps)
        if _step(run) >= steps:
            return Progress("scoring", "", steps, 0.0)
        return Progress("running", "", steps, seconds_left(run.lines, steps))

    def _silent_seconds(self, run: Run) -> float:
        """The time since a run wrote its log or a checkpoint; where files have no times, since this
        process has found the log's last line."""
        folder = run.workdir
        files = (folder.config_file, folder.metrics_file, folder.checkpoints)
        if written := max(map(_written, files)):
            return time.time() - written
        lines, since = self._grown.get(str(folder.path), (-1, 0.0))
        if lines != len(run.lines):
            since = time.monotonic()
            self._grown[str(folder.path)] = len(run.lines), since
        return time.monotonic() - since


def find(top: AnyPath) -> list[AnyPath]:
    """The folders of the runs at and below a folder; those of a sweep in its order, also before
    they begin."""
    folders: dict[AnyPath, None] = {}
    for folder, files in folder_of(top).walk(leaf=CONFIG):
        if CONFIG in files and EXPORT not in files:
            folders[folder] = None
        elif (listed := list_file(folder / TRIALS)).name in files:
            with contextlib.suppress(UserError):  # a file of another program
                names = read_json(listed).get("names", list[str])
                folders.update(dict.fromkeys(folder / TRIALS / name for name in names))
    return [*folders]


def seconds_left(lines: Sequence[Mapping[str, Any]], steps: int) -> float | None:
    """The time until the last step, at the mean speed since the log's first line after the last
    restart, with validations and saving, without compilation; None if unknown."""
    restarts = [number for number, line in enumerate(lines) if "resumed_from" in line]
    since = lines[restarts[-1] :] if restarts else lines
    for logged in (since, lines):
        timed = [line for line in logged if "wall_seconds" in line]
        if len(timed) > 1 and timed[-1]["step"] > timed[0]["step"]:
            taken = timed[-1]["step"] - timed[0]["step"]
            seconds = timed[-1]["wall_seconds"] - timed[0]["wall_seconds"]
            return max(0.0, seconds / taken * (steps - timed[-1]["step"]))
    return None


def _duration(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))


def _longest_gap(lines: Sequence[Mapping[str, Any]]) -> float:
    times = [line["wall_seconds"] for line in lines if "wall_seconds" in line]
    return max((after - before for before, after in itertools.pairwise(times)), default=0.0)


def _written(path: AnyPath) -> float:
    """The time when a file was written, or a folder changed; 0 if it is missing or not known."""
    return folder_of(path.parent).modified(path.name) or 0.0


def _recorded_end(run: Run, steps: int) -> Progress | None:
    """The stop or failure that a run, or its sweep, recorded since its last start."""
    folder = run.workdir
    record = record_file(folder.path.parent, folder.path.name)
    is_trial = folder.path.parent.name == TRIALS
    if is_trial and record.exists() and _written(record) >= _written(folder.config_file):
        end = read_json(record)
        reason = end.get("error", str, "") or "by the sweep, as others did better"
        return Progress(end.get("state", str), reason, steps)
    if folder.end_file.exists():
        end = read_json(folder.end_file)
        return Progress(end.get("state", str), end.get("message", str, ""), steps)
    return None


def _is_taken_up(start: Run, runs: Sequence[Run]) -> bool:
    """Whether a run that failed before its first line has a later one beside it that trains with
    the same settings, but for those of the data."""

    def settings(run: Run) -> dict[str, Any]:
        return {key: v for key, v in run.fields.items() if not key.startswith("data.")}

    folder = start.workdir.path.parent
    if start.lines or folder.name == TRIALS:
        return False
    began = _written(start.workdir.config_file)
    beside = [run for run in runs if run.lines and run.workdir.path.parent == folder]
    later = [run for run in beside if _written(run.workdir.config_file) >= began]
    return any(settings(run) == settings(start) for run in later)


def _content(run: Run) -> tuple[Any, ...]:
    scores = {}
    with contextlib.suppress(UserError):  # of a damaged score, which the page reports
        scores = {split: node.value for split, node in run.scores.items()}
    return run.workdir.path, run.task.config, run.lines, run.result, scores


def _step(run: Run) -> int:
    return max((line["step"] for line in run.lines), default=0)


def _seconds(run: Run) -> float:
    return max((line.get("wall_seconds", 0.0) for line in run.lines), default=0.0)


def _row(run: Run, now: Progress) -> list[Cell]:
    """The line of a run in the table."""
    if not now.steps:
        return [run.label, now.state, *[None] * (len(_HEAD) - 2)]
    train = run.task.config.train
    step = _step(run)
    metric = train.best_metric
    dev = [line for line in run.lines if line.get("split") == "dev" and metric in line]

    left = None if now.seconds_left is None else _duration(now.seconds_left)
    return [
        run.label,
        now.state,
        f"{100 * step / now.steps:.0f} %",
        f"at most {left}" if left and train.patience else left,
        f"{step:,} of {now.steps:,}",
        _latest(run, "loss"),
        f"{metric} {shown(float(dev[-1][metric]))}" if dev else None,
        _best(dev, metric),
        _latest(run, "steps_per_second"),
    ]


def _best(dev: Sequence[Mapping[str, Any]], metric: str) -> str | None:
    """The best score on dev and its step."""
    scores = {line["step"]: line for line in dev}
    step = best_step(scores.items(), metric)
    return None if step is None else f"{shown(float(scores[step][metric]))} at step {step:,}"


def _latest(run: Run, name: str) -> float | None:
    """The last value of a name in the lines of training."""
    values = [line[name] for line in run.lines if "split" not in line and name in line]
    return float(values[-1]) if values else None


def _summary(progress: Mapping[Run, Progress]) -> str:
    """The number of runs in each state, and the time left of all: "2 running, 1 failed, about
    2:05:00 left without the final scoring".

    The time assumes that the number of concurrent runs stays, and that a trial that has not begun
    takes the others' mean time.
    """
    counts = collections.Counter(now.state.partition(" for ")[0] for now in progress.values())
    texts = [f"{count} {state}" for state, count in counts.items()]
    lefts = {run: now.seconds_left for run, now in progress.items() if now.seconds_left is not None}
    if lefts:
        timed = [run for run, now in progress.items() if run in lefts or now.state == "finished"]
        mean = statistics.fmean(_seconds(run) + lefts.get(run, 0.0) for run in timed)
        work = sum(lefts.values()) + mean * counts["not begun"]
        left = _duration(max(*lefts.values(), work / len(lefts)))
        texts.append(f"about {left} left without the final scoring")
    return ", ".join(texts)
