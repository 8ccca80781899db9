"""What a run tells of its speed, against hand arithmetic; traces, as JAX's profiler reads them."""

import signal
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from common_jax.errors import UserError
from common_jax.training.loop import train
from common_jax.training.run_writer import RunWriter
from launch.measure import step_meter
from launch.measure.step_meter import StepMeter, StepTracer
from tests.launch.tiny_runs import lines
from tests.toy import Toy, four_steps


@pytest.fixture
def run(tmp_path):
    """Trains in a folder; returns it."""

    def run(steps=4, profile=None, timer=StepMeter, per_call=1):
        task = Toy(four_steps(tmp_path, steps=steps, steps_per_call=per_call))
        with StepTracer(task, profile) as tracer:
            train(task, RunWriter(tmp_path / "run"), timer=timer(task, tracer))
        return tmp_path / "run"

    return run


def traced(folder):
    """The first step of each call in each trace, by the folder of the trace."""
    steps = {}
    for path in folder.glob("profile/*"):
        (file,) = path.rglob("*.xplane.pb")
        lines = [x for p in jax.profiler.ProfileData.from_file(str(file)).planes for x in p.lines]
        events = [event for line in lines for event in line.events if event.name == "train"]
        steps[path.name] = sorted(dict(event.stats)["step_num"] for event in events)
    return steps


def test_operations_and_memory_are_those_of_the_calls(tmp_path, monkeypatch):
    task = Toy(four_steps(tmp_path))
    device = SimpleNamespace(device_kind="NVIDIA H100 80GB HBM3")
    mesh = SimpleNamespace(devices=SimpleNamespace(flat=[device, device]), size=2)
    stats = [{"peak_bytes_in_use": 3 * 2**20}, {"peak_bytes_in_use": 5 * 2**20}]
    devices = [SimpleNamespace(memory_stats=lambda s=s: s) for s in stats]
    meter = StepMeter(task, StepTracer(task))
    product = jax.jit(lambda state, batches, key: sum(state @ batch["x"] for batch in batches))
    step = meter.measured(product, mesh, RunWriter(tmp_path), 0)
    for rows, count in ((4, 1), (4, 2), (8, 1)):
        step(jnp.ones((3, rows)), ({"x": jnp.ones((rows, 5))},) * count, None)
    monkeypatch.setattr(step_meter.jax, "local_devices", lambda: devices)
    values = meter.reset(seconds=0.5)
    rate = 2 * 3 * 5 * (4 + 2 * 4 + 8) / 0.5
    assert values["tflop_per_second"] == pytest.approx(rate / 1e12)
    assert values["flop_utilisation"] == pytest.approx(rate / (2 * 494.5e12))
    assert values["peak_memory_mib"] == 5
    assert values["compiling_seconds"] > 0
    assert meter.reset(seconds=0.5)["tflop_per_second"] == 0


def test_the_time_of_a_run_is_divided_among_its_causes(run):
    logged = [line for line in lines(run(steps=8)) if "goodput" in line]
    causes = [f"{name}_seconds" for name in ("compiling", "data", "validating", "saving", "step")]
    before = 0.0
    for line in logged:
        seconds = line["wall_seconds"] - before
        before = line["wall_seconds"]
        assert line["goodput"] * seconds == pytest.approx(line["step_seconds"], abs=2e-3)
        assert sum(line[cause] for cause in causes) <= seconds + 2e-3
        assert all(line[cause] >= 0 for cause in causes)
    assert logged[0]["compiling_seconds"] > 0 == logged[1]["compiling_seconds"]
    assert logged[1]["validating_seconds"] > 0 < logged[1]["saving_seconds"]
    assert not {"peak_memory_mib", "flop_utilisation"} & logged[0].keys()


@pytest.mark.parametrize(
    "steps,per_call,profile,expected",
    [
        (4, 1, (2, 3), {"steps-2-3": [2, 3]}),
        (8, 2, (6, 6), {"steps-5-6": [5]}),
        (4, 1, None, {}),
    ],
)
def test_the_calls_with_the_steps_of_a_profile_are_traced(run, steps, per_call, profile, expected):
    assert traced(run(steps, profile, per_call=per_call)) == expected


def test_a_resumed_run_traces_what_remains(run, caplog):
    run(4)
    assert traced(run(8, (2, 6))) == {"steps-5-6": [5, 6]}
    run(10, (2, 6))
    assert "--profile 2:6: not traced, since step 8 is done" in caplog.text


def test_a_signal_traces_the_next_three_steps_and_the_handler_is_restored(run):
    class Signalled(StepMeter):
        def over(self, cause, items):
            for number, item in enumerate(super().over(cause, items)):
                if number == 1:
                    signal.raise_signal(signal.SIGUSR1)
                yield item

    before = signal.getsignal(signal.SIGUSR1)
    assert traced(run(8, timer=Signalled)) == {"steps-2-4": [2, 3, 4]}
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_trace_that_cannot_be_written_does_not_end_the_run(run, tmp_path, caplog):
    run(2)
    (tmp_path / "run" / "profile").write_text("")
    run(4, (3, 3))
    assert "no trace: " in caplog.text and "profile" in caplog.text


@pytest.mark.parametrize("profile", [(0, 1), (3, 2), (4, 5)])
def test_steps_that_a_run_does_not_have_are_refused(run, profile):
    with pytest.raises(UserError, match=r"--profile .*train\.steps=4"):
        run(4, profile)
