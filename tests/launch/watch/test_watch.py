"""`launch.watch`: mistakes, the runs of a folder, and the page in a browser beside a training."""

import contextlib
import json
import os
import re
import subprocess
import sys
import types
import urllib.request

import pytest
from starlette.testclient import TestClient

from common_jax.errors import UserError
from common_jax.io.storage import folder_of
from launch.watch import __main__ as watch
from launch.watch.app import Watch
from launch.watch.folder import WatchedFolder
from launch.web.server import listen
from tests.browser import Browser, needs_chromium
from tests.launch.commands import ROOT, fails
from tests.launch.watch.folders import append, result, write

NAME = '<img src=x onerror="boom">&amp;$x$'


@pytest.fixture
def runs(tmp_path):
    """A folder with a run that trains, a finished one, and a sweep of which one trial has begun."""
    folder = tmp_path / "runs"
    write(folder / "csan" / "first", lines=10, result=result())
    with (folder / "csan" / "first" / "metrics.jsonl").open("a") as log:
        log.write('{"step": 100, "loss": null, "bad_steps": 3}\n')
    write(folder / NAME, lines=4, model__dim=32)
    write(folder / "sweep" / "trials" / "a=1", lines=2, end={"state": "failed", "message": NAME})
    (folder / "sweep" / "trials.json").write_text(json.dumps({"names": ["a=1", "a=2"]}))
    assert folder_of(folder / NAME).lock("lock") == ""
    yield folder
    folder_of(folder / NAME).unlock("lock")


@pytest.fixture(autouse=True)
def without_rest(monkeypatch):
    """A server may compute all the time."""
    monkeypatch.setattr("launch.watch.folder._PAUSE_FACTOR", 0)


def application(folder):
    return Watch(WatchedFolder(folder, 0.0), [])


def test_the_runs_and_trials_of_a_folder_are_found(runs):
    export = write(runs / "export")
    (export / "export.json").write_text("{}")
    write(runs / ".hidden" / "run")
    write(runs / "csan" / "first" / "inner")
    folder = WatchedFolder(runs, 0.0)
    states = {name: run.status.state for name, run in folder.runs.items()}
    assert states == {
        NAME: "running",
        "csan/first": "finished",
        "sweep/trials/a=1": "failed",
        "sweep/trials/a=2": "not begun",
    }
    assert [*WatchedFolder(runs / "csan" / "first", 0.0).runs] == ["."]


def test_links_lead_neither_above_the_folder_nor_in_a_cycle(tmp_path):
    write(tmp_path / "outside" / "run")
    write(tmp_path / "watched" / "a" / "run")
    write(tmp_path / "disk" / "run")
    links = {"up": "..", "self": ".", "a/up": "../..", "a/of_b": "../b", "disk": "../disk"}
    (tmp_path / "watched" / "b").mkdir()
    for link, target in {**links, "b/of_a": "../a", "../disk/up": "..", "a/top": "/"}.items():
        (tmp_path / "watched" / link).symlink_to(target)
    expected = ["a/run", "b/of_a/run", "disk/run"]
    assert sorted(WatchedFolder(tmp_path / "watched", 0.0).runs) == expected


def test_a_page_has_all_runs_escaped_and_the_chosen_ones_compared(runs):
    with TestClient(application(runs).app, "http://127.0.0.1") as client:
        page = client.get("/").text
        assert "<img" not in page and NAME not in page
        assert "1 failed" in page and "1 not begun" in page and "test: accuracy 58.25" in page
        assert page.count(" checked>") == 3 and "<svg" in page
        assert page.count("not finite") == page.count("3 of 100 steps not finite") == 1
        for file in re.findall(r'(?:src|href)="(/[^"]*)"', page):
            assert client.get(file).status_code == 200, file
        assert not re.search(r'(?:src|href)="(?!/)', page.replace('href="#', ""))
        chosen = client.get("/", params={"run": [NAME, "csan/first"]}).text
        assert chosen.count(" checked>") == 2 and "model.dim" in chosen
        assert "train.steps" not in chosen
        none = client.get("/", params={"run": ""}).text
        assert " checked>" not in none and "<svg" not in none


def test_parts_are_sent_only_when_they_have_changed(runs):
    with TestClient(application(runs).app, "http://127.0.0.1") as client:
        first = client.get("/live").json()
        assert {*first["parts"]} == {"runs", "curves", "settings"}
        again = client.get("/live", params={"version": first["version"]}).json()
        assert "parts" not in again and again["pause"] >= 0
        append(runs / NAME, 4, 5)
        changed = client.get("/live", params={"version": first["version"]}).json()
        assert "50 of 100" in changed["parts"]["runs"]


def test_other_hosts_are_refused(runs):
    with TestClient(application(runs).app, "http://127.0.0.1") as client:
        assert client.get("/", headers={"host": "evil.example"}).status_code == 421
        assert client.get("/live", headers={"host": "localhost:8080"}).status_code == 200


def test_files_are_read_again_only_after_the_pause(runs, monkeypatch):
    folder = WatchedFolder(runs, 1000.0)
    append(runs / NAME, 4, 5)
    folder.look()
    assert folder.runs[NAME].step == 40
    monkeypatch.setattr("launch.watch.folder._PAUSE_FACTOR", 20)
    folder.busy = 3.0
    assert folder.pause() == 1000.0 and folder.pause(97.0) == 2000.0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "required: FOLDER"),
        (["no/folder"], "no/folder: no such folder"),
        (["{here}/file"], "file: not a folder"),
        (["{here}/empty"], "empty: no run in it"),
        (["{here}/runs", "--port", "70000"], "--port 70000"),
        (["{here}/runs", "--port", "{taken}"], "Address already in use"),
        (["{here}/runs", "--every", "0"], "--every 0: from 0.1"),
        (["s3://bucket/runs"], "only gs:// is supported"),
    ],
)
def test_mistakes_are_one_line(argv, message, runs, monkeypatch, capsys):
    here = runs.parent
    (here / "file").write_text("")
    (here / "empty").mkdir()
    monkeypatch.setattr(os, "nice", lambda _: 0)
    with listen("127.0.0.1", 0) as taken:
        words = {"here": here, "taken": taken.getsockname()[1]}
        argv = [part.format(**words) for part in argv]
        assert message in fails(monkeypatch, capsys, argv, watch.main)


def test_a_page_without_its_extra_is_one_line(runs, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", types.ModuleType("uvicorn"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "launch.watch needs the extra serve" in fails(
        monkeypatch, capsys, [str(runs)], watch.main
    )


def test_too_many_runs_are_refused(runs, monkeypatch):
    monkeypatch.setattr("launch.watch.folder._MAX_RUNS", 2)
    with pytest.raises(UserError, match="more than 2 runs; watch a folder in it"):
        WatchedFolder(runs, 0.0)


WITHOUT_REST = """
import os, sys
from launch.watch import __main__ as watch, folder
folder._PAUSE_FACTOR, os.nice = 0, lambda _: 0
watch.main(sys.argv[1:])
"""


@contextlib.contextmanager
def watching(folder, *flags):
    """The address of the page of a folder."""
    command = [sys.executable, "-c", WITHOUT_REST, str(folder), "--port", "0", *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r" at (http://\S+)/\n", process.stdout.readline())[1]
            with urllib.request.urlopen(address, timeout=100):  # draws for the first time
                pass
            yield address
        finally:
            process.terminate()
        assert process.wait(30) == 0


@needs_chromium
@pytest.mark.parametrize(
    "look",
    [pytest.param({}, marks=pytest.mark.slow), {"dark": True, "width": 400}],
    ids=["wide", "400"],
)
def test_the_page_follows_a_run_in_a_browser(look, runs, tmp_path):
    with (
        watching(runs, "--every", "0.2") as address,
        Browser(tmp_path / "profile", **look) as browser,
    ):
        browser.open(address)
        browser.wait_for("document.getElementById('time').innerText.startsWith('As of')", 60)
        root = "document.documentElement"
        assert browser.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
        boxes = "document.querySelectorAll('input:checked').length"
        assert browser.evaluate(boxes) == 3
        append(runs / NAME, 4, 7)
        browser.wait_for("document.querySelector('.runs').innerText.includes('70 of 100')", 60)
        browser.click("input[value='csan/first']")  # no longer chosen
        browser.wait_for("!document.getElementById('curves').innerText.includes('first')", 60)
        assert browser.evaluate(boxes) == 2
        assert browser.evaluate("document.activeElement.value") == "csan/first"
        browser.open(browser.evaluate("location.href"))  # which has the choice
        assert browser.evaluate(boxes) == 2
        assert browser.complaints == []
