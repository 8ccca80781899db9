"""Answers of several runs beside each other, by type of question and by length of answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from common_jax.report.document import Chart, Part, Section, Series, Table
from common_jax.report.runs import Run

# What `score` has put into its notes: [questions, exact match, F1] of each kind.
_KINDS = {
    "by_question_type": ("question", "The first question word in the question."),
    "by_answer_length": ("words of the answer", "Words of the shortest gold answer."),
}


def compare(runs: Sequence[Run], split: str) -> list[Section]:
    """Exact match and F1 of each kind of question, of the runs that were scored with them."""
    found = {run.label: run.workdir.read_scored(split) for run in runs}
    sections = []
    for note, (kind, said) in _KINDS.items():
        known = {label: scored[note] for label, scored in found.items() if note in scored}
        if known:
            sections.append(Section(f"by {kind} on {split}", _parts(known, kind, said)))
    return sections


def _parts(known: Mapping[str, Mapping[str, Sequence[Any]]], kind: str, said: str) -> list[Part]:
    kinds = list(dict.fromkeys(name for by_kind in known.values() for name in by_kind))
    if kind != "question":
        kinds.sort(key=lambda name: int(name.rstrip("+").partition("-")[0]))
    series = []
    for label, by_kind in known.items():
        names = [name for name in kinds if name in by_kind]
        series.append(Series(label, names, [by_kind[name][2] for name in names]))
    counts = next(iter(known.values()))
    rows = [
        [
            name,
            counts.get(name, [None])[0],
            *(_cell(by_kind.get(name)) for by_kind in known.values()),
        ]
        for name in kinds
    ]
    head = (kind, "questions", *(f"{label}: EM / F1" for label in known))
    return [Chart(f"F1 by {kind}", kind, "F1", series, "bars", said), Table(head, rows)]


def _cell(found: Sequence[Any] | None) -> str | None:
    return None if found is None else f"{found[1]:.2f} / {found[2]:.2f}"
