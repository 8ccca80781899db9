"""Evaluations of runs of one task: paired tests, and further sections of a report."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from common_jax.compare.runs import Run
from common_jax.document import Cell, Element, Section, Table
from common_jax.errors import UserError
from common_jax.fields import named_class
from common_jax.metrics.paired import paired_t
from common_jax.training.example_results import LENGTH, Results
from common_jax.training.run_folder import EXAMPLES
from common_jax.training.task import Task

# Metrics that are means of a column of eval/<split>.examples.tsv.
COLUMNS = {"accuracy": "right", "precision_at_1": "right", "exact_match": "exact_match", "f1": "f1"}
COLUMNS["nll"] = "nll"
RATES = ("right", "exact_match", "f1")  # results of 0 to 1, compared in percent points


class IncomparableError(UserError):
    """Two evaluations that cannot be tested as pairs, such as those of different examples."""


@dataclasses.dataclass(frozen=True)
class Paired:
    """Results of the paired tests of two evaluations.

    Attributes:
      numbers: for each result of the examples (a column of eval/<split>.examples.tsv)
        `RESULT_difference`, the mean of the run's minus the baseline's, in percent points or, for
        the nll, nats an example; `RESULT_difference_low` and `_high`, its 95 % interval;
        `RESULT_detectable` (`common_jax.metrics.paired.Difference`); and `p_TEST` of each test.
      notes: tests that were not possible, with the reason, one line each.
    """

    numbers: Mapping[str, float]
    notes: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class ScoredExample:
    """An example of a split with a run's stored prediction and its score.

    Attributes:
      line: the input of the run's predictor; "" if unknown.
      text: the input as a page shows it.
      reference: the gold answer.
      prediction: the run's.
      score: of the prediction, larger for a better one (`Evaluation.example_score`).
      span: the characters of the reference in the input's text, if it is in it.
    """

    line: str
    text: str
    reference: str
    prediction: str
    score: float
    span: tuple[int, int] | None = None


class Evaluation:
    """A run's evaluation on a split, from eval/<split>.*; `Task.comparison` names a subclass.

    Attributes:
      run, split: `split` may also be another name of a score, such as an ensemble's.
      tests: describes the tests of `paired`, a sentence for the caption of a table.
      findings: the paper's findings, a sentence by the key of a config field, for the caption of a
        sweep's figure.
      metrics: names of metrics beyond those of a validation, in result.json or `further_metrics`.
      example_score: the name of `ScoredExample.score`.
      needs_predictions: whether its metrics and tests read the run's predictions.
      needs_corpus: whether `predictions` reads the corpus, beside the files of the score.
    """

    tests: ClassVar[str] = "p of the paired t-test over the examples."
    findings: ClassVar[Mapping[str, str]] = {}
    metrics: ClassVar[tuple[str, ...]] = ()
    example_score: ClassVar[str] = "score"
    needs_predictions: ClassVar[bool] = False
    needs_corpus: ClassVar[bool] = True

    def __init__(self, run: Run, split: str):
        self.run = run
        self.split = split

    @functools.cached_property
    def further_metrics(self) -> Mapping[str, float]:
        """Metrics that are not in the run's result.json, such as BLEU of 5-grams."""
        return {}

    @functools.cached_property
    def results(self) -> Results:
        """The results of the examples by column; empty without them, as in older runs."""
        return self.run.workdir.example_results(self.split) or {}

    @functools.cached_property
    def identity(self) -> Mapping[str, Any]:
        """Properties of the examples; equal values of the common ones mean the same examples."""
        return {LENGTH: self.results[LENGTH].tolist()} if self.results else {}

    def mean(self, metric: str) -> float | None:
        """A metric as the mean of its examples' results; None without them."""
        column = COLUMNS.get(metric, "")
        if column not in self.results:
            return None
        return _scale(column) * float(self.results[column].mean())

    def ensemble(self, others: Sequence["Evaluation"]) -> "Evaluation":
        """The evaluation of an ensemble of this run and others, from their stored predictions.

        Raises:
          IncomparableError: if predictions have no probabilities, or are of different examples.
        """
        raise IncomparableError(f"{self.run.workdir.path}: its predictions have no probabilities")

    def require(self) -> None:
        """Raises UserError if the score is missing or damaged."""
        self.run.workdir.scores(self.split)
        _ = self.identity

    def note(self, name: str, json_type: Any) -> Any:
        """A note of `Task.score`; empty without it.

        Args:
          json_type: a list or an object, as for `Node.get`.

        Raises:
          UserError: for a note of another type.
        """
        return self.run.workdir.scores(self.split).get(name, json_type, json_type())

    @functools.cached_property
    def intervals(self) -> Mapping[str, Sequence[float]]:
        """95 % intervals of metrics over the examples; by default the note "intervals"."""
        if not self.run.workdir.is_scored(self.split):
            return {}
        return self.note("intervals", dict[str, tuple[float, float]])

    @functools.cached_property
    def cells(self) -> Mapping[str, Cell]:
        """Further cells in the table of differences, by column."""
        return {}

    @functools.cached_property
    def predictions(self) -> Sequence[ScoredExample]:
        """The examples in the order of the score's files; empty if the task has none.

        Raises:
          NoCorpusError: if the texts cannot be read.
          UserError: if a file is missing or damaged, or has the predictions of another run.
        """
        return []

    @staticmethod
    def pictured(
        answer: str, run: str, line: str, span: tuple[int, int] | None = None
    ) -> tuple[str, Sequence[Element]]:
        """The text and the pictures that a page shows for a predictor's answer with `explain`.

        Args:
          answer: its line (`common_jax.deploy.answer.Answer`).
          run: the name of the run, for the pictures' titles.
          line: the predictor's input.
          span: as `ScoredExample.span`.
        """
        return answer, []

    def require_same(self, baseline: "Evaluation") -> None:
        """Raises IncomparableError if the baseline is of different examples."""
        known = self.identity.keys() & baseline.identity.keys()
        if any(self.identity[key] != baseline.identity[key] for key in known):
            raise IncomparableError(
                f"{baseline.run.workdir.path}: its {baseline.split} differs from that of "
                f"{self.run.workdir.path}"
            )

    def example_values(self, metric: str) -> Float[np.ndarray, "n"]:
        """Each example's result; their mean is the metric.

        Raises:
          IncomparableError: without results of the examples.
        """
        column = COLUMNS.get(metric, "")
        if column not in self.results:
            name = self.run.label
            raise IncomparableError(f"{name}: no {metric} of the examples of {self.split}")
        return _scale(column) * self.results[column]

    @classmethod
    def example_error(
        cls, runs: Sequence["Evaluation"], baselines: Sequence["Evaluation"], metric: str
    ) -> float:
        """The standard error, over the examples, of the difference of a metric's mean over runs to
        that over the baselines.

        Args:
          baselines: empty for the error of the mean itself.

        Raises:
          IncomparableError: for different examples, or as `example_values`.
        """
        require_same_examples([*runs, *baselines])

        def mean(group: Sequence["Evaluation"]) -> Float[np.ndarray, "n"]:
            return np.mean([run.example_values(metric) for run in group], axis=0)

        differences = mean(runs) - (mean(baselines) if baselines else 0.0)
        return float(differences.std(ddof=1)) / math.sqrt(len(differences))

    @staticmethod
    def tested(result: str, differences: Float[np.ndarray, "n"]) -> dict[str, float]:
        """The paired t-test of a result of the examples, as `Paired.numbers`.

        Args:
          result: its column.
          differences: of each example, the run's minus the baseline's.
        """
        if len(differences) < 2:
            return {f"{result}_difference": float(differences.mean())}
        difference = paired_t(differences)
        return {
            f"{result}_difference": difference.mean,
            f"{result}_difference_low": difference.low,
            f"{result}_difference_high": difference.high,
            f"{result}_detectable": difference.detectable,
            f"p_{result}": difference.p,
        }

    def tested_overall(self, baseline: "Evaluation") -> dict[str, float]:
        """Tests that need no results of the examples, as `Paired.numbers`."""
        return {}

    def paired(self, baseline: "Evaluation") -> Paired:
        """The paired tests against a baseline, on the same examples.

        Raises:
          IncomparableError: for different examples.
          UserError: if a file of a score is damaged.
        """
        self.require_same(baseline)
        numbers = self.tested_overall(baseline)
        notes = [
            f"{evaluation.run.workdir.path}: no eval/{evaluation.split}{EXAMPLES}; score "
            f"{evaluation.split} of that run again to compare its examples"
            for evaluation in (self, baseline)
            if not evaluation.results
        ]
        for result in (key for key in self.results if key in baseline.results and key != LENGTH):
            differences = _scale(result) * (self.results[result] - baseline.results[result])
            numbers |= self.tested(result, differences)
        return Paired(numbers, notes)

    def sections(self, compared: Sequence["Evaluation"]) -> list[Section]:
        """Sections of a report beyond the metrics.

        Args:
          compared: evaluations on this split, of which this one is the baseline.
        """
        return [self.differences(compared)] if compared or self.cells else []

    def differences(self, compared: Sequence["Evaluation"]) -> Section:
        """A table of `paired` comparisons of each evaluation with this one."""
        rows = []
        notes = []

        # The numbers of each run, and of all but this one the differences from it.
        for evaluation in (self, *compared):
            row: dict[str, Cell] = {"run": evaluation.run.label, **evaluation.cells}
            if evaluation is not self:
                try:
                    paired = evaluation.paired(self)
                except IncomparableError as error:
                    paired = Paired({}, [str(error)])
                row |= _cells(paired.numbers)
                notes += [note for note in paired.notes if note not in notes]
            rows.append(row)

        # All columns that a row has.
        head = list(dict.fromkeys(column for row in rows for column in row))
        note = (
            f"Against {self.run.label}; gaps with their 95 % intervals. {self.tests} They "
            "measure the noise of the examples, not that between seeds. Detectable is the true gap "
            "that is detected with a power of 80 %."
        )
        table = Table(head, [[row.get(column) for column in head] for row in rows], note)
        return Section(f"differences on {self.split}", [table, *notes])


def require_same_examples(evaluations: Sequence[Evaluation]) -> None:
    """Raises IncomparableError if evaluations are not all of the same examples."""
    for evaluation in evaluations[1:]:
        evaluations[0].require_same(evaluation)


def evaluation_class(task: type[Task]) -> type[Evaluation]:
    """The class that `Task.comparison` names."""
    if not task.comparison:
        return Evaluation
    return named_class(task.comparison, Evaluation, f"{task.__name__}.comparison")


@functools.lru_cache(256)  # a page shows the same intervals several times
def evaluation_of(run: Run, split: str) -> Evaluation:
    """The evaluation of a run on a split, of the class of its task."""
    return evaluation_class(type(run.task))(run, split)


def notes_by_label(evaluations: Sequence[Evaluation], name: str, json_type: Any) -> dict[str, Any]:
    """The notes `name` that are not empty, by the labels of the runs."""
    notes = {evaluation.run.label: evaluation.note(name, json_type) for evaluation in evaluations}
    return {label: note for label, note in notes.items() if note}


def _cells(numbers: Mapping[str, float]) -> dict[str, Cell]:
    """`Paired.numbers` as cells of a table, by column."""
    cells: dict[str, Cell] = {}
    for name, value in numbers.items():
        if name.endswith("_difference"):
            gap = f"{value:+.2f}"
            if (low := numbers.get(f"{name}_low")) is not None:
                gap += f" ({low:+.2f} to {numbers[f'{name}_high']:+.2f})"
            cells[f"{name.removesuffix('_difference')} gap"] = gap
        elif name.startswith("p_"):
            cells[f"{name.removeprefix('p_')} p"] = f"{value:.4f}"
        elif not name.endswith(("_low", "_high")):
            cells[name.replace("_", " ")] = value if isinstance(value, int) else f"{value:.2f}"
    return cells


def _scale(column: str) -> float:
    """The factor from a result of the examples to its metric."""
    return 100.0 if column in RATES else 1.0
