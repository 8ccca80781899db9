"""The trials of a sweep, errors, and the figure."""

import csv
import io
import statistics
from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.training.run_writer import RunWriter
from launch.pages import charts
from launch.seeds import interval_of_means
from launch.trials.figure import caption, sweep_charts
from launch.trials.status import TrialStatus, csv_text, find, read_csv
from launch.trials.trials import Trial, grid_axis, grid_trials, require_own_folders, zipped_axis
from tests.toy import changed

CONFIG = """
from common_jax.config import to_config_dict
from tests.toy import ToyConfig


def get_config(system="slow"):
    config = to_config_dict(ToyConfig())
    config.optimizer.learning_rate = {"slow": 0.1, "fast": 0.5}[system]
    config.paper.system = system
    return config
"""


@pytest.fixture
def planned(tmp_path):
    (tmp_path / "sums.py").write_text(CONFIG)

    def planned(*axes, overrides=(), seeds=1, file="sums.py", systems=()):
        path = str(tmp_path / file)
        return grid_trials(path, overrides, axes, seeds, tmp_path / "sweep", systems)

    return planned


def test_a_grid_has_every_combination_and_every_seed(planned):
    trials = planned(grid_axis("rate=0,0.1"), grid_axis("train.steps=3,4,5"), seeds=2)
    values = [(t.config.rate, t.config.train.steps, t.config.train.seed) for t in trials]
    assert values == [(r, n, s) for r in (0.0, 0.1) for n in (3, 4, 5) for s in (0, 1)]
    assert trials[0].name == "rate=0.0,train.steps=3,train.seed=0"
    assert trials[0].workdir.path == trials[0].folder / trials[0].name


def test_systems_have_every_combination_and_every_seed(planned):
    rates = grid_axis("rate=0,0.1")
    trials = planned(rates, seeds=2, systems=["fast", "slow"])
    configs = [trial.config for trial in trials]
    values = [(c.optimizer.learning_rate, c.rate, c.train.seed) for c in configs]
    assert values == [(lr, r, s) for lr in (0.5, 0.1) for r in (0.0, 0.1) for s in (0, 1)]
    assert trials[0].name == "system=fast,rate=0.0,train.seed=0"
    assert trials[0].file.endswith("sums.py:fast")
    with pytest.raises(UserError, match="--systems: fast is given twice"):
        planned(systems=["fast", "slow", "fast"])
    with pytest.raises(UserError, match=r"--systems: --config .*sums.py:slow names one already"):
        planned(file="sums.py:slow", systems=["fast"])
    with pytest.raises(UserError, match="none"):
        planned(systems=["none"])


def test_zipped_fields_combine_with_a_grid(planned):
    both = zipped_axis(["train.steps=3,4", "train.log_every=1,2"])
    trials = planned(grid_axis("rate=0,0.1"), both)
    values = [(t.config.rate, t.config.train.steps, t.config.train.log_every) for t in trials]
    assert values == [(0.0, 3, 1), (0.0, 4, 2), (0.1, 3, 1), (0.1, 4, 2)]


def test_seeds_count_up_from_the_configs(planned):
    trials = planned(overrides=["--config.train.seed=7"], seeds=3)
    assert [trial.config.train.seed for trial in trials] == [7, 8, 9]
    trials = planned(grid_axis("train.seed=5,3"), grid_axis("rate=0,0.5"))
    assert [t.name for t in trials][:2] == ["rate=0.0,train.seed=5", "rate=0.5,train.seed=5"]


def test_overrides_hold_for_all_trials(planned):
    """Also one that a swept field needs."""
    trials = planned(grid_axis("data.tfds=a,b"), overrides=["--config.data.source=tfds"])
    configs = [trial.config.data for trial in trials]
    assert [(data.source, data.tfds) for data in configs] == [("tfds", "a"), ("tfds", "b")]


def test_names_are_the_values_and_not_how_they_were_written(planned):
    wrote = planned(grid_axis("optimizer.learning_rate=1e-3"))[0].name
    assert wrote == planned(grid_axis("optimizer.learning_rate=0.001"))[0].name


def test_names_of_any_values_are_files_and_differ(planned):
    values = ["a/b", "a b", "../c", "ü", "x" * 300]
    files = ["--config.data.source=files"]
    axes = [grid_axis(f'data.dir=["{value}"]') for value in values]
    names = [planned(axis, overrides=files)[0].name for axis in axes]
    assert len({*names}) == len(names)
    for name in names:
        assert "/" not in name and len(name.encode()) < 200


def test_a_list_holds_values_with_commas(planned):
    axis = grid_axis('data.dir=["a,b", "c"]')
    trials = planned(axis, overrides=["--config.data.source=files"])
    assert [trial.config.data.dir for trial in trials] == ["a,b", "c"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["train.steps=2,many"], "train.steps=many,train.seed=0: .*whole number"),
        (["train.steps=0"], "train.steps=0: at least 1"),
        (["train=3"], "config key 'train' is a group of keys"),
        (["rate"], "'rate': write KEY=VALUE,VALUE,..."),
        (["=1"], "write KEY=VALUE,VALUE,..."),
        (["rate=[0.1"], "not a JSON list"),
        (["rate=0", "rate=1"], "rate: swept twice"),
    ],
)
def test_what_cannot_be_swept_is_refused(planned, texts, message):
    with pytest.raises(UserError, match=message.replace("?", r"\?").replace("[", r"\[")):
        planned(*map(grid_axis, texts))


def test_a_field_is_swept_or_set(planned):
    with pytest.raises(UserError, match="rate: swept, and set with"):
        planned(grid_axis("rate=0,1"), overrides=["--config.rate=0.5"])
    with pytest.raises(UserError, match="swept, so --seeds cannot be set"):
        planned(grid_axis("train.seed=0,1"), seeds=2)


@pytest.mark.parametrize("texts", [["rate=0,1"], ["rate=0,1", "train.steps=1,2,3"]])
def test_zipped_fields_have_equally_many_values(texts):
    with pytest.raises(UserError, match="two fields or more, with equally many values"):
        zipped_axis(texts)


def begun(trial, config=None):
    """Makes the folder of a trial that has saved a step, with its own or another config."""
    workdir = RunWriter(trial.workdir.path)
    workdir.claim(config or trial.config)
    workdir.release()
    (workdir.checkpoints / "1").mkdir(parents=True)
    return workdir


def finished(trial, config=None):
    """Writes the files of a trial's finished run, with its own or another config."""
    steps = (config or trial.config).train.steps
    numbers = {"steps": steps, "parameters": 1, "wall_seconds": 1.0}
    others = {"metrics": {"dev": {"loss": 1.0}}, "devices": ["cpu"], "versions": {}}
    begun(trial, config).write_result(numbers | others)


def test_a_folder_of_another_run_is_refused_before_anything_starts(planned):
    trials = planned(grid_axis("rate=0,0.1"))
    begun(planned(grid_axis("rate=0.1"), overrides=["--config.optimizer.b1=0.5"])[0])
    with pytest.raises(UserError, match="holds another run; it differs in optimizer"):
        require_own_folders(trials)


@pytest.fixture
def trial_of(planned):
    def trial_of(steps, cooldown):
        fields = {"train.steps": steps, "optimizer.cooldown": cooldown}
        overrides = [f"--config.{key}={value}" for key, value in fields.items()]
        return planned(grid_axis("rate=0.1"), overrides=overrides)[0]

    return trial_of


def test_a_trial_that_would_resume_with_the_schedule_of_other_steps_is_refused(trial_of):
    checkpoint = begun(trial_of(10, 0.5)).checkpoints / "1"
    checkpoint.rmdir()
    require_own_folders([trial_of(20, 0.5)])  # nothing to resume
    checkpoint.mkdir()
    require_own_folders([trial_of(10, 0.5)])
    message = "a learning rate that ends at step 10, and train.steps=20 ends at 20: choose another"
    with pytest.raises(UserError, match=message):
        require_own_folders([trial_of(20, 0.5)])


def test_a_finished_trial_with_more_steps_is_refused(trial_of):
    finished(trial_of(20, 0))
    require_own_folders([trial_of(20, 0)])
    require_own_folders([trial_of(40, 0)])  # continues
    with pytest.raises(UserError, match=r"has 20 steps, more than train\.steps=10: choose another"):
        require_own_folders([trial_of(10, 0)])


def test_a_trial_that_is_beyond_the_steps_is_refused(trial_of):
    begun(trial_of(20, 0)).checkpoints.joinpath("12").mkdir()
    require_own_folders([trial_of(12, 0)])
    with pytest.raises(UserError, match=r"has 12 steps, more than train\.steps=11: choose another"):
        require_own_folders([trial_of(11, 0)])


def test_a_finished_trial_with_another_setting_that_changes_results_is_refused(planned, trial_of):
    def trial(**fields):
        return planned(overrides=[f"--config.train.{k}={v}" for k, v in fields.items()])[0]

    finished(trial(evaluate_every=2))
    for same in ({}, {"log_every": 7}, {"checkpoint_every": 7}, {"trackers": ""}):
        assert find(trial(evaluate_every=2, **same)).state == "finished"
        require_own_folders([trial(evaluate_every=2, **same)])
    message = r"has finished with another train\.evaluate_every: --config\.train\.evaluate_every=2 "
    with pytest.raises(UserError, match=message):
        require_own_folders([trial(evaluate_every=4)])
    assert find(trial(evaluate_every=4)).state == "failed"
    require_own_folders([trial(evaluate_every=4, steps=200_000)])  # continues

    finished(trial_of(20, 0.5))
    require_own_folders([trial_of(20, 0.5)])
    with pytest.raises(
        UserError, match=r"another optimizer\.cooldown_start, optimizer\.cooldown_s"
    ):
        require_own_folders([trial_of(20, 0.25)])


def test_a_run_of_a_file_that_was_edited_during_the_sweep_is_not_finished(planned):
    """Each trial's process reads the config file again."""
    first, second = planned(grid_axis("rate=0,0.1"))
    finished(first)
    finished(second, changed(second.config, "optimizer", learning_rate=0.7))
    statuses = [find(trial) for trial in (first, second)]
    assert [status.state for status in statuses] == ["finished", "failed"]
    assert "holds another run; it differs in optimizer.learning_rate" in statuses[1].error


def test_no_cell_of_a_table_is_a_formula(tmp_path):
    texts = ["=1+1", "+1+A1", "-2-A1", "@SUM(A1)", "\t=1", "a=1", "", "(-1)"]
    numbers = ["-45.5853", "+1", "-1e-05"]
    rows = [{"=name": text, "number": -0.5} for text in texts + numbers]
    read = list(csv.DictReader(io.StringIO(csv_text(["=name", "number"], rows))))
    assert [row["'=name"] for row in read] == [
        *("'=1+1", "'+1+A1", "'-2-A1", "'@SUM(A1)", "'\t=1", "a=1", "", "(-1)"),
        *numbers,
    ]
    assert {row["number"] for row in read} == {"-0.5"}
    quoted = [*rows, {"=name": "'apostrophes'", "number": -0.5}]
    (tmp_path / "table.csv").write_text(csv_text(["=name", "number"], quoted))
    again = read_csv(tmp_path / "table.csv")
    assert [row["=name"] for row in again] == [*texts, *numbers, "'apostrophes'"]


WINDOWS = [(3, 1), (7, 1), (11, 1), (21, 1), (11, 3), (11, 5)]
SCORES = {setting: [20.0 + n, 20.5 + n] for n, setting in enumerate(WINDOWS)}
FINDINGS = {"model.token_window": "Eleven is best.", "model.other": "No."}


def swept(scores, names=("model.token_window", "model.head_window"), state="finished"):
    trials, statuses = [], []
    for setting, values in scores.items():
        for seed, value in enumerate(values):
            fields = dict(zip(names, setting, strict=True))
            trials.append(Trial({**fields, "train.seed": seed}, "", (), None, Path()))
            statuses.append(TrialStatus(state, metrics={"dev.sacrebleu": value}))
    return trials, statuses


def test_zipped_fields_give_the_papers_two_charts():
    tokens, heads = sweep_charts(*swept(SCORES), "dev.sacrebleu")
    (line,) = tokens.series
    assert (tokens.x_label, line.name) == ("model.token_window", "head_window=1")
    assert line.x == [3, 7, 11, 21]
    assert line.dots == [SCORES[x, 1] for x in line.x]
    assert line.y == [statistics.fmean(values) for values in line.dots]
    assert line.half == pytest.approx(interval_of_means([*SCORES.values()])[:4])
    (line,) = heads.series
    assert (line.name, line.x) == ("token_window=11", [1, 3, 5])


def test_a_grid_has_a_line_for_each_value_of_the_other_field():
    scores = {(x, y): [float(x)] for x in (9, 3) for y in ("wrap", "truncate")}
    first, second = sweep_charts(*swept(scores, ("model.a", "model.b")), "dev.sacrebleu")
    assert [(s.name, s.x) for s in first.series] == [("b=wrap", [3, 9]), ("b=truncate", [3, 9])]
    assert [s.x for s in second.series] == [["truncate", "wrap"]] * 2
    assert first.series[0].half == [None, None]


def test_only_what_has_finished_is_in_it():
    assert sweep_charts(*swept(SCORES, state="stopped"), "dev.sacrebleu") == []
    assert sweep_charts(*swept(SCORES), "dev.chrf") == []


def test_seeds_alone_are_no_chart_and_one_setting_is_one_point():
    (chart,) = sweep_charts(*swept({(3, 1): [1.0, 2.0]}), "dev.sacrebleu")
    assert [series.x for series in chart.series] == [[3]]
    assert sweep_charts(*swept({(): [1.0, 2.0]}, ()), "dev.sacrebleu") == []


def test_the_caption_has_the_papers_findings_on_the_fields():
    text = caption(sweep_charts(*swept(SCORES), "dev.sacrebleu"), FINDINGS)
    assert "95 % interval" in text and "seeds" in text
    assert text.endswith("Eleven is best.")
    alone = {setting: values[:1] for setting, values in SCORES.items()}
    assert caption(sweep_charts(*swept(alone), "dev.sacrebleu"), FINDINGS) == "Eleven is best."


def test_the_picture_has_every_point(tmp_path: Path):
    panels = sweep_charts(*swept(SCORES), "dev.sacrebleu")
    figure = charts.draw(panels, "A caption.")
    points_by_panel = [
        {tuple(point) for line in axes.lines for point in line.get_xydata()} for axes in figure.axes
    ]
    for chart, points in zip(panels, points_by_panel, strict=True):
        (line,) = chart.series
        assert {*zip(line.x, line.y, strict=True)} <= points
        assert {(x, y) for x, ys in zip(line.x, line.dots, strict=True) for y in ys} <= points
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "A caption." in charts.svg(panels, "figure", "A caption.")
