"""The folder of a run: its lock, its files after failed writes, and the record of its end; real
limits of disks, files and memory."""

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from common_jax.errors import Interrupted, UserError
from common_jax.training.log import MetricsLog
from common_jax.training.run_folder import RunFolder
from common_jax.training.run_writer import RunWriter
from common_jax.training.scored_run import ScoredRun
from common_jax.training.task import Scores
from tests.common_jax.training.test_checkpoint import make_state, reopen, same, shapes_of
from tests.toy import Toy, ToyConfig

CLAIM = """
import sys, time
from common_jax.training.run_writer import RunWriter
from tests.toy import ToyConfig
RunWriter(sys.argv[1]).claim(ToyConfig())
print("claimed", flush=True)
time.sleep(600)
"""


@pytest.fixture
def workdir(tmp_path):
    workdir = RunWriter(tmp_path / "run")
    workdir.claim(ToyConfig())
    yield workdir
    workdir.release()


def test_a_second_run_reports_the_holder_of_the_lock(tmp_path):
    """A rejected claim leaves no lock, hence another process can claim the folder."""
    run = tmp_path / "run"
    RunWriter(run).claim(ToyConfig())
    RunWriter(run).release()
    (run / "checkpoints" / "1").mkdir(parents=True)
    with pytest.raises(UserError, match="differs in rate"):
        RunWriter(run).claim(ToyConfig(rate=0.5))
    command = [sys.executable, "-c", CLAIM, str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "claimed\n"
        config = (run / "config.json").read_bytes()
        (run / "config.json").write_text("{")  # the lock comes before its first reading
        for _ in range(2):
            with pytest.raises(UserError, match="choose another --workdir") as e:
                RunWriter(run).claim(ToyConfig())
            assert str(e.value).startswith(f"{run} is being trained by process {other.pid} on ")
        (run / "config.json").write_bytes(config)
        other.kill()
    workdir = RunWriter(run)
    workdir.claim(ToyConfig())
    assert str(os.getpid()) in (run / "lock").read_text()
    workdir.release()


def test_a_lock_alone_is_an_empty_folder_and_a_process_may_claim_its_own_again(tmp_path):
    (tmp_path / "lock").write_text("")
    for _ in range(2):
        RunWriter(tmp_path).claim(ToyConfig())
    for _ in range(2):
        RunWriter(tmp_path).release()


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    RunWriter(tmp_path).claim(ToyConfig())
    RunWriter(tmp_path).release()
    (tmp_path / "eval").mkdir()
    (tmp_path / ".vocabulary.1.partial" / "vocabulary").mkdir(parents=True)
    for name in ("config.json.1.partial", "eval/test.json.2.partial", "eval/test.json"):
        (tmp_path / name).write_text("{")
    RunWriter(tmp_path).claim(ToyConfig())
    RunWriter(tmp_path).release()
    assert not [*tmp_path.rglob("*.partial")] and (tmp_path / "eval" / "test.json").exists()


def test_a_folder_of_something_else_gets_no_lock(tmp_path):
    (tmp_path / "thesis.tex").write_text("hello")
    with pytest.raises(UserError, match="not the folder of a run"):
        RunWriter(tmp_path).claim(ToyConfig())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_config_that_is_not_json_is_one_line(workdir):
    workdir.config_file.write_text("{")
    with pytest.raises(UserError, match=r"config\.json:1:2: not JSON"):
        workdir.config()


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def fail(*args, **kwargs):
    raise OSError(28, "No space left on device")


EXAMPLES = "eval/dev.examples.tsv"
WRITERS = {
    "config.json": lambda workdir: workdir.claim(ToyConfig()),
    "eval/dev.json": lambda workdir: workdir.write_scores("dev", Scores({"loss": 1.0}, {}, {}, [])),
    "vocabulary": lambda workdir: workdir.adopt_data(Toy(ToyConfig())),
    "result.json": lambda workdir: workdir.write_result({"steps": 2}),
    "metrics.jsonl": lambda workdir: MetricsLog(workdir, 1),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_one_line_and_changes_no_file(name, workdir, monkeypatch):
    write = WRITERS[name]
    MetricsLog(workdir, 0).close()
    if name != "vocabulary":  # written once
        write(workdir)
    before = contents(workdir.path)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(UserError, match=r"run.*: cannot be written: No space left on device$"):
            write(workdir)
    assert contents(workdir.path) == before


READ = """
import sys
from common_jax.training.scored_run import ScoredRun
run = ScoredRun(sys.argv[1])
assert run.trained_by
print(run.config(), run.metrics(), run.validations(), run.result())
print(run.scores("dev"), run.predictions("dev", "txt"), run.references("dev"), run.sources("dev"))
print(run.example_results("dev"), run.texts("dev", True))
assert not {"jax", "flax", "optax", "orbax"} & sys.modules.keys()
"""


def test_a_run_is_read_without_jax(workdir, tmp_path):
    lines = [{"step": 1, "loss": 2.0}, {"step": 2, "split": "dev", "loss": 0.5}]
    log = MetricsLog(workdir, 0)
    for line in lines:
        log.write(line["step"], {name: line[name] for name in line if name != "step"})
    log.close()
    texts = {"references": ["r", "s"], "sources": ["t", ""]}
    results = {"length": np.array([1, 2]), "right": np.array([1, 0])}
    scores = Scores({"loss": 0.5}, {"examples": 2}, {"txt": "p\nq\n"}, [], results, **texts)
    workdir.write_scores("dev", scores)
    result = {"steps": 2, "parameters": 3, "wall_seconds": 1.5, "devices": ["cpu"]}
    result |= {"metrics": {"dev": {"loss": 0.5}}, "versions": {"jax": "0"}}
    workdir.write_result(result)
    run = ScoredRun(workdir.path)
    other = ScoredRun(tmp_path / "none")
    assert run.config()["rate"] == ToyConfig().rate
    assert [run.metrics(), run.validations(), other.metrics()] == [lines, lines[1:], []]
    assert [run.result(), other.result()] == [result, None]
    assert run.is_scored("dev") and not run.is_scored("test")
    assert run.scores("dev").value == {"loss": 0.5, "examples": 2}
    assert [run.predictions("dev", "txt"), run.references("dev")] == [["p", "q"], ["r", "s"]]
    assert [run.sources("dev"), other.sources("dev")] == [["t", ""], None]
    assert run.example_results("dev")["right"].tolist() == [1, 0]
    numbers = {"eval/dev.examples.tsv", "eval/dev.json", "metrics.jsonl", "result.json"}
    assert {*run.texts("dev", False)} == numbers
    texts = {f"eval/dev.{name}" for name in ("predictions.txt", "references", "sources")}
    assert {*run.texts("dev", True)} == numbers | texts
    assert {*run.texts("test", True)} == {"eval/dev.json", "metrics.jsonl", "result.json"}
    subprocess.run([sys.executable, "-c", READ, str(run.path)], check=True)


def test_results_of_examples_are_read_as_they_were_written(workdir):
    random = np.random.default_rng(0)
    results = {
        "right": np.array([True, False, True]),
        "length": np.array([7, 0, 12]),
        "nll": random.gamma(2, 1000, 3).astype(np.float32),
    }
    workdir.write_scores("dev", Scores({}, {}, {}, [], results))
    rows = (workdir.path / EXAMPLES).read_text().splitlines()
    rows = [row.rpartition("\t")[0] for row in rows]
    assert rows == ["index\tlength\tright", "0\t7\t1", "1\t0\t0", "2\t12\t1"]
    restored = ScoredRun(workdir.path).example_results("dev")
    assert restored.keys() == results.keys()
    for name, column in results.items():
        assert restored[name].astype(column.dtype).tolist() == column.tolist()
    workdir.write_scores("test", Scores({}, {}, {}, []))
    assert ScoredRun(workdir.path).example_results("test") is None


@pytest.mark.parametrize(
    "text,message",
    [
        ("", ":1: needs the columns"),
        ("index\tlength\tf1\tf1\n", ":1: needs the columns"),
        ("number\tlength\tf1\n", ":1: needs the columns"),
        ("index\tlength\n", ":1: needs the columns"),
        ("index\tlength\tf1\n", ": no examples"),
        ("index\tlength\tf1\n0\t1\t2\n1\t1\n", ":3: needs 1 and 2 numbers"),
        ("index\tlength\tf1\n0\t1\tnan\n", ":2: needs 0 and 2 numbers"),
        ("index\tlength\tf1\n1\t1\t1\n", ":2: needs 0 and 2 numbers"),
    ],
)
def test_damaged_results_of_examples_are_one_line(workdir, text, message):
    (workdir.path / "eval").mkdir()
    (workdir.path / EXAMPLES).write_text(text)
    with pytest.raises(UserError, match=rf"dev\.examples\.tsv{message}"):
        ScoredRun(workdir.path).example_results("dev")


@pytest.mark.parametrize(
    "place,name",
    {
        "tensorboard": "metrics.jsonl",
        "eval": "eval/dev.json",
        "vocabulary": "vocabulary",
        "metrics.jsonl/x": "metrics.jsonl",
    }.items(),
)
def test_something_in_the_place_of_a_file_or_folder(place, name, tmp_path):
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("")
    kind = r": cannot be written: (File exists|(Is|Not) a directory)$"
    with pytest.raises(UserError, match=kind):
        WRITERS[name](RunWriter(tmp_path))


def test_lines_of_the_log_with_null_values_are_kept(tmp_path):
    """A window in which every step was bad has no loss."""
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1, "loss": null, "bad_steps": 2}\n{"step": 2, "loss": "x"}\n')
    assert RunFolder(tmp_path).metrics() == [{"step": 1, "bad_steps": 2}]


def test_the_log_forgets_what_comes_after_the_step_and_what_is_damaged(tmp_path):
    path = tmp_path / "metrics.jsonl"
    damaged = [b'{"st\xff', b"7", b"{}", b'{"step": 2, "split": "dev", "accuracy": "high"}']
    lines = [b'{"step": 1}', *damaged, b'{"step": 3}', b'{"step": 9}', b'{"step": 2']
    path.write_bytes(b"\n".join(lines))
    log = MetricsLog(RunFolder(tmp_path), 3)
    assert log.resumed_from == [3] and log.validations == []
    log.write(4, {"split": "dev", "loss": 2.0, "wall_seconds": 7.5})
    log.close()
    logged = [json.loads(line) for line in path.read_text().splitlines()]
    assert logged[:-1] == [{"step": 1}, {"step": 3}, {"step": 3, "resumed_from": 3}]
    again = MetricsLog(RunFolder(tmp_path), 5)
    again.close()
    assert [(step, values["loss"]) for step, values in again.validations] == [(4, 2.0)]
    assert again.resumed_from == [3, 5] and again.wall_seconds == 7.5


def test_tensorboard_reads_what_was_logged(tmp_path):
    """A record is length, checksum, event, checksum; the second run replaces steps from 4 on."""
    from tensorboardX.proto import event_pb2

    for start, step in ((0, 5), (3, 4)):
        log = MetricsLog(RunFolder(tmp_path), start)
        log.write(step, {"split": "dev", "loss": 1.5})
        log.close()
    events = []
    for path in (tmp_path / "tensorboard").iterdir():
        content = path.read_bytes()
        while content:
            length = int.from_bytes(content[:8], "little")
            event = event_pb2.Event.FromString(content[12 : 12 + length])
            kind = event.WhichOneof("what")
            values = [(v.tag, v.simple_value) for v in event.summary.value]
            events += [] if kind == "file_version" else [(event.step, kind, values)]
            content = content[16 + length :]
    summaries = [(step, "summary", [("dev/loss", 1.5)]) for step in (4, 5)]
    starts = [(step, "session_log", []) for step in (1, 4)]
    assert sorted(events) == sorted([*starts, *summaries])


@pytest.mark.parametrize(
    "error,expected",
    [
        (UserError("step 3:\nnot finite"), {"state": "failed", "message": "step 3: not finite"}),
        (ZeroDivisionError(), {"state": "failed", "message": "ZeroDivisionError"}),
        (Interrupted(signal.SIGTERM, "at step 3"), {"state": "stopped", "message": "at step 3"}),
        (KeyboardInterrupt(), {"state": "stopped", "message": "KeyboardInterrupt"}),
    ],
)
def test_an_end_is_recorded_and_raised(error, expected, tmp_path):
    writer = RunWriter(tmp_path / "run")
    writer.claim(ToyConfig())
    with pytest.raises(type(error)), writer.recording_end():
        raise error
    assert json.loads(writer.end_file.read_text()) == expected
    writer.claim(ToyConfig())
    assert not writer.end_file.exists()
    with writer.recording_end():
        pass
    assert not writer.end_file.exists()
    writer.release()


def test_the_error_is_that_of_the_training_if_nothing_can_be_written(tmp_path):
    writer = RunWriter(tmp_path / "missing" / "run")
    with pytest.raises(UserError, match="disk full"), writer.recording_end():
        raise UserError("disk full")


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_last_checkpoint_stays(tmp_path):
    """A limit on the size of files, which acts as a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    checkpoints = reopen(tmp_path)
    checkpoints.save(make_state(8), 8, (1, 2), None)
    checkpoints.close()
    for limit in (4000, 1):
        checkpoints = reopen(tmp_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(UserError) as raised:
                checkpoints.save(make_state(9), 9, (1, 3), None)
                checkpoints.wait()
            checkpoints.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        line = f"{tmp_path}/checkpoints: cannot be written: File too large; step 8 is safely saved"
        assert str(raised.value) == line
        assert checkpoints.steps == [8]
    restored = reopen(tmp_path).restore_newest(shapes_of(make_state(0)))
    same(restored.state, make_state(8))


def test_the_log_on_a_device_that_is_always_full(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    log = MetricsLog(RunFolder(tmp_path), 0)
    log._file = Path("/dev/full").open("ab", buffering=0)  # noqa: SIM115
    with pytest.raises(UserError, match=r"metrics\.jsonl: cannot be written: No space left"):
        log.write(1, {"loss": 1.0})
    log.close()


def test_tensorboard_on_a_full_disk_does_not_hang(tmp_path):
    log = MetricsLog(RunFolder(tmp_path), 0)
    log._trackers[0]._writer._write_serialized_event = fail
    with pytest.raises(UserError, match=r"cannot be written: No space left"):
        log.write(1, {"loss": 1.0})
    log.close()


PROGRAM = """
import resource
import numpy as np
from common_jax.training.malloc import keep_freed_memory

keep_freed_memory()
used = lambda: resource.getrusage(resource.RUSAGE_SELF)
np.ones(256 << 20, np.uint8)
before = used().ru_minflt
np.ones(256 << 20, np.uint8)
after = used().ru_minflt
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(after - before, peak.split()[1])  # ru_maxrss would be the parent's, where that had more
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc, whose malloc is asked")
def test_memory_that_was_freed_is_used_again_without_a_fault():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    page_faults, kilobytes = map(int, done.stdout.split())
    assert page_faults < 64  # 65,536 small pages are in it, and 128 large ones
    assert kilobytes < 512 << 10
