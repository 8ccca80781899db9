"""Makes a table: trains and times its rows, judges its claims, writes and stores its page."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from common_jax.document import Report
from common_jax.errors import error_context
from common_jax.io.atomic import replace_text, write_json, writing
from launch.pages import html, markdown
from launch.reproduce.archive import keep, path_of, stored_as, unpack
from launch.reproduce.claim_tables import claims_csv
from launch.reproduce.claims import Judged, judged
from launch.reproduce.measurements import ANSWERS, DIGESTS, SPEED, answers_of, speeds_of
from launch.reproduce.page import page
from launch.reproduce.results import TableResults, read_results, to_csv
from launch.reproduce.statements import CLAIMS_FILE
from launch.reproduce.table_file import Scale, TableSpec
from launch.trials.executor import Executor
from launch.trials.train import train
from launch.trials.trials import Trial, require_own_folders


class TableRequest(NamedTuple):
    """A table to make.

    Attributes:
      spec, scale: of the table, `scale` with the rows and seeds that are wanted.
      trials: of the rows, in `out`.
      data: the folder with a folder for each corpus.
      out: the folder of the runs and the page.
      stored: the folder of all stored tables.
      executor: where trials run; None trains nothing.
      times: whether training steps are timed.
      keeps: whether the page and the finished trials are stored.
      command: that makes the page, as it is printed on it.
      tried: "--config.KEY=VALUE" of a try, which no stored trial satisfies; empty for a result.
    """

    spec: TableSpec
    scale: Scale
    trials: Sequence[Trial]
    data: Path
    out: Path
    stored: Path
    executor: Executor | None
    times: bool
    keeps: bool
    command: str
    tried: Sequence[str] = ()

    @property
    def page_folder(self) -> Path:
        """The folder of the stored page."""
        return self.stored / self.spec.name / self.scale.name

    @property
    def name(self) -> str:
        """Of the table at its scale, for the files of its measurements."""
        return " ".join([self.spec.name, self.scale.name, *self.tried])

    @property
    def has_trials(self) -> bool:
        """Whether its rows are trained, not only timed."""
        return self.spec.kind != "speed"

    def archived(self) -> dict[str, tuple[Path | None, str | None]]:
        """By the names of the trials without results, as `archive.stored_as`; empty if examples
        need trained models, and for a try."""
        needs_models = self.scale.examples and not (self.page_folder / ANSWERS).exists()
        if needs_models or self.tried:
            return {}
        archives = sorted(self.stored.glob("*/*/*/*.zip"))
        return {
            trial.name: stored_as(trial, self.page_folder, archives, self.data, self.scale)
            for trial in self.trials
            if trial.workdir.result() is None
        }


class MadeTable(NamedTuple):
    """A table whose page has been written.

    Attributes:
      unfinished: names of trials.
      stored: number of stored trials; None if the page is not stored.
    """

    unfinished: Sequence[str]
    stored: int | None


def make(request: TableRequest) -> MadeTable:
    """Trains and times the rows of a table, and writes its page; stores both if that is wanted and
    all trials have finished, or nothing was trained."""
    notes = _trained(request) if request.has_trials else []
    folders = _measured_folders(request, notes)
    speeds = {}
    if request.times:
        speeds = speeds_of(request.name, request.scale, request.trials, folders, request.data)

    # The results, by finished trials; of stored trials those that are stored.
    results = read_results(request.spec, request.scale, request.trials, speeds, notes)
    finished, unfinished = _by_state(request, results)
    keeps = request.keeps and (request.executor is None or not unfinished)
    if keeps:
        for trial in finished:
            keep(trial, request.page_folder, request.data, request.scale)
            unpack(trial, path_of(trial, request.page_folder))  # with rounded results
        results = read_results(request.spec, request.scale, request.trials, speeds, notes)

    # The page.
    answers = {} if unfinished else answers_of(request.name, results, folders)
    verdicts = judged(results)
    report = page(results, verdicts, request.command, answers.get("rows", {}))
    if request.tried:
        report = dataclasses.replace(report, title=f"A try, not a result: {report.title}")
    _write(request.out, results, verdicts, report)
    with writing(request.out):
        replace_text(request.out / "page.html", html.to_html(report))
    if not keeps:
        return MadeTable([trial.name for trial in unfinished], None)
    _write(request.page_folder, results, verdicts, report)
    measured = {key: value for key, value in speeds.items() if key != DIGESTS}  # as the trials are
    _write_measurements(request.page_folder, {SPEED: measured, ANSWERS: answers})
    return MadeTable([trial.name for trial in unfinished], len(finished))


def _trained(request: TableRequest) -> list[str]:
    """Restores stored trials, and trains the others.

    Returns: notes on stored trials that are not used.
    """
    with error_context("--out"):
        require_own_folders(request.trials)
    archived = request.archived()
    for trial in request.trials:
        file, _ = archived.get(trial.name, (None, None))
        if file:
            unpack(trial, file)
    if request.executor is not None:
        train(request.trials, request.out / "results.csv", request.executor, request.out)
    return [note for _, note in archived.values() if note]


def _measured_folders(request: TableRequest, notes: Sequence[str]) -> list[Path]:
    """The folders whose measurements can be used: those of the stored page only with its trials."""
    complete = all(path_of(trial, request.page_folder).exists() for trial in request.trials)
    is_stored_page = not notes and (request.executor is None or complete)
    return [request.out, request.page_folder] if is_stored_page else [request.out]


def _by_state(request: TableRequest, results: TableResults) -> tuple[list[Trial], list[Trial]]:
    """The finished trials, and the others; none of a table of speeds."""
    if not request.has_trials:
        return [], []
    finished = [trial for trial, status in results.pairs if status.state == "finished"]
    return finished, [trial for trial in request.trials if trial not in finished]


def _write(folder: Path, results: TableResults, verdicts: Sequence[Judged], report: Report) -> None:
    """Writes the page, the rows and the claims."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        markdown.write(folder / "page.md", report)
        replace_text(folder / "table.csv", to_csv(results))
        if verdicts:
            replace_text(folder / CLAIMS_FILE, claims_csv(results, verdicts))


def _write_measurements(folder: Path, measurements: Mapping[str, Any]) -> None:
    """Writes the measurements that there are, by the names of their files."""
    for name, values in measurements.items():
        if values:
            write_json(folder / name, values)
