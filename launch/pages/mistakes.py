"""Sections on wrong predictions: the most confident ones, and calibration."""

from collections.abc import Mapping, Sequence
from typing import Any

from common_jax.compare.evaluation import Evaluation, notes_by_label
from common_jax.document import Chart, Element, Section, Series, Table

MOST = 20  # mistakes of a run
_RUNS = 3  # with a table of mistakes
_LETTERS = 300  # of a text

Calibration = list[tuple[int, float, float]]  # number, mean confidence and rate right of each bin


def mistake_sections(evaluations: Sequence[Evaluation]) -> list[Section]:
    """The most confident mistakes of the first runs, and the calibration of all."""
    split = evaluations[0].split
    tables = [table for e in evaluations[:_RUNS] if (table := _mistakes(e)) is not None]
    notes = [f"Of the first {_RUNS} runs."] if len(evaluations) > _RUNS and tables else []
    return [
        Section(f"most confident mistakes on {split}", [*notes, *tables]),
        Section(f"calibration on {split}", _calibration(evaluations)),
    ]


def _mistakes(evaluation: Evaluation) -> Table | None:
    """The wrong predictions with the largest probability; the sentences with the least chrF."""
    errors = evaluation.run.workdir.errors(evaluation.split)
    if not errors:
        return None

    def doubt(error: Mapping[str, Any]) -> float:
        return error["chrf"] if "chrf" in error else -error["probability"]

    worst = sorted(errors, key=doubt)[:MOST]
    head = list(worst[0])
    rows = [[_shown(error.get(name)) for name in head] for error in worst]
    what = "sentences" if "chrf" in worst[0] else "mistakes"
    note = f"{evaluation.run.label}: {len(worst)} of {len(errors)} {what}."
    return Table(head, rows, note)


def _shown(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LETTERS:
        return f"{value[:_LETTERS]}…"
    return value


def _calibration(evaluations: Sequence[Evaluation]) -> list[Element]:
    """The rate of right predictions by their confidence, and the error of each run."""
    notes = notes_by_label(evaluations, "calibration", Calibration)
    if not notes:
        return []
    series = [
        Series(label, [confidence for _, confidence, _ in bins], [rate for *_, rate in bins])
        for label, bins in notes.items()
    ]
    series.append(Series("calibrated", [0.0, 100.0], [0.0, 100.0]))
    errors = {e.run.label: e.note("calibration_error", float) for e in evaluations}
    rows = [[label, errors[label]] for label in notes]
    text = "Expected calibration error over ten bins of equal width (Guo et al. 2017), in percent."
    return [
        Chart("Calibration", "confidence, %", "right, %", series),
        Table(("run", "calibration error"), rows, text),
    ]
