"""Evaluations of labels: confusion, accuracy by length, and paired tests."""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from common_jax.compare import Evaluation, IncomparableError, ScoredExample, notes_by_label
from common_jax.deploy.schema import tab_separated
from common_jax.document import Cell, Chart, Element, Heatmap, Panel, Section, Series, Table
from common_jax.errors import UserError
from common_jax.metrics.classification import (
    best_labels,
    count_of,
    decided_by_ties,
    equal_proportions,
    members_by_length,
)
from common_jax.metrics.paired import mcnemar, permutation_p
from common_jax.training.example_results import LENGTH

# Notes of `attconv_jax.score`.
ByLength = list[tuple[int, int, float]]  # shortest, longest and accuracy of each tenth
Confusion = dict[str, dict[str, float]]  # counts by gold label and predicted label

_LONGEST = 30  # words of a text in a picture


class LabelEvaluation(Evaluation):
    """Compares labels: confusion, accuracy by length, the test of equal proportions, McNemar's."""

    tests = (
        "p of the test of equal proportions, as the paper's stars, which assumes independent runs, "
        "and of McNemar's test, which counts the examples that only this run has right (wins) or "
        "only the other (losses); where ties decide examples, of the permutation test instead."
    )

    example_score = "probability of the gold label, in percent"

    metrics = tuple(f"accuracy_tenth_{n}" for n in range(1, 11))  # by length

    @functools.cached_property
    def further_metrics(self) -> Mapping[str, float]:
        """Accuracy on each tenth of the examples by length."""
        tenths = self.note("by_length", ByLength)
        return dict(zip(self.metrics, (rate for *_, rate in tenths), strict=False))

    @functools.cached_property
    def identity(self) -> Mapping[str, Any]:
        """Lengths if known, and gold labels, the first column of the predictions, if stored."""
        if not self.run.workdir.predictions_file(self.split, "tsv").exists():
            return super().identity
        gold = [line.partition("\t")[0] for line in self.run.workdir.predictions(self.split, "tsv")]
        return {"gold": gold, **super().identity}

    @functools.cached_property
    def counts(self) -> tuple[int | float, int] | None:
        """The numbers of right answers, in which a tie counts as its chance, and of examples; None
        if the score has none.

        Raises:
          UserError: as `ScoredRun.scores`, or for invalid counts.
        """
        scores = self.run.workdir.scores(self.split)
        if not scores.value.keys() >= {"correct", "examples"}:
            return None
        right = count_of(scores.get("correct", float))
        examples = scores.get("examples", int)
        if not 0 <= right <= examples > 0:
            raise UserError(f"{scores.place}: {right} of {examples} answers are right")
        return right, examples

    def required_counts(self) -> tuple[int | float, int]:
        """As `counts`; raises IncomparableError if there are none."""
        if self.counts is None:
            raise IncomparableError(
                f"{self.run.workdir.path}: its score of {self.split} counts no right answers to "
                "compare"
            )
        return self.counts

    def require(self) -> None:
        """As the base class; also requires the number of right answers."""
        self.required_counts()
        super().require()

    @functools.cached_property
    def cells(self) -> Mapping[str, Cell]:
        """The numbers of right answers and of examples."""
        if self.counts is None:
            return {}
        right, total = self.counts
        return {"right": right, "of": total, "%": 100 * right / total}

    @functools.cached_property
    def predictions(self) -> list[ScoredExample]:
        """As the base class; for a ranking, its pairs."""
        head, *rows = (line.split("\t") for line in self.run.workdir.predictions(self.split, "tsv"))
        data = self.run.corpus
        counts = self.counts
        names = data.config.names
        texts = data.texts(self.split)

        # The stored labels must be those that the score counts, but for examples that ties decide.
        right = sum(gold == label for gold, label, *_ in rows)
        ties = decided_by_ties(self.results["right"]) * len(rows) if self.results else 0
        labels = data.corpus(self.split).column("label")
        matches = [gold for gold, *_ in rows] == [names[n] for n in labels]
        if not matches or (
            counts and data.config.format != "ranking" and abs(counts[0] - right) > ties
        ):
            file = self.run.workdir.predictions_file(self.split, "tsv")
            raise UserError(f"{file}: not the labels of its score; score {self.split} again")

        # An example has the texts of its pair, and the probability of its gold label in percent.
        examples = []
        for row, pair in zip(rows, texts, strict=True):
            gold, label, *_ = row
            line = tab_separated(pair) if len(pair) > 1 else pair[0]
            chance = 100 * float(row[head.index(gold, 2)])
            examples.append(ScoredExample(line, " / ".join(pair), gold, label, chance))
        return examples

    def ensemble(self, others: Sequence[Evaluation]) -> Evaluation:
        """As the base class; not of rankings."""
        # The predictions of each run, which must be of the same examples and labels.
        tables = []
        for member in (self, *others):
            member.require_same(self)
            lines = member.run.workdir.predictions(self.split, "tsv")
            tables.append([line.split("\t") for line in lines])
        labels = tables[0][0][2:]
        gold = [row[0] for row in tables[0][1:]]
        if len(gold) != len(self.results.get(LENGTH, ())):
            raise IncomparableError(f"{self.run.workdir.path}: no results of single texts")
        if any(table[0][2:] != labels for table in tables):
            raise IncomparableError(f"{self.run.workdir.path}: runs with different labels")

        # The labels of the mean probabilities, scored as a run's.
        chances = np.array([[row[2:] for row in table[1:]] for table in tables], float).mean(0)
        right = best_labels(chances)[np.arange(len(gold)), [labels.index(name) for name in gold]]
        mean = type(self)(self.run, self.split)
        mean.results = {**self.results, "right": right}
        return mean

    @staticmethod
    def pictured(
        answer: str, run: str, line: str, span: tuple[int, int] | None = None
    ) -> tuple[str, Sequence[Element]]:
        """The label with its probability, and the attention maps of the lowest layer."""
        explained = json.loads(answer)
        label = explained["label"]
        words = explained["words"]
        names = ["text 1", "text 2"] if len(words) > 1 else ["the text"]
        pictures = []

        # A heatmap of each attention; the rows of a pooled one are weighted sums, not words.
        for attention in explained["layers"][0] if explained["layers"] else ():
            text = attention["text"]
            context = attention["context"]
            weights = attention["weights"][:_LONGEST]
            pooled = text is None
            sums = [f"sum {n + 1}" for n in range(len(weights))]
            rows = sums if pooled else words[text][:_LONGEST]
            axes = f"words of {names[context]}", "sums" if pooled else f"words of {names[text]}"
            panel = Panel("", [row[:_LONGEST] for row in weights])
            columns = words[context][:_LONGEST]
            longer = max(map(len, words)) > _LONGEST
            note = f"The first {_LONGEST} words of a text." if longer else ""
            title = f"{run}: attended words"
            pictures.append(Heatmap(title, *axes, rows, columns, [panel], note=note))
        return f"{label} ({explained['probabilities'][label]:.2f})", pictures

    def example_values(self, metric: str) -> Float[np.ndarray, "n"]:
        """As the base class; also for a tenth of the examples by length."""
        if metric not in self.metrics:
            return super().example_values(metric)
        values = super().example_values("accuracy")
        return values[members_by_length(self.results[LENGTH])[self.metrics.index(metric)]]

    @staticmethod
    def tested(result: str, differences: Float[np.ndarray, "n"]) -> dict[str, float]:
        """The difference with its interval, and McNemar's test instead of the t-test; with chances
        as results, which it cannot count, the permutation test that it is a case of."""
        numbers = Evaluation.tested(result, differences)
        numbers.pop(f"p_{result}", None)
        if not np.isin(differences, (-100, 0, 100)).all():
            return {**numbers, "p_permutation": permutation_p(differences)}
        wins = int((differences > 0).sum())
        losses = int((differences < 0).sum())
        return {**numbers, "wins": wins, "losses": losses, "p_mcnemar": mcnemar(wins, losses)}

    def tested_overall(self, baseline: Any) -> dict[str, float]:
        """The test of equal proportions."""
        counts = self.required_counts()
        baseline_counts = baseline.required_counts()
        p = equal_proportions(*counts, *baseline_counts)
        gap = 100 * (counts[0] / counts[1] - baseline_counts[0] / baseline_counts[1])
        return {"right_difference": gap, "p_equal_proportions": p}

    def sections(self, compared: Sequence[Any]) -> list[Section]:
        """Sections on differences, lengths and confusion; the latter two not for rankings."""
        sections = super().sections(compared)
        if lengths := notes_by_label([self, *compared], "by_length", ByLength):
            sections.append(Section(f"length on {self.split}", _by_length(lengths)))
        if confusions := notes_by_label([self, *compared], "confusion", Confusion):
            tables = [
                Table(
                    (label, *rows),
                    [[gold, *map(_counts(row).get, rows)] for gold, row in rows.items()],
                    shaded=True,
                )
                for label, rows in confusions.items()
            ]
            note = "Rows are gold labels, columns predicted ones."
            sections.append(Section(f"confusion on {self.split}", [note, *tables]))
        return sections


def _counts(row: Mapping[str, float]) -> dict[str, int | float]:
    return {label: count_of(count) for label, count in row.items()}


def _by_length(lengths: Mapping[str, ByLength]) -> list[Element]:
    """One chart for all runs with the same division into tenths."""
    cuts: dict[tuple[str, ...], list[Series]] = {}
    for label, tenths in lengths.items():
        ranges = [f"{low}-{high}" for low, high, _ in tenths]
        series = Series(label, ranges, [rate for *_, rate in tenths])
        cuts.setdefault(tuple(ranges), []).append(series)
    note = "Tenths of the examples by length (Figure 2)."
    return [
        Chart("Accuracy by length", "words", "accuracy", series, note=note)
        for series in cuts.values()
    ]
