"""Labels of several runs beside each other: confusion, length, and tests of the right ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from common_jax.compare import Comparison, IncomparableError, Paired, Run, read_notes
from common_jax.metrics.classification import equal_proportions
from common_jax.metrics.paired import mcnemar
from common_jax.report.document import Cell, Chart, Part, Section, Series, Table

# What `score` has put into its notes.
ByLength = list[tuple[int, int, float]]  # shortest, longest, accuracy of each tenth
Confusion = dict[str, dict[str, int]]  # by gold label, by label given


class LabelComparison(Comparison):
    """Confusion, accuracy by length, the test of equal proportions and McNemar's."""

    tests = (
        "p of the test of equal proportions, as the paper's stars, which takes the runs for "
        "independent, and of McNemar's test, which counts the examples that one run alone has "
        "right (wins, and losses, that the other has)."
    )

    @classmethod
    def examples(cls, run: Run, split: str) -> Mapping[str, Any]:
        """Gold labels, and lengths where they are known."""
        return {"gold": _gold(run, split), **super().examples(run, split)}

    @classmethod
    def require(cls, run: Run, split: str) -> None:
        """Also that it counts right answers."""
        _right(run, split)
        super().require(run, split)

    @classmethod
    def tested(cls, result: str, differences: Float[np.ndarray, "n"]) -> dict[str, float]:
        """The difference with its interval, and McNemar's test in the place of the t-test."""
        numbers = super().tested(result, differences)
        numbers.pop(f"p_{result}", None)
        wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
        return {**numbers, "wins": wins, "losses": losses, "p_mcnemar": mcnemar(wins, losses)}

    @classmethod
    def paired(cls, run: Run, other: Run, split: str, name: str = "") -> Paired:
        """Also the test of equal proportions, which needs no single examples."""
        ours, theirs = _right(run, name or split), _right(other, split)
        found = super().paired(run, other, split, name)
        numbers = {"p_equal_proportions": equal_proportions(*ours, *theirs)}
        gap = 100 * (ours[0] / ours[1] - theirs[0] / theirs[1])
        return Paired({"right_difference": gap, **numbers, **found.numbers}, found.notes)

    @classmethod
    def scores(cls, run: Run, split: str) -> Mapping[str, Cell]:
        """Right answers, of how many."""
        counted = run.workdir.right_answers(split)
        if counted is None:
            return {}
        right, total = counted
        return {"right": right, "of": total, "%": 100 * right / total}

    @classmethod
    def compare(cls, runs: Sequence[Run], split: str) -> list[Section]:
        """Against the first run; of rankings only what they have of it."""
        sections = [cls.differences(runs, split)]
        if lengths := read_notes(runs, split, "by_length", ByLength):
            sections.append(Section(f"length on {split}", _by_length(lengths)))
        if confusions := read_notes(runs, split, "confusion", Confusion):
            tables: list[Part] = [
                Table(
                    (label, *rows),
                    [[gold, *map(row.get, rows)] for gold, row in rows.items()],
                    shaded=True,
                )
                for label, rows in confusions.items()
            ]
            said = "A row for each label that an example has, a column for each that it was given."
            sections.append(Section(f"confusion on {split}", [said, *tables]))
        return sections


def _by_length(lengths: Mapping[str, ByLength]) -> list[Part]:
    """A chart for each way in which the examples were cut."""
    cuts: dict[tuple[str, ...], list[Series]] = {}
    for label, parts in lengths.items():
        places = [f"{low}-{high}" for low, high, _ in parts]
        series = Series(label, places, [rate for *_, rate in parts])
        cuts.setdefault(tuple(places), []).append(series)
    note = "Tenths of the examples by length (Figure 2)."
    return [
        Chart("Accuracy by length", "words", "accuracy", series, note=note)
        for series in cuts.values()
    ]


def _right(run: Run, split: str) -> tuple[int, int]:
    """How many right answers of how many a run's score of a split has counted."""
    counted = run.workdir.right_answers(split)
    if counted is None:
        path = run.workdir.path
        raise IncomparableError(f"{path}: its score of {split} counts no right answers to compare")
    return counted


def _gold(run: Run, split: str) -> list[str]:
    """The first column of the predictions."""
    return [line.partition("\t")[0] for line in run.file(split, ".predictions.tsv")]
