"""`launch.serve`: arguments, and serving runs and exports of the three families."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from common_jax.deploy import load
from launch.serve import __main__ as serve
from qanet_jax.data.synthetic import generate as generate_questions
from tests.browser import Browser, needs_chromium
from tests.families.runs import FAMILIES
from tests.launch.commands import ROOT, close, fails
from tests.launch.serve.toy_server import post

LIGHT, DARK, PHONE = {}, {"dark": True}, {"width": 390}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "give --workdir, --model or --demo"),
        (["--workdir", "no/folder"], "no/folder: not the folder of a run"),
        (["--workdir", "a", "--model", "b/a"], "'a' is also the name of a; write NAME=b/a"),
        (["--workdir", "my run"], "'my run' cannot be in a URL; write NAME=my run"),
        (["--workdir", "a", "--port", "70000"], "--port 70000"),
        (["--workdir", "a", "--host", "nowhere.invalid"], "--host nowhere.invalid"),
        (["--workdir", "a", "--max_batch", "0"], "--max_batch 0: from 1"),
        (["--workdir", "a", "--max_inputs", "300"], "--max_queue 256: less than --max_inputs 300"),
        (["--workdir", "a", "--nothing"], "unrecognized arguments: --nothing"),
    ],
)
def test_mistakes_are_one_line(argv, message, monkeypatch, capsys):
    argv = [*argv, "--port", "0"] if "--port" not in argv else argv
    assert message in fails(monkeypatch, capsys, argv, serve.main)


def test_a_server_without_its_extra_is_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", types.ModuleType("uvicorn"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    argv = ["--workdir", "a"]
    assert "needs the extra serve" in fails(monkeypatch, capsys, argv, serve.main)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=runs/b", ("a", "runs/b")),
        ("runs/b/", ("b", "runs/b/")),
        ("runs/a=b", ("a=b", "runs/a=b")),
        (".", (os.path.basename(os.getcwd()), ".")),
    ],
)
def test_names_of_folders(text, expected):
    assert serve._source("--model", text)[1:] == expected


@contextlib.contextmanager
def serving(*argv):
    """The port and the process of a server."""
    command = [sys.executable, "-m", "launch.serve", "--port", "0", *map(str, argv)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=sys.stderr
    )
    try:
        line = process.stdout.readline()
        match = re.fullmatch(r"serving .* at http://127.0.0.1:(\d+)/\n", line)
        assert match, line
        yield int(match[1]), process
    finally:
        process.kill()
        process.communicate()


def ask(port, name, inputs, **fields):
    """The outputs of a model."""
    status, answer = post(port, inputs, name, timeout=300, **fields)
    assert status == 200, answer
    return answer["outputs"]


@pytest.fixture(scope="module")
def folders(tiny, tmp_path_factory):
    """The folders of a run and an export of each family, by name; from SERVE_RUNS if it is set."""
    made = {}
    for name in FAMILIES:
        if runs := os.environ.get("SERVE_RUNS"):
            made[name] = Path(runs).absolute() / name
            made[f"{name}-export"] = Path(runs).absolute() / f"{name}-export"
            continue
        folder = tiny(name, tmp_path_factory.mktemp(name) / "copy")
        made[name] = folder / "run"
        made[f"{name}-export"] = tiny.exported(name, folder / "export")
    return made


@pytest.fixture(scope="module")
def server(folders):
    models = [("--model" if "export" in n else "--workdir", f"{n}={p}") for n, p in folders.items()]
    with serving(
        *(part for pair in models for part in pair), "--timeout", 300, "--max_length", 2000
    ) as started:
        yield started


SENTENCES = ["Three cats and a dog", "", "The train leaves at noon.", "one two " * 9, "seven"]
PAIRS = ["Two red cups.\tOne cup.", "a\tb", f"{'a cup ' * 9}\tno cup", "Über 😀\tשלום"]


def questions():
    squad = generate_questions(4, 5, "test")
    pairs = [(squad.contexts[q.context], q.text) for q in squad.questions]
    pairs += [("one", "two"), (f"{squad.contexts[0]} " * 12, "what?")]
    return [json.dumps({"context": c, "question": q}) for c, q in pairs]


LINES = {"csan": SENTENCES, "qanet": questions(), "attconv": PAIRS}


@pytest.mark.slow
def test_answers_are_those_of_predict_in_any_batch(server, folders):
    port, _ = server
    random_ = random.Random(0)
    for name, path in folders.items():
        family = name.partition("-")[0]
        lines = LINES[family]
        predictor = load(path)
        expected = {line: next(predictor.predict([line])).line for line in lines}
        mixtures = [random_.choices(lines, k=random_.randint(1, 9)) for _ in range(24)]
        mixtures += [[line] for line in lines]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answered = [*pool.map(lambda mix, name=name: ask(port, name, mix), mixtures)]
        for mixture, outputs in zip(mixtures, answered, strict=True):
            for line, output in zip(mixture, outputs, strict=True):
                one = expected[line]
                one = {"translation": one} if family == "csan" else json.loads(one)
                assert output == close(one, within=1e-5), (name, line)


@pytest.mark.slow
def test_explained_answers_are_those_of_predict(server, folders):
    port, _ = server
    for name, path in folders.items():
        family = name.partition("-")[0]
        line = LINES[family][0]
        options = {"explain": True} if name != "csan-export" else {}
        options |= {"hypotheses": True} if family == "csan" else {}
        expected = next(load(path, **options).predict([line])).to_dict()
        (output,) = ask(port, name, [line], explain=True)
        assert output == close(expected, within=1e-5)


@pytest.mark.slow
def test_the_server_holds_no_model_code_of_exports(folders):
    exports = [f"{name}={path}" for name, path in folders.items() if "export" in name]
    code = (
        "import sys\nfrom launch.serve import __main__ as serve\n"
        "import launch.serve.server as server\n"
        "server.run = lambda *_: print(sorted({m.split('.')[0] for m in sys.modules}"
        " & {'flax', 'optax', 'orbax'}), flush=True)\nserve.main(sys.argv[1:])"
    )
    flags = [part for text in exports for part in ("--model", text)]
    command = [sys.executable, "-c", code, "--port", "0", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_sigterm_under_load_ends_with_0(folders):
    with serving("--workdir", f"pairs={folders['attconv']}") as (port, process):
        ask(port, "pairs", PAIRS)

        def until_gone():
            count = 0
            with contextlib.suppress(ConnectionError, http.client.BadStatusLine):
                while ask(port, "pairs", PAIRS[:1]):
                    count += 1
            return count

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            jobs = [pool.submit(until_gone) for _ in range(16)]
            time.sleep(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            assert sum(job.result() for job in jobs) > 0


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("look", [LIGHT, DARK, PHONE], ids=["light", "dark", "phone"])
def test_each_page_answers_its_examples(server, folders, look, tmp_path, request):
    port, _ = server
    expected = {
        "csan": "figure, .answer",
        "qanet": "mark",
        "attconv": "table, .words button",
    }
    with Browser(tmp_path / "profile", **look) as browser:
        for name in folders:
            browser.open(f"http://127.0.0.1:{port}/models/{name}")
            browser.evaluate("document.getElementById('compare').selectedIndex = 1")
            browser.click("[data-example='0']")
            browser.wait_for(
                "document.querySelectorAll('#results section').length === 2"
                " && !document.querySelector('button[type=submit]').disabled",
                seconds=300,
            )
            assert browser.evaluate("document.querySelectorAll('[role=alert]').length") == 0
            selector = expected[name.partition("-")[0]]
            assert browser.evaluate(f"document.querySelectorAll('#results {selector}').length")
            root = "document.documentElement"
            assert browser.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"), name
            if folder := os.environ.get("SERVE_PICTURES"):
                kind = request.node.callspec.id
                browser.picture(ROOT / folder / f"{name}-{kind}.png")
        assert browser.complaints == []
