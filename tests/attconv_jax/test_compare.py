"""Labels beside each other: the test of equal proportions, lengths, confusion."""

import pytest
from scipy import stats

from common_jax.compare import Run
from common_jax.training.task import Scored
from common_jax.training.workdir import Workdir

HEAD = "gold\tlabel\tno\tyes"


@pytest.fixture
def as_run(tmp_path):
    def make(label, right, total=200, gold="no", **notes):
        lines = [HEAD, *[f"{gold}\tyes\t0.4\t0.6"] * total]
        files = {".predictions.tsv": "\n".join(lines) + "\n"}
        workdir = Workdir(tmp_path / label)
        workdir.path.mkdir()
        notes = {"correct": right, "examples": total, **notes}
        workdir.write_scored("test", Scored({}, notes, files, []))
        return Run(label, workdir)

    return make


def test_p_is_that_of_the_chi_squared_test(as_run):
    (section,) = LabelComparison.compare([as_run("a", 100), as_run("b", 130)], "test")
    (table,) = section.parts
    first, second = (dict(zip(table.head, row, strict=True)) for row in table.rows)
    assert (first["gap"], first["p"]) == (None, None)
    table = [[100, 100], [130, 70]]
    assert float(second["p"]) == pytest.approx(
        stats.chi2_contingency(table, correction=False).pvalue, abs=5e-5
    )
    assert (second["%"], second["gap"]) == (65.0, "+15.00")


def test_runs_of_other_examples_are_not_compared(as_run):
    (section,) = LabelComparison.compare([as_run("a", 100), as_run("b", 130, gold="yes")], "test")
    assert section.parts[0].rows[1][-2:] == ["other examples", None]


def test_lengths_and_confusions_are_shown_where_there_are_some(as_run):
    notes = {
        "by_length": [[1, 3, 80.0], [4, 9, 70.0]],
        "confusion": {"no": {"no": 3, "yes": 1}, "yes": {"no": 0, "yes": 6}},
    }
    _, lengths, confusion = LabelComparison.compare(
        [as_run("a", 100, **notes), as_run("b", 90)], "test"
    )
    (chart,) = lengths.parts
    assert [(s.name, s.x, s.y) for s in chart.series] == [("a", ["1-3", "4-9"], [80.0, 70.0])]
    _, table = confusion.parts
    assert (table.head, table.rows) == (("a", "no", "yes"), [["no", 3, 1], ["yes", 0, 6]])
    assert table.shaded
