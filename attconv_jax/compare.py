"""Comparison of labels of several runs: confusion, accuracy by length, and paired tests."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from common_jax.compare import Comparison, Example, IncomparableError, Paired, Run, read_notes
from common_jax.errors import UserError
from common_jax.metrics.classification import equal_proportions, members_by_length
from common_jax.metrics.paired import mcnemar
from common_jax.report.document import Cell, Chart, Heatmap, Panel, Part, Section, Series, Table
from common_jax.training.example_results import LENGTH

# Notes of `attconv_jax.score`.
ByLength = list[tuple[int, int, float]]  # shortest, longest and accuracy of each tenth
Confusion = dict[str, dict[str, int]]  # counts by gold label and predicted label

_LONGEST = 30  # words of a text in a picture


class LabelComparison(Comparison):
    """Compares labels: confusion, accuracy by length, the test of equal proportions, McNemar's."""

    tests = (
        "p of the test of equal proportions, as the paper's stars, which assumes independent runs, "
        "and of McNemar's test, which counts the examples that only this run has right (wins) or "
        "only the other (losses)."
    )

    example_score = "probability of the gold label, in percent"

    metrics = tuple(f"accuracy_tenth_{n}" for n in range(1, 11))  # by length

    @classmethod
    def further(cls, run: Run, split: str) -> Mapping[str, float]:
        """Accuracy on each tenth of the examples by length."""
        parts = read_notes([run], split, "by_length", ByLength).get(run.label, [])
        return dict(zip(cls.metrics, (rate for *_, rate in parts), strict=False))

    @classmethod
    def example_differences(
        cls, run: Run, other: Run, split: str, metric: str
    ) -> Float[np.ndarray, "n"]:
        """As the base class; also for a tenth of the examples by length."""
        if metric not in cls.metrics:
            return super().example_differences(run, other, split, metric)
        differences = super().example_differences(run, other, split, "accuracy")
        lengths = (run.workdir.example_results(split) or {})[LENGTH]
        return differences[members_by_length(lengths)[cls.metrics.index(metric)]]

    @classmethod
    def examples(cls, run: Run, split: str) -> Mapping[str, Any]:
        """Gold labels, and lengths if known."""
        return {"gold": _gold(run, split), **super().examples(run, split)}

    @classmethod
    def require(cls, run: Run, split: str) -> None:
        """As the base class; also requires the number of right answers."""
        _right(run, split)
        super().require(run, split)

    @classmethod
    def predictions(cls, run: Run, split: str) -> list[Example]:
        """As the base class; for a ranking, its pairs."""
        head, *rows = (line.split("\t") for line in run.workdir.predictions(split, "tsv"))
        data, counted = run.corpus, _counts(run, split)
        names, texts = data.config.names, data.texts(split)
        right = sum(gold == label for gold, label, *_ in rows)
        own = [gold for gold, *_ in rows] == [names[n] for n in data.corpus(split).column("label")]
        if not own or (counted and data.config.format != "ranking" and counted[0] != right):
            file = run.workdir.predictions_file(split, "tsv")
            raise UserError(f"{file}: not the labels of its score; score {split} again")
        examples = []
        for row, each in zip(rows, texts, strict=True):
            gold, label, *_ = row
            line = "\t".join(" ".join(text.split()) for text in each)
            chance = 100 * float(row[head.index(gold, 2)])
            examples.append(Example(line, " / ".join(each), gold, label, chance))
        return examples

    @classmethod
    def pictured(
        cls, answer: str, run: str, line: str, span: tuple[int, int] | None = None
    ) -> tuple[str, Sequence[Part]]:
        """The label with its probability, and a picture of each attention map of the lowest
        layer."""
        explained = json.loads(answer)
        label, words = explained["label"], explained["words"]
        names = ["text 1", "text 2"] if len(words) > 1 else ["the text"]
        pictures = []
        for each in explained["layers"][0] if explained["layers"] else ():
            of, context, weights = each["text"], each["context"], each["weights"][:_LONGEST]
            pooled = of is None
            rows = [f"sum {n + 1}" for n in range(len(weights))] if pooled else words[of][:_LONGEST]
            axes = f"words of {names[context]}", "sums" if pooled else f"words of {names[of]}"
            panel = Panel("", [row[:_LONGEST] for row in weights])
            columns = words[context][:_LONGEST]
            longer = max(map(len, words)) > _LONGEST
            note = f"The first {_LONGEST} words of a text." if longer else ""
            title = f"{run}: attended words"
            pictures.append(Heatmap(title, *axes, rows, columns, [panel], note=note))
        return f"{label} ({explained['probabilities'][label]:.2f})", pictures

    @classmethod
    def tested(cls, result: str, differences: Float[np.ndarray, "n"]) -> dict[str, float]:
        """The difference with its interval, and McNemar's test instead of the t-test."""
        numbers = super().tested(result, differences)
        numbers.pop(f"p_{result}", None)
        wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
        return {**numbers, "wins": wins, "losses": losses, "p_mcnemar": mcnemar(wins, losses)}

    @classmethod
    def paired(cls, run: Run, other: Run, split: str, name: str = "") -> Paired:
        """As the base class, with the test of equal proportions, which needs no example results."""
        own, other_counts = _right(run, name or split), _right(other, split)
        paired = super().paired(run, other, split, name)
        numbers = {"p_equal_proportions": equal_proportions(*own, *other_counts)}
        gap = 100 * (own[0] / own[1] - other_counts[0] / other_counts[1])
        return Paired({"right_difference": gap, **numbers, **paired.numbers}, paired.notes)

    @classmethod
    def scores(cls, run: Run, split: str) -> Mapping[str, Cell]:
        """The numbers of right answers and of examples."""
        counted = _counts(run, split)
        if counted is None:
            return {}
        right, total = counted
        return {"right": right, "of": total, "%": 100 * right / total}

    @classmethod
    def compare(cls, runs: Sequence[Run], split: str) -> list[Section]:
        """Sections on differences, lengths and confusion; the latter two not for rankings."""
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
            note = "Rows are gold labels, columns predicted ones."
            sections.append(Section(f"confusion on {split}", [note, *tables]))
        return sections


def _by_length(lengths: Mapping[str, ByLength]) -> list[Part]:
    """One chart for all runs with the same division into tenths."""
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


def _counts(run: Run, split: str) -> tuple[int, int] | None:
    """The numbers of right answers and of examples in a run's score of a split; None without them.

    Raises:
      UserError: as `RunFolder.scores`, or for invalid counts.
    """
    scores = run.workdir.scores(split)
    if not scores.value.keys() >= {"correct", "examples"}:
        return None
    right, examples = (scores.get(name, int) for name in ("correct", "examples"))
    if not 0 <= right <= examples > 0:
        raise UserError(f"{scores.place}: {right} of {examples} answers are right")
    return right, examples


def _right(run: Run, split: str) -> tuple[int, int]:
    """As `_counts`; raises IncomparableError if there are none."""
    counted = _counts(run, split)
    if counted is None:
        path = run.workdir.path
        raise IncomparableError(f"{path}: its score of {split} counts no right answers to compare")
    return counted


def _gold(run: Run, split: str) -> list[str]:
    """The gold labels, the first column of the predictions."""
    return [line.partition("\t")[0] for line in run.workdir.predictions(split, "tsv")]
