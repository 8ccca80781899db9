"""Comparison of the answers of several runs, by type of question and by length of answer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from common_jax.compare import Comparison, Run, read_notes
from common_jax.io.json_files import read_json
from common_jax.metrics.paired import permutation_p
from common_jax.metrics.spans import ANSWER_LENGTHS
from common_jax.report.document import Cell, Chart, Part, Section, Series, Table

# Notes of `SpanExtraction.score`: number of questions, exact match and F1 of each kind.
ByKind = dict[str, tuple[int, float, float]]
_KINDS = {
    "by_question_type": ("question", "The first question word in the question."),
    "by_answer_length": ("words of the answer", "Words of the shortest gold answer."),
}


class SpanComparison(Comparison):
    """Compares exact match and F1: paired tests, by type of question, by length of answer."""

    tests = "p of the paired permutation test over questions (10,000 samples)."
    metrics = ("verified_exact_match", "verified_f1")  # of TriviaQA

    @classmethod
    def examples(cls, run: Run, split: str) -> Mapping[str, Any]:
        """The questions' ids, and their lengths if known."""
        file = run.workdir.path / "eval" / f"{split}.predictions.json"
        return {"ids": [*read_json(file).value], **super().examples(run, split)}

    @classmethod
    def tested(cls, result: str, differences: Float[np.ndarray, "n"]) -> dict[str, float]:
        """As the base class, with p of a permutation test: as most differences are 0."""
        numbers = super().tested(result, differences)
        return {**numbers, f"p_{result}": permutation_p(differences)}

    @classmethod
    def compare(cls, runs: Sequence[Run], split: str) -> list[Section]:
        """Sections on the differences, and on each kind of question for runs with the same
        questions as the first run that has such scores."""
        sections = [cls.differences(runs, split)] if len(runs) > 1 else []
        for note, (kind, text) in _KINDS.items():
            notes = read_notes(runs, split, note, ByKind)
            counts = [_counts(by_kind) for by_kind in notes.values()]
            comparable = {label: by for label, by in notes.items() if _counts(by) == counts[0]}
            others = [label for label in notes if label not in comparable]
            if comparable:
                parts = _parts(comparable, kind, text)
                if others:
                    parts.append(f"Not compared, due to other questions: {', '.join(others)}.")
                sections.append(Section(f"by {kind} on {split}", parts))
        return sections


def _counts(by_kind: ByKind) -> dict[str, int]:
    return {kind: scores[0] for kind, scores in by_kind.items()}


def _parts(notes: Mapping[str, ByKind], kind: str, text: str) -> list[Part]:
    counts = _counts(next(iter(notes.values())))
    place = {name: number for number, name in enumerate(ANSWER_LENGTHS)}
    # A stable sort: types of question keep the order of the baseline's score.
    kinds = sorted(counts, key=lambda name: place.get(name, len(place)))
    series = [
        Series(label, kinds, [by_kind[name][2] for name in kinds])
        for label, by_kind in notes.items()
    ]
    rows: list[list[Cell]] = [
        [
            name,
            counts[name],
            *(f"{by_kind[name][1]:.2f} / {by_kind[name][2]:.2f}" for by_kind in notes.values()),
        ]
        for name in kinds
    ]
    head = (kind, "questions", *(f"{label}: EM / F1" for label in notes))
    return [Chart(f"F1 by {kind}", kind, "F1", series, "bars", text), Table(head, rows)]
