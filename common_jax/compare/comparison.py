"""Comparison of runs of one task: paired tests, and further sections of a report."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from common_jax.compare.runs import Run
from common_jax.errors import UserError
from common_jax.fields import named_class
from common_jax.metrics.paired import paired_t
from common_jax.report.document import Cell, Part, Section, Table
from common_jax.training.example_results import LENGTH
from common_jax.training.run_folder import EXAMPLES
from common_jax.training.task import Task

# Metrics that are means of a column of eval/<split>.examples.tsv.
COLUMNS = {"accuracy": "right", "precision_at_1": "right", "exact_match": "exact_match", "f1": "f1"}
COLUMNS["nll"] = "nll"
RATES = ("right", "exact_match", "f1")  # results of 0 to 1, compared in percent points


class IncomparableError(UserError):
    """Two scores that cannot be tested as pairs, such as those of different examples."""


@dataclasses.dataclass(frozen=True)
class Paired:
    """Results of the paired tests of two scores.

    Attributes:
      numbers: for each result of the examples (a column of eval/<split>.examples.tsv)
        `RESULT_difference`, the mean of the run's minus the other's, in percent points or, for the
        nll, nats an example; `RESULT_difference_low` and `_high`, its 95 % interval;
        `RESULT_detectable` (`common_jax.metrics.paired.Difference`); and `p_TEST` of each test.
      notes: tests that were not possible, with the reason, one line each.
    """

    numbers: Mapping[str, float]
    notes: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Example:
    """An example of a split with a run's stored prediction.

    Attributes:
      line: the input of the run's predictor; "" if unknown.
      text: the input as a page shows it.
      reference: the gold answer.
      prediction: the run's.
      score: of the prediction, larger for a better one (`Comparison.example_score`).
      span: the characters of the reference in the input's text, if it is a part of it.
    """

    line: str
    text: str
    reference: str
    prediction: str
    score: float
    span: tuple[int, int] | None = None


class Comparison:
    """Compares the runs of one task; `Task.comparison` names a subclass.

    Attributes:
      tests: describes the tests of `paired`, a sentence for the caption of a table.
      findings: the paper's findings, a sentence by the key of a config field, for the caption of a
        sweep's figure.
      metrics: names of metrics beyond those of a validation; see `further`.
      example_score: the name of `Example.score`.
      needs_corpus: whether `predictions` reads the corpus, beside the files of the score.
    """

    tests: ClassVar[str] = "p of the paired t-test over the examples."
    findings: ClassVar[Mapping[str, str]] = {}
    metrics: ClassVar[tuple[str, ...]] = ()
    example_score: ClassVar[str] = "score"
    needs_corpus: ClassVar[bool] = True

    @classmethod
    def further(cls, run: Run, split: str) -> Mapping[str, float]:
        """Metrics of a run's score that are not in its result.json, such as BLEU of 5-grams."""
        return {}

    @classmethod
    def predictions(cls, run: Run, split: str) -> Sequence[Example]:
        """The examples of a run's score in the order of its files; empty if the task has none.

        Raises:
          NoCorpusError: if the texts cannot be read.
          UserError: if a file is missing or damaged, or has the predictions of another run.
        """
        return []

    @classmethod
    def pictured(
        cls, answer: str, run: str, line: str, span: tuple[int, int] | None = None
    ) -> tuple[str, Sequence[Part]]:
        """The text and the pictures that a page shows for a predictor's answer with `explain`.

        Args:
          run: the name of the run, for the pictures' titles.
          line: the predictor's input.
          span: as `Example.span`.
        """
        return answer, []

    @classmethod
    def intervals(cls, run: Run, split: str) -> Mapping[str, Sequence[float]]:
        """The known 95 % intervals over the examples of a run's metrics on a split; by default the
        note "intervals" of `Task.score`."""
        if not run.workdir.is_scored(split):
            return {}
        return run.workdir.scores(split).get("intervals", dict[str, tuple[float, float]], {})

    @classmethod
    def compare(cls, runs: Sequence[Run], split: str) -> Sequence[Section]:
        """Sections of a report beyond the metrics, from the files of `Task.score`.

        Args:
          runs: of this task, all scored on the split; the first is the baseline of the others.
        """
        return [cls.differences(runs, split)] if len(runs) > 1 else []

    @classmethod
    def examples(cls, run: Run, split: str) -> Mapping[str, Any]:
        """Properties that identify the examples of a score. Two scores are of the same examples if
        the properties known of both are equal."""
        results = run.workdir.example_results(split)
        return {} if results is None else {LENGTH: results[LENGTH].tolist()}

    @classmethod
    def require(cls, run: Run, split: str) -> None:
        """Raises UserError if a run's score of a split is missing or damaged."""
        run.workdir.scores(split)
        cls.examples(run, split)

    @classmethod
    def tested(cls, result: str, differences: Float[np.ndarray, "n"]) -> dict[str, float]:
        """The paired t-test of one result, as `Paired.numbers`.

        Args:
          result: its column.
          differences: of each example, the run's minus the other's.
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

    @classmethod
    def paired(cls, run: Run, other: Run, split: str, name: str = "") -> Paired:
        """The paired tests of two runs that were scored on the same examples.

        Args:
          other: the baseline.
          name: of the run's score, if it is not the split's, such as an ensemble's.

        Raises:
          IncomparableError: for scores of different examples.
          UserError: if a file of a score is damaged.
        """
        name = name or split
        cls.require_same(run, other, name, split)
        each = {(r, s): r.workdir.example_results(s) for r, s in ((run, name), (other, split))}
        notes = [
            f"{r.workdir.path}: no eval/{s}{EXAMPLES}; score {s} of that run again to compare its "
            "examples"
            for (r, s), results in each.items()
            if results is None
        ]
        numbers: dict[str, float] = {}
        if not notes:
            first, second = (results or {} for results in each.values())
            for result in (key for key in first if key in second and key != LENGTH):
                scale = 100 if result in RATES else 1
                numbers |= cls.tested(result, scale * (first[result] - second[result]))
        return Paired(numbers, notes)

    @classmethod
    def example_error(cls, run: Run, other: Run, split: str, metric: str) -> float:
        """The standard error, over the examples, of the difference of a metric of two runs, which
        is a mean over the examples.

        Raises:
          IncomparableError: for scores of different examples, or without results of the examples.
        """
        differences = cls.example_differences(run, other, split, metric)
        return float(differences.std(ddof=1)) / math.sqrt(len(differences))

    @classmethod
    def example_differences(
        cls, run: Run, other: Run, split: str, metric: str
    ) -> Float[np.ndarray, "n"]:
        """The differences, run - other, of which that of a metric is the mean.

        Raises:
          IncomparableError: as `example_error`.
        """
        cls.require_same(run, other, split, split)
        results = [one.workdir.example_results(split) or {} for one in (run, other)]
        column = COLUMNS.get(metric, "")
        if any(column not in one for one in results):
            raise IncomparableError(f"{run.workdir.path}: no {metric} of the examples of {split}")
        first, second = (one[column] for one in results)
        return (100.0 if column in RATES else 1.0) * (first - second)

    @classmethod
    def require_same(cls, run: Run, other: Run, name: str, split: str) -> None:
        """Raises IncomparableError if two scores, `name` of the run and `split` of the other, are
        of different examples."""
        own, others = cls.examples(run, name), cls.examples(other, split)
        if any(own[key] != others[key] for key in own.keys() & others.keys()):
            raise IncomparableError(
                f"{other.workdir.path}: its {split} differs from that of {run.workdir.path}"
            )

    @classmethod
    def scores(cls, run: Run, split: str) -> Mapping[str, Cell]:
        """Further cells of a run in the table of differences, by column."""
        return {}

    @classmethod
    def differences(cls, runs: Sequence[Run], split: str) -> Section:
        """A table of `paired` comparisons of each run with the first."""
        rows, notes = [], []
        for run in runs:
            row: dict[str, Cell] = {"run": run.label, **cls.scores(run, split)}
            if run is not runs[0]:
                try:
                    paired = cls.paired(run, runs[0], split)
                except IncomparableError as error:
                    paired = Paired({}, [str(error)])
                row |= _cells(paired.numbers)
                notes += [note for note in paired.notes if note not in notes]
            rows.append(row)
        head = list(dict.fromkeys(column for row in rows for column in row))
        note = (
            f"Against {runs[0].label}; gaps with their 95 % intervals. {cls.tests} They "
            "measure the noise of the examples, not that between seeds. Detectable is the true gap "
            "that is detected with a power of 80 %."
        )
        table = Table(head, [[row.get(column) for column in head] for row in rows], note)
        return Section(f"differences on {split}", [table, *notes])


def comparison_of(task: type[Task]) -> type[Comparison]:
    """The comparison that a task names."""
    if not task.comparison:
        return Comparison
    return named_class(task.comparison, Comparison, f"{task.__name__}.comparison")


def _cells(numbers: Mapping[str, float]) -> dict[str, Cell]:
    """Numbers of `Paired` by the columns of a table."""
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
