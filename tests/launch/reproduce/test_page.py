"""Verdicts on a table's claims, against numbers by hand."""

import dataclasses
import json
import math
import statistics
from types import MappingProxyType, SimpleNamespace

import pytest
from scipy import stats

from common_jax.compare import Evaluation, IncomparableError
from launch.reproduce import page as page_module
from launch.reproduce.claim_tables import (
    claims_csv,
    estimate_text,
    published_text,
    rule,
    seeds_text,
)
from launch.reproduce.claims import judged
from launch.reproduce.page import page
from launch.reproduce.results import TableResults, read_results, rows_of
from launch.reproduce.table_file import Claim, Ensemble, Row, Scale, TableSpec, Target
from launch.trials.status import TrialStatus
from launch.trials.trials import Trial

VALUES = {  # test accuracy by seed
    "base": [80.0, 81.0, 82.0],
    "better": [83.0, 84.5, 84.5],  # differences 3, 3.5, 2.5
    "close": [80.1, 81.0, 81.9],  # differences 0.1, 0, -0.1
    "once": [90.0],
}
PARAMETERS = {"base": 10, "better": 12, "close": 10, "once": 10}
SPEEDS = {
    "base": {"train_speed": [1.0, 2.0, 1.0], "decode_speed": [1.0, 1.0, 1.0]},
    "better": {"train_speed": [3.0, 6.6, 2.7], "decode_speed": [1.0, 1.1, 0.9]},
}


class Exact(Evaluation):
    """An evaluation without noise of the examples, and with a metric that only notes have."""

    metrics = ("of_notes", "verified")

    further_metrics = MappingProxyType({"of_notes": 5.0})

    @classmethod
    def example_error(cls, runs, baselines, metric):
        if metric == "log_likelihood":
            raise IncomparableError("of other examples")
        return 0.0


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Sets the noise of the examples."""
    monkeypatch.setattr(TableResults, "evaluation_class", Exact)
    return lambda noise: monkeypatch.setattr(Exact, "example_error", lambda *_: noise)


def made(folder, *claims, target=None):
    published = {"accuracy": 70.0, "extra": 1.5}
    rows = [
        Row(name=name, config="c.py", seeds=len(values), published=published)
        for name, values in VALUES.items()
    ]
    rows.append(Row(name="lost", published={"accuracy": 60.0}, missing="no code"))
    trials, statuses = [], []
    for name, values in VALUES.items():
        for seed, value in enumerate(values):
            trials.append(Trial({"row": name, "train.seed": seed}, "c.py", (), None, folder))
            metrics = {"test.accuracy": value, "test.log_likelihood": 1.0}
            statuses.append(TrialStatus("finished", 1, metrics, 1.0, PARAMETERS[name]))
    default = {"metric": "accuracy", "relation": "better", "within": 0.0, "factor": 1.0}
    claims = tuple(Claim(**{"text": "t", **default, **claim}) for claim in claims)
    scale = Scale(
        name="small",
        split="test",
        metrics=("accuracy",),
        trained_on="9 pairs",
        target=target,
        matched_times=True,
        note="half",
        systems=tuple(rows),
        claims=claims,
    )
    spec = TableSpec("t", "s", "table", "", (), {"small": scale}, name="csan/toy")
    return TableResults(spec, scale, trials, statuses, SPEEDS, [])


def scaled(results, rows=None, **changes):
    """Results at a changed scale, also in the table's file; `rows` is a function of a row."""
    if rows is not None:
        changes["systems"] = tuple(map(rows, results.scale.systems))
    scale = dataclasses.replace(results.scale, **changes)
    spec = dataclasses.replace(results.spec, scales={"small": scale})
    return dataclasses.replace(results, spec=spec, scale=scale)


def sections_of(results):
    """The elements of the page's sections by their titles."""
    sections = page(results, judged(results), "made").sections
    return {section.title: section.elements for section in sections}


def shown(verdict):
    return estimate_text(verdict.estimate, {})


def one(folder, row, than, **claim):
    (result,) = judged(made(folder, {"row": row, "than": than, **claim}))
    return result


# Student's t with the deviation of all rows: sums of squares 2, 1.5 and 1.62 with two degrees of
# freedom each, and none of a single seed
HALF = float(stats.t.ppf(0.975, 6)) * math.sqrt((2 + 1.5 + 1.62) / 6) * math.sqrt(1 / 3 + 1 / 3)


# the geometric mean of the rounds' ratios of speeds, and the ends of its interval
LOGS = [math.log(value) for value in (3.0, 3.3, 2.7)]
OF_LOGS = stats.t.interval(0.95, 2, statistics.fmean(LOGS), stats.sem(LOGS))
RATIO = [f"{math.exp(value):.2f}" for value in (statistics.fmean(LOGS), *OF_LOGS)]


def comparable(bound):
    return {"relation": "comparable", "within": bound}


PUBLISHED = {"than_published": True}
EQUAL = {"metric": "parameters", "relation": "equal"}
DECODING = {"metric": "decode_speed", "relation": "ratio"}
SPEED = {"metric": "train_speed", "relation": "ratio", "factor": 2.0}
OF_NOISE = "not judged: the noise of the test set alone is 1.96, above the bound of 1.9, "
VERDICTS = [  # row, other row, fields of the claim, noise of the examples, the verdict's end
    ("better", "base", {}, 0, "holds here"),
    ("base", "better", {}, 0, "does not hold here"),
    ("close", "base", {}, 0, "open: too few seeds"),
    ("once", "base", {}, 0, "open: one seed"),
    ("base", "lost", {}, 0, "open: not run: lost"),
    ("base", "close", {"metric": "log_likelihood"}, None, "of other examples"),
    ("base", "close", {"metric": "f1"}, None, "open: no f1: base"),
    (
        *("base", "lost", PUBLISHED | {"metric": "log_likelihood"}, None),
        "log_likelihood of base, and the paper's, are needed",
    ),
    ("better", "base", {"not_judged": {"small": "too early"}}, 0, "not judged: too early"),
    ("better", "base", {}, 2.0, "open: within the noise of the test set"),  # 3.0, and 3.9 of it
    ("close", "base", comparable(HALF + 0.5), 0, "holds here"),
    # the interval is, but not the 95 % interval of both rows
    ("close", "base", comparable(HALF + 0.1), 0, "open: does not pass the page's correction"),
    ("close", "base", comparable(HALF - 0.1), 0, "open: too few seeds"),
    ("better", "base", comparable(0.5), 0, "does not hold here"),
    ("close", "base", comparable(1.9), 1.0, OF_NOISE + "whatever the number of seeds"),
    ("close", "base", comparable(2.0), 1.0, "open: too few seeds"),
    ("close", "base", EQUAL, 0, "holds here"),
    ("better", "base", EQUAL, 0, "does not hold here"),
    ("better", "base", DECODING, 0, "open: too few rounds"),
    ("close", "base", DECODING, 0, "open: not run: no speeds"),
    ("better", "base", SPEED, 0, "holds here"),
    ("better", "base", SPEED | {"factor": 3.0}, 0, "open: too few rounds"),
    ("better", "base", SPEED | {"factor": 4.0}, 0, "does not hold here"),
]


@pytest.mark.parametrize(("row", "than", "claim", "noise", "decision"), VERDICTS)
def test_the_verdict_on_a_claim(row, than, claim, noise, decision, exact, tmp_path):
    if noise is not None:
        exact(noise)
    result = one(tmp_path, row, than, **claim)
    assert result.decision.endswith(decision)
    if decision.startswith("not judged: too"):
        assert result.p is None and shown(result).startswith("+3.00 (")
    if decision.endswith("correction"):
        assert result.p > 0.05


def test_a_difference_is_shown_with_its_interval(tmp_path):
    assert shown(one(tmp_path, "better", "base")) == f"+3.00 ({3 - HALF:+.2f} to {3 + HALF:+.2f})"
    assert shown(one(tmp_path, "once", "base")) == "+9.00 (one seed)"
    assert shown(one(tmp_path, "better", "base", **EQUAL)) == "+2"
    ratio = shown(one(tmp_path, "better", "base", **SPEED))
    assert ratio == f"{RATIO[0]} times ({RATIO[1]} to {RATIO[2]})"


def test_a_row_without_training_has_one_result_and_no_deviation(tmp_path):
    claims = [{"row": row, "than": than} for row, than in (("once", "base"), ("base", "once"))]
    results = made(tmp_path, *claims, {"row": "better", "than": "base"})
    untrained = ("once", "close")
    mark = lambda row: dataclasses.replace(row, trained=row.name not in untrained)
    results = scaled(results, mark)
    assert [row.seeds for row in results.scale.only(untrained, 3).systems] == [1, 1]
    above, below, trained = judged(results)
    pooled = float(stats.t.ppf(0.975, 4)) * math.sqrt((2 + 1.5) / 4) / math.sqrt(3)
    half = max(pooled, float(stats.t.ppf(0.95, 2)) / math.sqrt(3))  # of base alone, Welch's
    assert above.decision == "holds here" and below.decision == "does not hold here"
    assert shown(above) == f"+9.00 ({9 - half:+.2f} to {9 + half:+.2f})"
    assert shown(below) == f"-9.00 ({-9 - half:+.2f} to {-9 + half:+.2f})"
    half = pooled * math.sqrt(2)
    assert shown(trained) == f"+3.00 ({3 - half:+.2f} to {3 + half:+.2f})"
    bounds = {row["row"]: (row["low"], row["high"]) for row in rows_of(results)}
    assert bounds["once"] == bounds["close"] == (None, None) != bounds["base"]


def test_a_metric_beyond_those_of_a_validation_is_in_the_result_or_in_notes(tmp_path):
    results = made(tmp_path)
    for status in results.statuses:
        status.metrics["test.verified"] = 7.0
    assert results.values("base", "verified") == {0: 7.0, 1: 7.0, 2: 7.0}
    assert results.values("once", "of_notes") == {0: 5.0}
    assert results.values("base", "unknown") == {}


def test_a_row_of_ensembles_has_one_value_for_each_group_of_seeds(tmp_path, monkeypatch):
    """Four seeds, three at a time: one ensemble, and one seed that is left over."""
    joined = []

    def ensemble(self, others):
        joined.append([e.run.workdir.path.name for e in (self, *others)])
        return SimpleNamespace(mean=lambda metric: {"accuracy": 85.0}.get(metric))

    monkeypatch.setattr(Exact, "ensemble", ensemble)
    monkeypatch.setitem(VALUES, "base", [80.0, 81.0, 82.0, 83.0])
    results = made(tmp_path)
    row = Row(name="all", ensemble=Ensemble("base", 3))
    scale = dataclasses.replace(results.scale, systems=(*results.scale.systems, row))
    results = dataclasses.replace(results, scale=scale)
    assert results.values("all", "accuracy") == {0: 85.0} and results.values("all", "f1") == {}
    assert joined == [[f"row=base,train.seed={seed}" for seed in range(3)]]
    assert results.parameters("all") == 30 and "all" not in results.not_run
    *_, made_row = rows_of(results)
    assert (made_row["mean"], made_row["seeds"]) == (85.0, 1)

    # Two ensembles of the same four runs say nothing further of the deviation between runs.
    twice = dataclasses.replace(row, ensemble=Ensemble("base", 2))
    scale = dataclasses.replace(results.scale, systems=(*results.scale.systems[:-1], twice))
    *others, made_row = rows_of(dataclasses.replace(results, scale=scale))
    assert made_row["seeds"] == 2 and others == rows_of(made(tmp_path))


def test_better_than_a_published_number(tmp_path):
    """The number has no interval, its row needs no runs; the own 90 % interval is wider."""
    for row, than, mean in (("base", "lost", 21.0), ("better", "base", 14.0)):
        result = one(tmp_path, row, than, than_published=True)
        half = stats.t.ppf(0.95, 2) * stats.sem(VALUES[row])
        assert result.decision == "holds here" and half > HALF / math.sqrt(2)
        assert shown(result) == f"{mean:+.2f} ({mean - half:+.2f} to {mean + half:+.2f})"


def test_a_published_number_is_compared_with_the_noise_of_the_examples(tmp_path, monkeypatch):
    errors = {(): 2.0}  # of a row's own result, without a baseline
    monkeypatch.setattr(Exact, "example_error", lambda _, others, metric: errors[(*others,)])
    options = {"relation": "comparable", "than_published": True}
    small = one(tmp_path, "base", "lost", **options, within=3.5)
    assert small.decision.startswith("not judged: the noise of the test set alone is 3.92, above")
    result = one(tmp_path, "base", "lost", than_published=True)
    half = math.hypot(stats.t.ppf(0.95, 2) * stats.sem(VALUES["base"]), 1.959964 * 2.0)
    assert shown(result) == f"+21.00 ({21 - half:+.2f} to {21 + half:+.2f})"


def test_rows_with_five_seeds_have_their_own_intervals(tmp_path, monkeypatch):
    values = [83.0, 84.5, 84.5, 84.0, 83.5]
    monkeypatch.setitem(VALUES, "better", values)
    rows = {row["row"]: row for row in rows_of(made(tmp_path))}
    low, high = stats.t.interval(0.95, 4, statistics.fmean(values), stats.sem(values))
    assert (rows["better"]["low"], rows["better"]["high"]) == pytest.approx((low, high))
    own = stats.t.ppf(0.95, 2) * stats.sem(VALUES["base"])  # of three seeds, wider than the pooled
    assert rows["base"]["high"] == pytest.approx(81 + own)


def test_the_interval_of_a_row_reaches_over_its_own_seeds(tmp_path, monkeypatch):
    """Where one row deviates far more than the others."""
    seeds = [60.5, 52.1, 58.9]
    monkeypatch.setitem(VALUES, "base", seeds)
    monkeypatch.setitem(VALUES, "many", [70.0, 70.1, 70.2, 70.1] * 5)
    monkeypatch.setitem(PARAMETERS, "many", 10)
    (row,) = (row for row in rows_of(made(tmp_path)) if row["row"] == "base")
    assert row["low"] < min(seeds) and max(seeds) < row["high"]


def test_the_page_says_what_here_is(tmp_path):
    results = made(tmp_path, {"row": "better", "than": "base", "beside": ("of_notes",)})
    means = "10 to 12 parameters, 9 pairs, 1 steps, judged on test by accuracy"
    assert f'In a verdict "here" means: {means}.' in sections_of(results)["Verdicts"]
    (verdict,) = judged(results)
    (beside,) = verdict.beside
    assert (beside.metric, beside.mean, beside.low, beside.high) == ("of_notes", 0.0, 0.0, 0.0)


def test_a_speed_on_another_kind_of_device_is_not_judged(tmp_path):
    claim = {"row": "better", "than": "base", "device": "GPU", **SPEED}
    devices = ("cpu", "TPU v5 lite", "NVIDIA H100 80GB HBM3")
    for device, decision in zip(devices, ("a CPU;", "a TPU;", "holds here"), strict=True):
        machine = f"1 x {device}, 2 CPU cores, jax 0.10.2"
        results = dataclasses.replace(made(tmp_path, claim), machine=machine)
        (verdict,) = judged(results)
        assert decision in verdict.decision
        assert shown(verdict).startswith("2.99 times (")


def test_a_speed_measured_beside_other_programs_is_not_judged(tmp_path):
    results = made(tmp_path, {"row": "better", "than": "base", **SPEED})
    timed_on = {"devices": 1, "device": "cpu", "cpu_cores": 2, "versions": {"jax": "0.10.2"}}
    for load, decision in ((2.0, "holds here"), (2.1, "at a load average of 2.1 on 2 CPU cores")):
        timed_at = {**timed_on, "load_before": load, "rows": results.speeds}
        again = read_results(results.spec, results.scale, results.trials, timed_at, [])
        (verdict,) = judged(again)
        assert decision in verdict.decision


def test_the_page_has_the_deviation_and_what_the_corrections_keep(tmp_path):
    claims = [{"row": "better", "than": "base"}, {"row": "close", "than": "base"}]
    results = made(tmp_path, *claims)
    text = rule(results, judged(results))
    assert "Pooled deviation over seeds, accuracy: 0.92 (6 degrees of freedom)." in text
    assert text.endswith("Of 2 claims with a p 1 are decided; 1 of these also pass Holm's "
                         "correction.")  # fmt: skip


def test_a_verdict_on_fewer_seeds_than_planned_is_provisional(tmp_path):
    results = made(tmp_path, {"row": "better", "than": "base"})
    more = lambda row: dataclasses.replace(row, seeds=5 if row.name == "base" else row.seeds)
    (verdict,) = judged(scaled(results, more))
    assert verdict.decision == "holds here, provisional: 3 of 5 planned seeds of base"
    assert verdict.state == "holds here, provisional"


def test_what_a_later_rule_decides_awaits_the_seeds_after_it(tmp_path, monkeypatch):
    monkeypatch.setitem(VALUES, "better", [83.0, 84.5, 84.5, 70.0, 70.5, 71.0])
    monkeypatch.setitem(VALUES, "base", [80.0, 81.0, 82.0, 80.0, 80.5, 81.0])
    results = made(tmp_path, {"row": "better", "than": "base", "awaits": ("small",)})
    seen_before = lambda row: dataclasses.replace(row, seen=3)
    results = scaled(results, seen_before)
    (verdict,) = judged(results)  # of all seeds nothing is decided
    assert verdict.decision == "open: too few seeds"

    first = [n for n, trial in enumerate(results.trials) if trial.values["train.seed"] < 3]
    seen = dataclasses.replace(
        results,
        trials=[results.trials[n] for n in first],
        statuses=[results.statuses[n] for n in first],
    )
    (verdict,) = judged(seen)
    assert verdict.decision == "awaits new seeds: holds by a rule chosen after the trials"

    monkeypatch.setitem(VALUES, "better", [83.0, 84.5, 84.5, 83.0, 83.5, 84.0])
    results = made(tmp_path, {"row": "better", "than": "base", "awaits": ("small",)})
    (verdict,) = judged(scaled(results, seen_before))
    pooled = stats.t.ppf(0.975, 4) * 0.5 * math.sqrt(2 / 3)  # of three seeds in each row
    assert verdict.decision == "holds here"
    assert shown(verdict) == f"+3.00 ({3 - pooled:+.2f} to {3 + pooled:+.2f})"
    assert verdict.of_all_seeds.mean == pytest.approx(3.0)
    assert seeds_text(verdict) == "3 later of 6, 3 later of 6"


HOURS = {"metric": "hours_to_target", "row": "better", "than": "base"}


def timed(folder, f1, *claims):
    """Results with F1 of dev after each hour, for "better"; other rows reach 61 in the third."""
    results = made(folder, *claims, target=Target("f1", 60.0))
    for trial in results.trials:
        values = f1 if trial.values["row"] == "better" else [50.0, 50.0, 61.0, 59.0]
        lines = [{"step": 1, "loss": 1.0, "wall_seconds": 9.0}]
        for hour, value in enumerate(values, 1):
            lines.append({"step": 2, "split": "dev_oracle", "f1": 90.0, "wall_seconds": 1.0})
            lines.append({"step": 2, "split": "dev", "f1": value, "wall_seconds": 3600 * hour})
        trial.workdir.path.mkdir(parents=True, exist_ok=True)
        trial.workdir.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return scaled(results, metrics=("hours_to_target",))


def test_hours_until_dev_reaches_the_target(tmp_path):
    results = timed(tmp_path, [50.0, 50.0, 50.0, 50.0, 60.0, 61.0], HOURS)
    assert results.values("base", "hours_to_target") == {0: 3.0, 1: 3.0, 2: 3.0}
    assert results.values("better", "hours_to_target") == {0: 5.0, 1: 5.0, 2: 5.0}
    verdicts = [judged(scaled(results, matched_times=matched))[0] for matched in (True, False)]
    assert all(shown(verdict).startswith("+2.00") for verdict in verdicts)
    assert verdicts[0].decision == "holds here"
    assert verdicts[1].decision.startswith("not judged: the readers do not have the sizes")


def test_a_trial_that_does_not_reach_the_target_gives_a_lower_bound(tmp_path):
    back = {**HOURS, "row": "base", "than": "better"}
    results = timed(tmp_path, [50.0] * 5, HOURS, back)
    later, sooner = judged(results)
    assert later.decision == "holds here" and shown(later).startswith("at least +2.00")
    assert sooner.decision == "open: no hours_to_target: better"
    sections = sections_of(results)
    cells = {row[0]: row[1] for row in sections["Results"][0].rows}
    assert cells["base"].startswith("3.00") and "lost" not in cells
    assert cells["better"] == "not reached by 3 of 3 seeds"
    (short,) = judged(timed(tmp_path, [50.0], HOURS))
    assert short.decision == "open: better does not reach the target"


def test_a_trial_that_does_not_reach_the_target_is_not_left_out_of_the_mean(tmp_path):
    back = {**HOURS, "row": "base", "than": "better"}
    results = timed(tmp_path, [50.0, 60.0], HOURS, back)
    (last,) = (t for t in results.trials if t.name == "row=better,train.seed=2")
    text = last.workdir.metrics_file.read_text()
    last.workdir.metrics_file.write_text(text.replace('"f1": 60.0', '"f1": 59.0'))
    later, sooner = judged(results)
    assert later.decision != "holds here"
    assert sooner.decision == "open: not all runs of better reach the target"


def test_trials_that_are_not_finished_are_listed(tmp_path):
    results = made(tmp_path)
    states = [status._replace(state="new") for status in results.statuses[:2]]
    results.statuses[:2] = states  # two of three of base
    results.statuses[-1] = results.statuses[-1]._replace(state="failed")
    assert results.not_run == {"base": 2, "once": 1}
    command, table = sections_of(results)["Not run"]
    assert command.startswith("python -m launch.reproduce csan/toy --scale small --data DIR --out")
    assert table.head == ["row", "missing", "paper: accuracy"] and table.rows == [
        ["base", "2 of 3 seeds", 70.0],
        ["once", "1 of 1 seeds", 70.0],
        ["lost", "no code", 60.0],
    ]


def test_rows_of_the_page(tmp_path):
    results = made(tmp_path, {"row": "better", "than": "base"})
    rows = {row["row"]: row for row in rows_of(results)}
    assert rows["base"]["mean"] == 81.0 and rows["lost"]["mean"] is None
    squares = 2.0 + (1.0 + 0.25 + 0.25) + (0.81 + 0.81)  # of 6 degrees of freedom
    half = stats.t.ppf(0.975, 6) * math.sqrt(squares / 6)
    assert rows["once"]["high"] == pytest.approx(90 + half)
    for name in ("base", "better", "close"):  # not narrower than the row's own 90 % interval
        own = stats.t.ppf(0.95, 2) * stats.sem(VALUES[name])
        expected = statistics.fmean(VALUES[name]) + max(half / math.sqrt(3), own)
        assert rows[name]["high"] == pytest.approx(expected)
    assert rows["better"]["speed"] == pytest.approx((3.0 * 3.3 * 2.7) ** (1 / 3))
    assert rows["once"]["speed"] is None
    sections = sections_of(results)
    further = sections["Setting"][-1]
    assert further.head == ["row", "extra"] and further.rows[0] == ["base", 1.5]
    assert sections["Not run"][-1].rows == [["lost", "no code", 60.0]]
    assert sections["Results"][0].head[:3] == ["row", "paper: accuracy", "accuracy"]
    _, counts, table, forest = sections["Verdicts"]
    assert counts == "1 claims: holds here (1)."
    (claim,) = table.rows
    assert (claim[1], *claim[3:]) == ("holds here", "+0.00", "3, 3")
    (interval,) = forest.intervals
    assert (interval.name, interval.marked) == ("better − base", 0.0)
    (_, line) = claims_csv(results, judged(results)).splitlines()
    assert line.startswith("t,better,base,accuracy,judged,0,accuracy,3,1.")


def test_the_papers_difference(tmp_path):
    units = {"accuracy": "points"}
    published = lambda **claim: published_text(
        one(tmp_path, "better", "lost", **claim).published, units
    )
    assert published() == published(metric="log_likelihood") == "+10.00 points"
    assert published(metric="train_speed", relation="ratio") == ""

    # of a row of which the paper has no level
    numbers = {"base": {"accuracy": 80.0}, "better": {"accuracy_difference": 0.2}}
    publish = lambda row: dataclasses.replace(row, published=numbers.get(row.name, {}))
    (verdict,) = judged(scaled(made(tmp_path, {"row": "better", "than": "base"}), publish))
    assert published_text(verdict.published, units) == "+0.20 points"
    numbers = {"base": {"train_speed": 4.0}, "better": {"train_speed_difference": -1.0}}
    speed = {"row": "better", "than": "base", "metric": "train_speed", "relation": "ratio"}
    (verdict,) = judged(scaled(made(tmp_path, speed), publish))
    assert published_text(verdict.published, units) == "0.75 times"


def test_intervals_of_rates_are_cut_at_their_bounds(tmp_path, monkeypatch):
    monkeypatch.setitem(VALUES, "base", [2.0, 1.0, 60.0])
    rows = {row["row"]: row for row in rows_of(made(tmp_path))}
    assert rows["base"]["low"] == 0.0 < rows["base"]["mean"] < rows["base"]["high"] < 100.0
    assert rows["better"]["low"] > 0.0 and rows["better"]["high"] == 100.0


def test_speeds_are_relative_to_the_first_row(tmp_path):
    results = made(tmp_path)
    published = {"base": {"train_speed": 4.0}, "better": {"train_speed": 6.0}}
    publish = lambda row: dataclasses.replace(row, published=published.get(row.name, {}))
    results = scaled(results, publish, metrics=("train_speed",))
    assert [row["speed"] is None for row in rows_of(results)] == [False, False, True, True, True]
    (table,) = sections_of(results)["Results"]
    assert table.rows == [
        ["base", 1.0, 1.0],
        ["better", 1.5, f"{RATIO[0]} ({RATIO[1]} to {RATIO[2]})"],
    ]


def test_a_row_without_the_fields_is_no_point_of_a_figure(tmp_path, monkeypatch):
    results = made(tmp_path)
    vary = lambda row: dataclasses.replace(row, varied=("model.window",) * (row.name != "once"))
    results = scaled(results, vary)
    windows = {"base": 1, "better": 3, "close": 5}

    def fields(scale, trial):
        row, seed = trial.values["row"], trial.values["train.seed"]
        own = {"model.window": windows[row]} if row in windows else {}
        return {**own, "train.seed": seed}

    monkeypatch.setattr(page_module, "fields_of", fields)
    spec = dataclasses.replace(results.spec, kind="figure")
    (chart,) = sections_of(dataclasses.replace(results, spec=spec))["Figure"]
    assert list(chart.series[0].x) == [1, 3, 5]
