"""Answers of several runs beside each other, by type of question and by length of answer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from common_jax.compare import Comparison, Run, read_notes
from common_jax.io.json_files import read_json
from common_jax.metrics.paired import permutation_p
from common_jax.metrics.spans import ANSWER_LENGTHS
from common_jax.report.document import Cell, Chart, Part, Section, Series, Table

# What `score` has put into its notes: questions, exact match and F1 of each kind.
ByKind = dict[str, tuple[int, float, float]]
_KINDS = {
    "by_question_type": ("question", "The first question word in the question."),
    "by_answer_length": ("words of the answer", "Words of the shortest gold answer."),
}


class SpanComparison(Comparison):
    """Exact match and F1: paired tests, by type of question and by length of answer."""

    tests = "p of the paired permutation test over questions (10,000 draws)."

    @classmethod
    def examples(cls, run: Run, split: str) -> Mapping[str, Any]:
        """The questions' ids, and lengths where they are known."""
        file = run.workdir.path / "eval" / f"{split}.predictions.json"
        return {"ids": [*read_json(file).value], **super().examples(run, split)}

    @classmethod
    def tested(cls, result: str, differences: Float[np.ndarray, "n"]) -> dict[str, float]:
        """p by permutation: most questions do not differ at all, few by much."""
        numbers = super().tested(result, differences)
        return {**numbers, f"p_{result}": permutation_p(differences)}

    @classmethod
    def compare(cls, runs: Sequence[Run], split: str) -> list[Section]:
        """Exact match and F1 of each kind of question, of the runs that were scored with them and
        on the same questions as the first such run."""
        sections = [cls.differences(runs, split)] if len(runs) > 1 else []
        for note, (kind, said) in _KINDS.items():
            known = read_notes(runs, split, note, ByKind)
            counts = [_counts(by_kind) for by_kind in known.values()]
            alike = {label: by for label, by in known.items() if _counts(by) == counts[0]}
            others = [label for label in known if label not in alike]
            if alike:
                parts = _parts(alike, kind, said)
                if others:
                    parts.append(f"Not compared, having other questions: {', '.join(others)}.")
                sections.append(Section(f"by {kind} on {split}", parts))
        return sections


def _counts(by_kind: ByKind) -> dict[str, int]:
    return {kind: found[0] for kind, found in by_kind.items()}


def _parts(known: Mapping[str, ByKind], kind: str, said: str) -> list[Part]:
    counts = _counts(next(iter(known.values())))
    place = {name: number for number, name in enumerate(ANSWER_LENGTHS)}
    # A stable sort: types of question stay in the order of the baseline's score.
    kinds = sorted(counts, key=lambda name: place.get(name, len(place)))
    series = [
        Series(label, kinds, [by_kind[name][2] for name in kinds])
        for label, by_kind in known.items()
    ]
    rows: list[list[Cell]] = [
        [
            name,
            counts[name],
            *(f"{by_kind[name][1]:.2f} / {by_kind[name][2]:.2f}" for by_kind in known.values()),
        ]
        for name in kinds
    ]
    head = (kind, "questions", *(f"{label}: EM / F1" for label in known))
    return [Chart(f"F1 by {kind}", kind, "F1", series, "bars", said), Table(head, rows)]
