"""Labels of several runs beside each other: confusion, length, the test of equal proportions."""

from collections.abc import Mapping, Sequence

from common_jax.compare import Comparison, Run, noted
from common_jax.metrics.classification import equal_proportions
from common_jax.report.document import Cell, Chart, Part, Section, Series, Table

# What `score` has put into its notes.
ByLength = list[tuple[int, int, float]]  # shortest, longest, accuracy of each tenth
Confusion = dict[str, dict[str, int]]  # by gold label, by label given


class LabelComparison(Comparison):
    """Confusion, accuracy by length, and the test of equal proportions."""

    @classmethod
    def compare(cls, runs: Sequence[Run], split: str) -> list[Section]:
        """Against the first run; of rankings only what they have of it."""
        sections = [Section(f"differences on {split}", _differences(runs, split))]
        if lengths := noted(runs, split, "by_length", ByLength):
            sections.append(Section(f"length on {split}", _by_length(lengths)))
        if confusions := noted(runs, split, "confusion", Confusion):
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


def _differences(runs: Sequence[Run], split: str) -> list[Part]:
    first, wanted = runs[0], _gold(runs[0], split)
    theirs = first.workdir.right_answers(split)
    rows: list[list[Cell]] = []
    for run in runs:
        ours = run.workdir.right_answers(split)
        if ours is None or theirs is None:
            rows.append([run.label, None, None, None, "right answers not counted", None])
            continue
        (right, total), gap, p = ours, None, None
        rate = 100 * right / total
        alike = _gold(run, split) == wanted
        if run is not first and alike:
            gap = f"{rate - 100 * theirs[0] / theirs[1]:+.2f}"
            p = f"{equal_proportions(*ours, *theirs):.4f}"
        elif not alike:
            gap = "other examples"
        rows.append([run.label, right, total, rate, gap, p])
    note = (
        f"p of the test of equal proportions against {first.label}, as the paper's stars; it knows "
        "the noise of the examples, not that between seeds."
    )
    return [Table(("run", "right", "of", "%", "gap", "p"), rows, note)]


def _gold(run: Run, split: str) -> list[str]:
    """The first column of the predictions."""
    return [line.partition("\t")[0] for line in run.file(split, ".predictions.tsv")]
