"""Status and results of a sweep's trials, read from their folders."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from common_jax.errors import UserError
from common_jax.io.atomic import replace_text, write_json, writing
from common_jax.io.json_files import Node, read_json
from common_jax.training.identity import SEED
from launch.trials.reuse import require_same_settings
from launch.trials.trials import Trial, list_file

State = Literal["new", "begun", "finished", "stopped", "failed"]


class TrialStatus(NamedTuple):
    """Status of a trial.

    Attributes:
      state: "stopped" is by the sweep, because others did better.
      step: last step trained.
      metrics: values by "split.name"; of the last validation if it is not finished.
      seconds: of training, and scoring once it is finished.
      parameters: their number; None before it is finished.
      error: one line on why it failed.
    """

    state: State
    step: int = 0
    metrics: Mapping[str, float] = MappingProxyType({})
    seconds: float | None = None
    parameters: int | None = None
    error: str = ""


def find(trial: Trial) -> TrialStatus:
    """The status of a trial, from the files that it and the sweep wrote.

    A run with another config, as of a file that was edited during the sweep, has failed.

    Raises:
      UserError: for a file that cannot be read.
    """
    if result := trial.workdir.finished(trial.config):
        try:
            trial.workdir.require(trial.config)
            require_same_settings(trial.workdir, trial.config)
        except UserError as error:
            return TrialStatus("failed", result["steps"], error=str(error))
        metrics = {
            f"{split}.{name}": value
            for split, values in result["metrics"].items()
            for name, value in values.items()
        }
        seconds = result["wall_seconds"]
        return TrialStatus("finished", result["steps"], metrics, seconds, result["parameters"])

    # begun, or stopped by the sweep
    lines = trial.workdir.metrics()
    dev = [line for line in lines if line.get("split") == "dev"]
    names = ("step", "split", "wall_seconds")
    metrics = {f"dev.{k}": v for k, v in (dev[-1] if dev else {}).items() if k not in names}
    record = read_json(trial.record) if trial.record.exists() else Node({}, str(trial.record))
    return TrialStatus(
        state=record.get("state", str, "begun" if lines else "new"),
        step=lines[-1]["step"] if lines else 0,
        metrics=metrics,
        seconds=max((line.get("wall_seconds", 0.0) for line in lines), default=None),
        error=record.get("error", str, ""),
    )


def record(trial: Trial, state: State, error: str = "") -> None:
    """Records why a trial is not finished."""
    with writing(trial.record):
        write_json(trial.record, {"state": state, "error": error})


def write_list(trials: Sequence[Trial]) -> None:
    """Writes the names of all trials of a sweep, in their order."""
    file = list_file(trials[0].folder)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"names": [trial.name for trial in trials]})


def write_results(path: Any, trials: Sequence[Trial]) -> None:
    """results.csv: one row a trial."""
    rows = result_rows(trials)
    head = list(dict.fromkeys(name for row in rows for name in row))
    head.append(head.pop(head.index("error")))
    with writing(path):
        replace_text(path, csv_text(head, rows))


def result_rows(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """The rows of results.csv."""
    return [_row(trial, find(trial)) for trial in trials]


_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?")


def csv_text(head: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, without cells that a spreadsheet would compute."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*map(_cell, head)], lineterminator="\n")
    writer.writeheader()
    writer.writerows({_cell(name): _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a file of `csv_text`, with the texts as they were given."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return [{_plain(name): _plain(cell) for name, cell in row.items()} for row in rows]


def _plain(text: str) -> str:
    """The text of a cell, without the apostrophe that `_cell` put before it."""
    rest = text.removeprefix("'")
    return rest if rest != text and _cell(rest) == text else text


def _cell(value: Any) -> Any:
    """The value; a text that a spreadsheet would take for a formula, as it starts with "=", "+",
    "-", "@" or a control character and is no number, with an apostrophe before it."""
    is_text = isinstance(value, str) and not _NUMBER.fullmatch(value)
    is_formula = is_text and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


def _row(trial: Trial, status: TrialStatus) -> dict[str, Any]:
    fields = {field: value for field, value in trial.values.items() if field != SEED}
    return {
        **{field: json.dumps(v) if isinstance(v, bool) else v for field, v in fields.items()},
        "seed": trial.values[SEED],
        "state": status.state,
        "steps": status.step,
        "seconds": status.seconds,
        "parameters": status.parameters,
        **status.metrics,
        "error": status.error,
    }
