"""The figure of a sweep: the points of each chart, and rendering."""

import statistics
from pathlib import Path

import pytest

from launch.pages import charts
from launch.seeds import interval_of_means
from launch.trials.figure import caption, sweep_charts
from launch.trials.status import TrialStatus
from launch.trials.trials import Trial

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
