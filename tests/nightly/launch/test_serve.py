"""Servers of runs and exports of the three families, and of the small trained models."""

import concurrent.futures
import html
import importlib
import json
import os
import random
import re
import shutil
import subprocess
import sys

import pytest

from common_jax.deploy import load
from launch.cli import module_command
from qanet_jax.data.synthetic import generate as generate_questions
from tests.families.runs import FAMILIES
from tests.launch.commands import close, python
from tests.launch.serve.toy_server import post, requested, running, started
from tests.launch.test_demo import INPUTS
from tests.nightly.browser import Browser, needs_chromium

PACKAGE = "asking"


def asked(operation, port, name, inputs, **fields):
    """The response of a model to a generated client."""
    package = importlib.import_module(PACKAGE)
    body_class = getattr(importlib.import_module(f"{PACKAGE}.models"), f"Predict{name}Body")
    client = package.Client(base_url=f"http://127.0.0.1:{port}", timeout=300)
    body = body_class.from_dict({"inputs": inputs, **fields})
    return operation(f"predict_{name.lower()}")(client=client, body=body)


@pytest.fixture
def client_of(tmp_path, monkeypatch):
    """A function: the client of a description, with its operations by name."""

    def generated(document):
        (tmp_path / "openapi.json").write_text(json.dumps(document))
        (tmp_path / "config.yml").write_text("post_hooks: []\n")
        command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
        command += ["--path", tmp_path / "openapi.json", "--config", tmp_path / "config.yml"]
        command += ["--output-path", tmp_path / PACKAGE, "--fail-on-warning"]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        monkeypatch.syspath_prepend(tmp_path)
        return lambda name: importlib.import_module(f"{PACKAGE}.api.default.{name}").sync

    yield generated
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_a_generated_client_asks(client_of):
    with running() as (port, _):
        operation = client_of(json.loads(requested(port, "/openapi.json")[1]))
        models = importlib.import_module(f"{PACKAGE}.models")
        response = asked(operation, port, "Toy", ["one two", {"text": "three four"}])
        assert [output.reversed_ for output in response.outputs] == ["two one", "four three"]
        (output,) = asked(operation, port, "Toy", ["one two"], explain=True).outputs
        assert output.words == ["one", "two"]
        refused = asked(operation, port, "Toy", [""])
        assert isinstance(refused, models.Error) and refused.error.status == 422
        client = importlib.import_module(PACKAGE).Client(base_url=f"http://127.0.0.1:{port}")
        listed = operation("list_models")(client=client).models
        assert [model.name for model in listed] == ["toy", "slow", "ranker", "viewer"]
        assert listed[0].texts[0].title == "Text" and listed[0].explains
        assert operation("health")(client=client).status == "ok"


def ask(port, name, inputs, **fields):
    status, answer = post(port, inputs, name, timeout=300, **fields)
    assert status == 200, answer
    return answer["outputs"]


@pytest.fixture(scope="module")
def folders(tiny, tmp_path_factory):
    """The folders of a run and an export of each family, by name."""
    made = {}
    for name in FAMILIES:
        folder = tiny(name, tmp_path_factory.mktemp(name) / "copy")
        made[name] = folder / "run"
        made[f"{name}-export"] = tiny.exported(name, folder / "export")
    return made


@pytest.fixture(scope="module")
def port(folders):
    """The port of a server of all folders."""
    models = [("--model" if "export" in n else "--workdir", f"{n}={p}") for n, p in folders.items()]
    flags = [part for pair in models for part in pair]
    command = [sys.executable, "-m", "launch.serve", "--port", "0", *flags]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    with started(*command, "--timeout", "300", "--max_length", "2000", env=environment) as (
        port,
        _,
    ):
        yield port


SENTENCES = ["Three cats and a dog", "", "The train leaves at noon.", "one two " * 9, "seven"]
PAIRS = ["Two red cups.\tOne cup.", "a\tb", f"{'a cup ' * 9}\tno cup", "Über 😀\tשלום"]


def questions():
    squad = generate_questions(4, 5, "test")
    pairs = [(squad.contexts[q.context], q.text) for q in squad.questions]
    pairs += [("one", "two"), (f"{squad.contexts[0]} " * 12, "what?")]
    return [json.dumps({"context": c, "question": q}) for c, q in pairs]


LINES = {"csan": SENTENCES, "qanet": questions(), "attconv": PAIRS}


def test_answers_are_those_of_predict_in_any_batch(port, folders):
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


def test_explained_answers_are_those_of_predict(port, folders):
    for name, path in folders.items():
        family = name.partition("-")[0]
        line = LINES[family][0]
        options = {"explain": True} | ({"hypotheses": True} if family == "csan" else {})
        expected = next(load(path, **options).predict([line])).to_dict()
        (output,) = ask(port, name, [line], explain=True)
        assert output == close(expected)  # weights are rounded to four digits


def test_the_server_holds_no_model_code_of_exports(folders):
    exports = [f"{name}={path}" for name, path in folders.items() if "export" in name]
    code = (
        "import sys\nfrom launch.serve import __main__ as serve\n"
        "import launch.serve.server as server\n"
        "server.run = lambda *_: print(sorted({m.split('.')[0] for m in sys.modules}"
        " & {'flax', 'optax', 'orbax'}), flush=True)\nserve.main(sys.argv[1:])"
    )
    flags = [part for text in exports for part in ("--model", text)]
    status, out, errors = python("-c", code, "--port", "0", *flags)
    assert status == 0, errors
    assert out.splitlines()[-1] == "[]"


@needs_chromium
@pytest.mark.parametrize("look", [{}, {"dark": True}, {"width": 390}], ids=str)
def test_each_page_answers(port, folders, look, tmp_path):
    expected = {
        "csan": "figure, .answer",
        "qanet": "mark",
        "attconv": "table, .words button",
    }
    with Browser(tmp_path / "profile", **look) as browser:
        for name in folders:
            browser.open(f"http://127.0.0.1:{port}/models/{name}")
            browser.evaluate("document.getElementById('compare').selectedIndex = 1")
            schema = load(folders[name]).schema
            line = FAMILIES[name.partition("-")[0]].lines[0]
            for text, value in zip(schema.texts, schema.to_texts(line), strict=True):
                browser.type(f"#text-{text.name}", value)
            browser.click("button[type=submit]")
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
        assert browser.complaints == []


@pytest.fixture(scope="module")
def demo():
    """The port of a server of the three small trained models."""
    command = [*module_command("serve"), "--demo", "--port", "0"]
    with started(*command, env=os.environ | {"XLA_FLAGS": ""}) as (port, server):
        yield port
        server.terminate()
        assert server.wait(20) == 0


def test_a_generated_client_asks_the_three_demos(demo, client_of):
    operation = client_of(json.loads(requested(demo, "/openapi.json")[1]))
    models = json.loads(requested(demo, "/v1/models")[1])["models"]
    assert sorted(model["name"] for model in models) == ["attconv", "csan", "qanet"]
    pair = {"first": "There are two red cups in the shed.", "second": "The shed has no red cups."}
    (output,) = asked(operation, demo, "Attconv", [pair]).outputs
    assert output.label == "contradiction"
    text = {"source": INPUTS["csan"]}
    (output,) = asked(operation, demo, "Csan", [text]).outputs
    assert output.translation == "In Wien ist es schon neun Uhr."
    (output,) = asked(operation, demo, "Qanet", [json.loads(INPUTS["qanet"])]).outputs
    assert output.answer == "Ada"


PROGRAMS = {"curl": ("bash", "-c"), "Python": (sys.executable, "-c"), "JavaScript": ("node", "-e")}


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_examples_of_the_page_run(demo, language):
    program = {"curl": "curl", "JavaScript": "node"}.get(language, "bash")
    if shutil.which(program) is None:
        pytest.skip(f"waits for {program}")
    _, page = requested(demo, "/docs")
    texts = re.findall(f'<h4>{language}</h4><pre tabindex="0">(.*?)</pre>', page, re.S)
    assert len(texts) == 3
    printed = []
    for text in texts:
        code = html.unescape(re.sub("<.*?>", "", text))
        if language == "JavaScript":  # as in a module, where `await` is allowed
            code = f"(async () => {{ {code} }})()"
        done = subprocess.run([*PROGRAMS[language], code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    for field, output in zip(("label", "translation", "answer"), printed, strict=True):
        assert field in output
