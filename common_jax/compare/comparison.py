"""How the runs of one task are compared: paired tests, and what a report shows beyond metrics."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from common_jax.compare.runs import Run
from common_jax.errors import UserError
from common_jax.fields import named_class
from common_jax.metrics.paired import paired_t
from common_jax.report.document import Cell, Section, Table
from common_jax.training.examples import LENGTH
from common_jax.training.task import Task

RATES = ("right", "exact_match", "f1")  # results of 0 to 1, compared in percent points


class IncomparableError(UserError):
    """Two scores that no paired test fits, such as those of different examples."""


@dataclasses.dataclass(frozen=True)
class Paired:
    """What the paired tests of two scores found.

    Attributes:
      numbers: for each result of the examples (a column of eval/<split>.examples.tsv)
        `RESULT_difference`, the mean of the run's less the other's, in percent points or, of the
        nll, nats an example; `RESULT_difference_low` and `_high`, its 95 % interval;
        `RESULT_detectable` (`common_jax.metrics.paired.Difference`); and `p_TEST` of each test.
      notes: what could not be tested, and why; one line each.
    """

    numbers: Mapping[str, float]
    notes: Sequence[str] = ()


class Comparison:
    """How the runs of one task are compared; `Task.comparison` names a subclass.

    Attributes:
      tests: the tests of `paired`, a sentence for the caption of a table.
      findings: the paper's finding on a config field, a sentence by the field's key, for the
        caption of a sweep's figure.
    """

    tests: ClassVar[str] = "p of the paired t-test over the examples."
    findings: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def intervals(cls, run: Run, split: str) -> Mapping[str, Sequence[float]]:
        """The bounds of the 95 % interval over the examples for each of a run's metrics on a split,
        where they are known: by default what `Task.score` has put into its notes as "intervals"."""
        scored = run.workdir.scored(split)
        return scored.get("intervals", dict[str, tuple[float, float]], {}) if scored else {}

    @classmethod
    def compare(cls, runs: Sequence[Run], split: str) -> Sequence[Section]:
        """Sections of a report beyond the metrics, from what `Task.score` has written.

        Args:
          runs: of this task, all scored on the split; the first is the baseline of the others.
        """
        return [cls.differences(runs, split)] if len(runs) > 1 else []

    @classmethod
    def examples(cls, run: Run, split: str) -> Mapping[str, Any]:
        """What tells the examples of a score from those of another, by what it is. Two scores are
        of the same examples if all that is known of both is equal."""
        results = run.workdir.example_results(split)
        return {} if results is None else {LENGTH: results[LENGTH].tolist()}

    @classmethod
    def require(cls, run: Run, split: str) -> None:
        """Checks that a run has a score of a split that others can be compared with.

        Raises:
          UserError: for one that is missing or damaged.
        """
        run.workdir.read_scored(split)
        cls.examples(run, split)

    @classmethod
    def tested(cls, result: str, differences: Float[np.ndarray, "n"]) -> dict[str, float]:
        """The numbers of one result of the examples, by the paired t-test.

        Args:
          result: its column.
          differences: the run's less the other's, of each example.
        """
        if len(differences) < 2:
            return {f"{result}_difference": float(differences.mean())}
        found = paired_t(differences)
        return {
            f"{result}_difference": found.mean,
            f"{result}_difference_low": found.low,
            f"{result}_difference_high": found.high,
            f"{result}_detectable": found.detectable,
            f"p_{result}": found.p,
        }

    @classmethod
    def paired(cls, run: Run, other: Run, split: str, name: str = "") -> Paired:
        """The paired tests of two runs that were scored on the same examples.

        Args:
          other: what the run is compared with.
          name: of the run's score, where it is not the split's, as of an ensemble.

        Raises:
          IncomparableError: for scores of different examples.
          UserError: for a file of a score that is damaged.
        """
        name = name or split
        ours, theirs = cls.examples(run, name), cls.examples(other, split)
        if any(ours[key] != theirs[key] for key in ours.keys() & theirs.keys()):
            raise IncomparableError(
                f"{other.workdir.path}: its {split} is another than that of {run.workdir.path}"
            )
        each = {(r, s): r.workdir.example_results(s) for r, s in ((run, name), (other, split))}
        notes = [
            f"{r.workdir.path}: no eval/{s}.examples.tsv; score {s} of that run again to compare "
            "its examples"
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
    def scores(cls, run: Run, split: str) -> Mapping[str, Cell]:
        """What the table of differences has of a run alone, by column."""
        return {}

    @classmethod
    def differences(cls, runs: Sequence[Run], split: str) -> Section:
        """A table of what `paired` finds of each run beside the first."""
        rows, notes = [], []
        for run in runs:
            row: dict[str, Cell] = {"run": run.label, **cls.scores(run, split)}
            if run is not runs[0]:
                try:
                    found = cls.paired(run, runs[0], split)
                except IncomparableError as error:
                    found = Paired({}, [str(error)])
                row |= _cells(found.numbers)
                notes += [note for note in found.notes if note not in notes]
            rows.append(row)
        head = list(dict.fromkeys(column for row in rows for column in row))
        note = (
            f"Against {runs[0].label}; gaps with their 95 % intervals. {cls.tests} They "
            "measure the noise of the examples, not that between seeds. Detectable is the true gap "
            "that would be found with a power of 80 %."
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
