"""The report of some runs, against the files of the runs, and its examples."""

import json
import shutil
import statistics

import numpy as np
import pytest
from scipy import stats

from common_jax.compare import Evaluation, Run, ScoredExample, read_runs
from common_jax.document import Chart, Table
from common_jax.errors import UserError
from common_jax.paper_config import PaperConfig
from common_jax.training.scored_run import ScoredRun
from launch import evaluate
from launch.pages.examples import differing
from launch.pages.runs import report
from launch.train import __main__ as train
from tests.launch.commands import arguments, toy_config
from tests.launch.corrupt_files import values
from tests.launch.tiny_runs import lines, result

VALUES = {
    "train.steps": 60,
    "train.log_every": 5,
    "train.evaluate_every": 20,
    "mesh.data": 1,
    "paper.results": ("Summer: test loss 1.5 rounded 97", "Winter: dev loss 3"),
    "paper.source": "Table 9",
}
RUNS = {"base": {}, "seed1": {"train.seed": 1}, "plain": {"rate": 0.0, "train.steps": 40}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, changes in RUNS.items():
        train.main(arguments(toy_config(folder, VALUES), folder, name, **changes))
    return folder


@pytest.fixture
def copied(folder, tmp_path):
    """Copies runs into the test's folder; returns the folder of the first."""

    def copied(*names):
        for name in names:
            shutil.copytree(folder / name, tmp_path / name)
        return tmp_path / names[0]

    return copied


def sections_of(*runs):
    """The elements of the sections of the runs' report by their titles."""
    page = report(read_runs(runs))
    assert page.title == "Toy"
    return {section.title: section.elements for section in page.sections}


@pytest.fixture(scope="module")
def sections(folder):
    return sections_of(*(folder / name for name in RUNS))


def by_name(table: Table):
    return {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}


def test_each_run_has_its_size_and_speed(folder, sections):
    rows = by_name(sections["Runs"][0])
    speeds = by_name(sections["Speed"][0])
    assert [rows[name]["steps"] for name in RUNS] == [60, 60, 40]
    for name in RUNS:
        assert rows[name]["parameters"] == 44
        assert rows[name]["minutes"] == result(folder / name)["wall_seconds"] / 60
        logged = [x["examples_per_second"] for x in lines(folder / name) if "split" not in x]
        assert speeds[name]["tokens or examples/s"] == pytest.approx(statistics.median(logged))
        last = [x for x in lines(folder / name) if "split" not in x][-1]
        taken = sum(x.get("step_seconds", 0.0) for x in lines(folder / name))
        expected = pytest.approx(100 * taken / last["wall_seconds"])
        assert speeds[name]["steps, % of time"] == expected
    assert not {"of the peak, %", "memory, GiB"} & {*sections["Speed"][0].head}  # of a CPU


def test_speed_of_an_accelerator_and_of_earlier_logs(copied):
    """The first line is of a version that measured no steps."""
    base = copied("base")
    rates = {"tflop_per_second": 1.5, "flop_utilisation": 0.25, "peak_memory_mib": 2048}
    log = [
        {"step": 5, "saving_seconds": 1.0, "wall_seconds": 10.0},
        {"step": 9, "saving_seconds": 1.0, "step_seconds": 3.0, "wall_seconds": 15.0, **rates},
    ]
    (base / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    assert by_name(sections_of(base)["Speed"][0])["base"] == {
        **{"run": "base", "TFLOP/s": "1.5", "of the peak, %": 25.0, "memory, GiB": 2.0},
        **{"steps, % of time": 60.0, "saving, %": pytest.approx(200 / 15)},
    }


def test_settings_are_the_fields_that_differ(sections):
    differing, *commands = sections["Toy: settings"]
    assert by_name(differing) == {
        "base": {"run": "base", "rate": "0.1", "train.steps": "60", "train.seed": "0"},
        "seed1": {"run": "seed1", "rate": "0.1", "train.steps": "60", "train.seed": "1"},
        "plain": {"run": "plain", "rate": "0.0", "train.steps": "40", "train.seed": "0"},
    }
    assert len(commands) == 3
    assert commands[2].startswith("plain: python -m launch.train --config")


def test_scores_stand_beside_their_mean_over_seeds_and_the_papers(folder, sections):
    dev, test = sections["Toy: scores"]
    rows = by_name(test)
    for name in RUNS:
        scores = result(folder / name)["metrics"]["test"]
        assert {key: rows[name][key] for key in scores} == scores
    seeds = [result(folder / name)["metrics"]["test"]["loss"] for name in ("base", "seed1")]
    half = stats.t.ppf(0.975, 1) * stats.sem(seeds)
    assert rows["mean of 2: base, seed1"]["loss"] == f"{sum(seeds) / 2:.2f} ± {half:.2f}"
    label = "the paper (Table 9): Summer"
    assert rows[label] == {"test": label, "loss": 1.5, "rounded": 97.0}
    assert len(rows) == 5
    assert by_name(dev)["the paper (Table 9): Winter"]["rounded"] is None


def test_scores_have_intervals(folder, copied):
    base = copied("base")
    values("eval/test.json", intervals={"loss": [1, 2.5]})(base)
    _, test, *_ = scores(base.parent, ["base"])
    loss = result(folder / "base")["metrics"]["test"]["loss"]
    assert by_name(test)["base"]["loss"] == f"{loss:.2f} (1.00 to 2.50)"


def test_scores_and_intervals_are_of_the_checkpoint_that_was_scored_last(tmp_path):
    """The run is continued, interrupted before its end, and evaluated."""
    config = toy_config(tmp_path, VALUES)
    run = tmp_path / "run"
    for steps in (20, 40):
        saved = (run / "result.json").read_text() if run.exists() else ""
        train.main(arguments(config, tmp_path, "run", **{"train.steps": steps}))
    (run / "result.json").write_text(saved)
    evaluate.main(["--workdir", str(run), "--split", "test"])
    values("eval/test.json", intervals={"loss": [0, 2.5]})(run)
    loss = json.loads((run / "eval" / "test.json").read_text())["loss"]
    assert loss != result(run)["metrics"]["test"]["loss"]
    _, test, *_ = scores(tmp_path, ["run"])
    assert by_name(test)["run"]["loss"] == f"{loss:.2f} (0.00 to 2.50)"
    assert " run: of the checkpoint of step 40." in test.note
    assert test.note.endswith(" run: is being continued after 20 steps; in no mean.")


def test_curves_are_the_logs(folder, sections):
    training, validation, by_time = sections["Toy: learning"]
    titles = [chart.title for chart in (training, validation, by_time)]
    assert titles == ["Training", "Validation", "Validation by time"]
    assert training.y_label == "loss (nats)"
    for series in training.series:
        logged = [line for line in lines(folder / series.name) if "split" not in line]
        assert series.x == [line["step"] for line in logged]
        assert series.y == [line["loss"] for line in logged]
    for series, timed in zip(validation.series, by_time.series, strict=True):
        logged = [line for line in lines(folder / series.name) if line.get("split") == "dev"]
        assert series.x == [line["step"] for line in logged]
        assert series.y == timed.y == [line["loss"] for line in logged]
        assert timed.x == [line["wall_seconds"] / 60 for line in logged]


def test_a_loss_that_is_no_cross_entropy_has_no_unit(copied):
    """As that of rankings."""
    log = copied("base") / "metrics.jsonl"
    log.write_text(log.read_text().replace('"nll"', '"ranking"'))
    training = sections_of(log.parent)["Toy: learning"][0]
    assert training.y_label == "loss"


def test_only_seeds_of_one_setting_are_averaged(folder, copied, tmp_path):
    shutil.copytree(copied("base", "seed1"), tmp_path / "again")  # the same seed
    for names, count in ((["base", "seed1"], 1), (["base", "again"], 0)):
        for table in scores(tmp_path, names):
            assert sum(str(row[0]).startswith("mean of") for row in table.rows) == count
    values("data.json", sha256={"train": "of other words"})(tmp_path / "seed1")
    for table in scores(tmp_path, ["base", "seed1"]):
        assert not any(str(row[0]).startswith("mean of") for row in table.rows)
        assert table.note.endswith(
            " base and seed1: of different data, hence without a mean of all."
        )
    shutil.copy(tmp_path / "base" / "data.json", tmp_path / "seed1" / "data.json")
    config = tmp_path / "seed1" / "config.json"
    config.write_text(config.read_text().replace('"steps": 60', '"steps": 61'))
    for table in scores(tmp_path, ["base", "seed1"]):
        assert not any(str(row[0]).startswith("mean of") for row in table.rows)


def test_a_metric_that_a_seed_lacks_has_no_mean(copied, tmp_path):
    copied("base", "seed1")
    values("result.json", metrics__test={"rounded": 50.0})(tmp_path / "seed1")
    _, test = scores(tmp_path, ["base", "seed1"])
    mean = by_name(test)["mean of 2: base, seed1"]
    assert mean["loss"] is None and "±" in mean["rounded"]


def scores(folder, names):
    return sections_of(*(folder / name for name in names))["Toy: scores"]


def test_a_trial_that_failed_before_it_had_a_vocabulary_is_no_hindrance(folder, tmp_path):
    (tmp_path / "begun").mkdir()
    shutil.copy(folder / "base" / "config.json", tmp_path / "begun")
    sections = sections_of(tmp_path / "begun", folder / "base")
    rows = by_name(sections["Runs"][0])
    assert (rows["begun"]["steps"], rows["base"]["steps"]) == (0, 60)
    assert sections["Toy: scores"][-1] == "Not scored on test, hence not compared: begun."


def test_lines_of_the_log_without_numbers_are_skipped(folder, copied):
    base = copied("base")
    wrong = [
        {"step": 1, "loss": {}, "wall_seconds": 1.0},
        {"step": 1, "loss": "low", "wall_seconds": 1.0},
        {"step": 1, "loss": 1.0, "wall_seconds": "1"},
        {"step": 1, "loss": None, "wall_seconds": 1.0},
    ]
    with (base / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in wrong)
    expected, actual = map(sections_of, (folder / "base", base))
    for title in expected.keys() | actual.keys():
        charts = [element for element in actual[title] if isinstance(element, Chart)]
        assert charts == [element for element in expected[title] if isinstance(element, Chart)]


def test_what_the_scores_have_to_be_read_with_is_on_the_page(folder, copied):
    base = copied("base")
    with (base / "metrics.jsonl").open("a") as file:
        file.write('{"step": 60, "loss": null, "bad_steps": 4}\n')
    values("result.json", warnings=["dev is test"])(base)
    skipped = "base: 4 of 60 steps not finite, which changed nothing."
    assert sorted(sections_of(base)["Runs"][1:]) == [skipped, "base: dev is test."]
    assert not sections_of(folder / "base")["Runs"][1:]


def test_a_run_that_is_not_over_has_curves_and_no_score(copied):
    base = copied("base")
    (base / "result.json").unlink()
    sections = sections_of(base)
    assert [*sections] == ["Runs", "Speed", "Toy: learning"]
    assert by_name(sections["Runs"][0])["base"]["best step"] == "not finished"


def test_labels_tell_runs_apart(folder, tmp_path):
    shutil.copytree(folder / "base", tmp_path / "other" / "base")
    labels = [run.label for run in read_runs([folder / "base", tmp_path / "other" / "base"])]
    assert labels == [f"{folder.name}/base", "other/base"]


def test_trials_of_a_sweep_are_called_by_what_tells_them_apart(folder, tmp_path):
    names = ["model.a=1,model.b=2,train.seed=0", "model.a=1,model.b=3,train.seed=0", "plain"]
    for name in names:
        shutil.copytree(folder / "base", tmp_path / name)
    labels = [run.label for run in read_runs([tmp_path / name for name in names])]
    assert labels == ["b=2", "b=3", "plain"]
    assert [run.label for run in read_runs([tmp_path / names[0]])] == ["a=1, b=2, seed=0"]


@pytest.mark.parametrize(
    "line", ["", "QANet: dev", "QANet: dev f1 x", "QANet: dev f1 1 em", ": dev f1 1"]
)
def test_a_papers_number_has_a_system_a_split_and_a_metric(line):
    with pytest.raises(UserError, match="write SYSTEM: SPLIT METRIC VALUE"):
        PaperConfig((line,))
    parsed = PaperConfig(("a: b: dev f1 1 em 2.5",)).parsed
    assert parsed == [("a: b", "dev", "f1", 1.0), ("a: b", "dev", "em", 2.5)]


RANDOM = np.random.default_rng(0)


def examples(scores, references=None, predictions=None):
    """Examples with these scores, whose predictions differ unless given."""
    references = references or [f"reference {n}" for n in range(len(scores))]
    predictions = predictions or [f"{score:.9f}" for score in scores]
    texts = [f"text {n}" for n in range(len(scores))]
    rows = zip(texts, texts, references, predictions, scores, strict=True)
    return [ScoredExample(*row) for row in rows]


@pytest.fixture
def evaluated(tmp_path):
    """Evaluations of the runs a, b and c with these predictions."""

    def evaluated(*predictions):
        evaluations = []
        for name, examples in zip("abc", predictions, strict=False):
            evaluations.append(Evaluation(Run(name, ScoredRun(tmp_path / name)), "test"))
            evaluations[-1].__dict__["predictions"] = examples
        return evaluations

    return evaluated


def test_the_largest_differences_are_chosen(evaluated):
    scores = 100 * RANDOM.random((3, 40))
    (table,) = differing(evaluated(*(examples(row.tolist()) for row in scores)))
    spread = scores.max(0) - scores.min(0)
    expected = sorted(range(40), key=lambda n: -spread[n])[:3]
    assert [int(row[0]) for row in table.rows] == expected
    assert table.head == ("example", "input", "reference", "a", "b", "c")
    first = expected[0]
    outputs = [f"{own[first]:.9f} ({own[first]:.1f})" for own in scores]
    assert [*table.rows[0]][1:] == [f"text {first}", f"reference {first}", *outputs]


def test_equal_predictions_and_other_references_are_left_out(evaluated):
    same = examples([1.0, 2.0], predictions=["x", "y"])
    other = examples([9.0, 2.0], references=["p", "q"])
    assert differing(evaluated(same, same, other)) == []
    better = examples([1.0, 5.0], predictions=["x", ""])
    (table,) = differing(evaluated(same, better, other))
    assert table.head[3:] == ("a", "b")
    assert [[*row] for row in table.rows] == [["1", "text 1", "reference 1", "y (2.0)", "- (5.0)"]]
