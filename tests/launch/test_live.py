"""`launch.report --every`: runs in folders, their state, and the page that is written again."""

import contextlib
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from common_jax.compare.runs import labelled
from common_jax.document import Report
from common_jax.errors import UserError
from common_jax.fields import to_mapping
from launch import report
from launch.api.live import LivePage, Progress, find, seconds_left
from launch.interrupts import ending_on_interrupt
from launch.pages import html
from tests.launch.commands import fails
from tests.toy import ToyConfig, changed

STEPS = 100
NAME = '<img src=x onerror="boom">&amp;$x$'
LOCKING = """
import sys
from common_jax.io.storage import folder_of

folder_of(sys.argv[1]).lock("lock")
print(flush=True)
input()
"""
METRICS = {"dev": {"loss": 1.0, "rounded": 50.0}, "test": {"loss": 1.5, "rounded": 40.0}}


def write(folder, lines=0, age=0.0, files=(), **fields):
    """Writes the files of a run as training leaves them.

    Args:
      lines: of the log: of training every ten steps, at one a second, and a validation after each.
      age: of the files, in seconds.
      files: the contents of others by name.
      fields: of the config, "__" for ".".
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = changed(ToyConfig(), "train", steps=STEPS)
    for name, value in fields.items():
        section, key = name.split("__")
        config = changed(config, section, **{key: value})
    (folder / "config.json").write_text(json.dumps({"version": 1, "config": to_mapping(config)}))
    append(folder, 0, lines)
    for name, content in dict(files).items():
        (folder / name).write_text(json.dumps(content))
    for path in (*folder.iterdir(), folder) if age else ():
        os.utime(path, (time.time() - age,) * 2)
    return folder


def append(folder, first, last):
    """Appends lines to the log of a run."""
    with (folder / "metrics.jsonl").open("a") as log:
        for number in range(first + 1, last + 1):
            at = {"step": 10 * number, "wall_seconds": 5.0 + 10.0 * number}
            log.write(json.dumps(at | {"loss": 3.0 / number, "steps_per_second": 1.0}) + "\n")
            log.write(json.dumps(at | {"split": "dev", "loss": 4.0 + number}) + "\n")


def result(steps=STEPS, **further):
    fields = {"parameters": 44, "wall_seconds": 105.0, "devices": [], "versions": {}}
    return {"result.json": {"steps": steps, "metrics": METRICS, **fields, **further}}


def end(state, message=""):
    return {"end.json": {"state": state, "message": message}}


def progress(folder):
    _, now = LivePage([folder])._look(labelled([folder])[0])
    return now


def table(page):
    """The cells of the head of a page by its runs' labels."""
    head = page.sections[0].elements[0]
    return {row[0]: dict(zip(head.head, row, strict=True)) for row in head.rows}


RUNNING = Progress("running", "", STEPS, 60.0)


@pytest.mark.parametrize(
    ("lines", "age", "files", "expected"),
    [
        (4, 0, {}, RUNNING),
        (10, 0, {}, Progress("scoring", "", STEPS, 0.0)),
        (10, 9e5, result(), Progress("finished", "", STEPS)),
        (4, 0, result(40, stopped_early=True), Progress("finished", "", STEPS)),
        (4, 0, end("stopped", "at step 40"), Progress("stopped", "at step 40", STEPS)),
        (4, 0, end("failed", "disk full"), Progress("failed", "disk full", STEPS)),
        (4, 0, result(40) | end("stopped"), Progress("stopped", "", STEPS)),
        (4, 170, {}, Progress("no sign of life for 3 minutes", "", STEPS)),
        (0, 7500, {}, Progress("no sign of life for 125 minutes", "", STEPS)),
    ],
)
def test_the_state_is_that_of_the_files(lines, age, files, expected, tmp_path):
    assert progress(write(tmp_path / "run", lines, age, files)) == expected


def test_a_run_with_rare_lines_is_not_silent_between_them(tmp_path):
    folder = write(tmp_path / "run", age=170)
    assert progress(folder).state == "no sign of life for 3 minutes"
    log = "".join(f'{{"step": {n}, "wall_seconds": {60.0 * n}}}\n' for n in (1, 2))
    (folder / "metrics.jsonl").write_text(log)
    os.utime(folder / "metrics.jsonl", (time.time() - 170,) * 2)
    assert progress(folder).state == "running"


def test_a_process_without_a_line_compiles(tmp_path):
    folder = write(tmp_path / "run", age=200)
    command = [sys.executable, "-c", LOCKING, folder]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    assert progress(folder).state == "compiling for 3 minutes"
    process.kill()
    process.wait()
    assert progress(folder).state == "no sign of life for 3 minutes"


def test_a_trial_has_the_record_of_its_sweep_until_it_is_started_again(tmp_path):
    folder = tmp_path / "trials" / "a=1"
    record = tmp_path / "trials" / "a=1.json"
    record.parent.mkdir()
    assert progress(folder) == Progress("not begun")
    record.write_text('{"state": "failed", "error": "ended by SIGKILL (out of memory?)"}')
    assert progress(folder) == Progress("failed", "ended by SIGKILL (out of memory?)")
    write(folder, 4, age=60)
    assert progress(folder).state == "failed"
    record.write_text('{"state": "stopped", "error": ""}')
    assert "others did better" in progress(folder).reason
    os.utime(record, (time.time() - 100,) * 2)
    assert progress(folder) == RUNNING


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff\xfe", b'{"config": 3}', b"null"])
def test_a_damaged_file_leaves_the_other_runs_on_the_page(damage, tmp_path):
    write(tmp_path / "whole", 4)
    for name in ("config.json", "result.json", "end.json", "metrics.jsonl"):
        (write(tmp_path / name, 4) / name).write_bytes(damage)
    rows = table(LivePage([tmp_path]).report())
    states = {name: row["state"] for name, row in rows.items()}
    assert states.pop("metrics.jsonl") == states.pop("whole") == "running"
    assert {*states.values()} == {"unreadable"} and len(states) == 3


def test_the_time_left_is_that_of_the_speed_since_the_last_restart():
    slow = [{"step": 10, "wall_seconds": 100.0}, {"step": 20, "wall_seconds": 200.0}]
    resumed = [*slow, {"step": 20, "resumed_from": 20}]
    fast = [{"step": 30, "wall_seconds": 250.0}, {"step": 40, "wall_seconds": 260.0}]
    for lines, expected in (
        ([], None),
        (slow[:1], None),
        (slow, 800.0),
        (resumed, 800.0),
        (resumed + fast, 60.0),
    ):
        assert seconds_left(lines, 100) == expected


def test_the_runs_and_trials_of_a_folder_are_found_but_no_exports_and_no_cycles(tmp_path):
    write(tmp_path / "outside" / "run")
    write(tmp_path / "disk" / "run")
    top = tmp_path / "runs"
    for name in ("a/run", "sweep/trials/b=1", ".hidden/run", "a/run/inner"):
        write(top / name)
    write(top / "export", files={"export.json": {}})
    (top / "sweep" / "trials.json").write_text('{"names": ["b=2", "b=1"]}')
    (top / "a" / "trials.json").write_text("[]")  # of another program
    links = {"up": "..", "self": ".", "a/up": "../..", "disk": "../disk", "../disk/up": ".."}
    for link, target in {**links, "c": "a", "a/root": "/"}.items():
        (top / link).symlink_to(target)
    names = [path.relative_to(top).as_posix() for path in find(top)]
    assert names == ["a/run", "disk/run", "sweep/trials/b=2", "sweep/trials/b=1"]
    assert find(top / "a" / "run") == [top / "a" / "run"]
    assert find(tmp_path / "none") == []


def test_a_failed_start_that_another_run_has_taken_up_is_not_listed(tmp_path):
    start = write(tmp_path / "start", age=60, files=end("failed", "no file"), data__dir="x")
    write(tmp_path / "other", 4, train__seed=1)
    assert {*table(LivePage([tmp_path]).report())} == {"other", "start"}
    write(tmp_path / "again", 4)
    assert {*table(LivePage([tmp_path]).report())} == {"again", "other"}
    append(start, 0, 1)
    assert "start" in table(LivePage([tmp_path]).report())


def test_a_page_follows_runs_that_begin_change_and_go(tmp_path):
    live = LivePage([tmp_path / "runs", tmp_path / "more"])
    (text,) = live.report().sections[0].elements
    assert text.startswith("No run yet in ")
    write(tmp_path / "more" / NAME, 10, files=result())
    first = write(tmp_path / "runs" / "first", 4, train__patience=3)
    page = live.report()
    assert page == live.report()
    assert table(page)["first"] == {
        "run": "first",
        "state": "running",
        "done": "40 %",
        "time left": "at most 0:01:00",
        "step": "40 of 100",
        "loss": 0.75,
        "dev": "loss 8.00",
        "best dev": "5.00 at step 10",
        "steps/s": 1.0,
    }
    assert (
        page.sections[0].elements[0].note.startswith("1 running, 1 finished, about 0:01:00 left ")
    )
    titles = [section.title for section in page.sections]
    assert titles == ["Progress", "Runs", "Speed", "Toy: settings", "Toy: scores", "Toy: learning"]
    assert "<img" not in (text := html.to_html(page, 30.0)) and 'content="30"' in text
    append(first, 4, 5)
    assert table(live.report())["first"]["step"] == "50 of 100"
    shutil.rmtree(first)
    assert {*table(live.report())} == {NAME}


def test_a_page_has_the_scores_and_intervals_of_a_later_evaluation(tmp_path):
    run = write(tmp_path / "run", 10, files=result())
    (run / "eval").mkdir()
    page = LivePage([tmp_path])
    for loss in (1.5, 1.25):
        scored = {"loss": loss, "rounded": 40.0, "intervals": {"loss": [0, 2 * loss]}}
        (run / "eval" / "test.json").write_text(json.dumps(scored))
        sections = {section.title: section.elements for section in page.report().sections}
        _, test = sections["Toy: scores"]
        assert test.rows[0][1] == f"{loss:.2f} (0.00 to {2 * loss:.2f})"


def test_the_time_left_of_a_sweep_counts_trials_that_have_not_begun(tmp_path):
    (tmp_path / "trials.json").write_text('{"names": ["a", "b", "c", "d", "e"]}')
    write(tmp_path / "trials" / "a", 10, files=result())
    for name in "bc":
        write(tmp_path / "trials" / name, 4)
    head = LivePage([tmp_path]).report().sections[0].elements[0]
    left = datetime.timedelta(seconds=(60 + 60 + 2 * 105) / 2)  # two at a time, each 105 s
    assert head.note.startswith(f"1 finished, 2 running, 2 not begun, about {left} left ")


def test_curves_are_of_at_most_so_many_runs_unfinished_ones_first(tmp_path, monkeypatch):
    monkeypatch.setattr("launch.api.live._MOST_CURVES", 2)
    for name, files in (("a", result()), ("b", result()), ("c", {})):
        write(tmp_path / name, 4, files=files)
    *charts, note = LivePage([tmp_path]).report().sections[-1].elements
    assert [series.name for series in charts[0].series] == ["a", "c"] and "2 of the 3" in note


@pytest.fixture
def looks(monkeypatch):
    """Functions that are called one after the other between two looks, until Ctrl-C."""
    waiting = []

    def sleep(seconds):
        if not waiting:
            raise KeyboardInterrupt
        waiting.pop(0)()

    monkeypatch.setattr(report.time, "sleep", sleep)
    monkeypatch.setattr(report.os, "nice", lambda _: 0)
    return waiting


def test_the_page_is_written_when_something_has_changed(tmp_path, looks, monkeypatch, capsys):
    out = tmp_path / "report.html"
    pages = []

    def seen():
        pages.append(out.read_text() if out.exists() else "")
        out.unlink(missing_ok=True)

    def fail(*_):
        raise UserError("no answer")

    looks += [
        lambda: (seen(), write(tmp_path / "runs" / "a", 4)),
        seen,
        lambda: (seen(), monkeypatch.setattr(LivePage, "report", fail)),
        seen,
    ]
    with pytest.raises(KeyboardInterrupt):
        report.main([str(tmp_path / "runs"), "--every", "30", "--out", str(out)])
    assert ["40 of 100" in page for page in pages] == [False, True, False, False]
    assert pages[0] and not pages[2] and not pages[3] and "no answer" in capsys.readouterr().err


def test_ctrl_c_that_is_lost_while_a_page_is_drawn_ends_the_command_after_it(
    tmp_path, looks, monkeypatch, request
):
    # SIGINT is ignored where the tests were started in the background
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    drawn = []

    def draw(_):
        drawn.append(Report("page", []))
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return drawn[-1]

    monkeypatch.setattr(LivePage, "report", draw)
    looks += [lambda: None] * 3
    argv = [str(tmp_path), "--every", "30", "--out", str(tmp_path / "r.html")]
    with pytest.raises(KeyboardInterrupt), ending_on_interrupt():
        report.main(argv)
    assert len(drawn) == 1 and (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["file", "--every", "30"], "file: not a folder"),
        (["runs", "--every", "30", "--split", "x"], r"--split x: must be"),
        (["s3://bucket/runs", "--every", "30"], "only gs:// is supported"),
    ],
)
def test_mistakes_are_one_line(argv, message, tmp_path, looks, monkeypatch, capsys):
    write(tmp_path / "runs" / "a", 4)
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    assert message in fails(monkeypatch, capsys, [*argv, "--out", "r.html"], report.main)
