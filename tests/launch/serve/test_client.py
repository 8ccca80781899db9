"""A client that openapi-python-client generates from the description asks a server."""

import http.client
import importlib
import json
import subprocess
import sys

import pytest

from tests.launch.serve.toy_server import running

PACKAGE = "asking"


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
        for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
            monkeypatch.delitem(sys.modules, name)
        return lambda name: importlib.import_module(f"{PACKAGE}.api.default.{name}").sync

    yield generated
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def fetched(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def asked(operation, port, name, inputs, **fields):
    """The response of a model to a generated client."""
    package = importlib.import_module(PACKAGE)
    body_class = getattr(importlib.import_module(f"{PACKAGE}.models"), f"Predict{name}Body")
    client = package.Client(base_url=f"http://127.0.0.1:{port}", timeout=300)
    body = body_class.from_dict({"inputs": inputs, **fields})
    return operation(f"predict_{name.lower()}")(client=client, body=body)


def test_a_generated_client_asks(client_of):
    with running() as (port, _):
        operation = client_of(json.loads(fetched(port, "/openapi.json")))
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
