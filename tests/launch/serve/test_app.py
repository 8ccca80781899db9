"""The application without a network: pages, the API and its description, metrics, headers."""

import asyncio
import dataclasses
import logging
import re

import jsonschema
import pytest
from starlette.testclient import TestClient

from launch.serve.metrics import Metrics
from launch.serve.models import Model, Request
from tests.launch.serve.toy_server import LIMITS, Reverser, service


@pytest.fixture
def client():
    made = service()
    made.ready = True
    with TestClient(made, "http://127.0.0.1") as client:
        yield client


def predict(client, inputs, name="toy", **fields):
    return client.post(f"/v1/models/{name}:predict", json={"inputs": inputs, **fields})


def test_an_input_is_a_line_or_an_object(client):
    response = predict(client, ["one two", {"text": "three\nfour"}])
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    expected = [{"reversed": "two one", "count": 2}, {"reversed": "four three", "count": 2}]
    assert response.json() == {"outputs": expected} and response.text.endswith("}\n")


def test_an_input_is_parsed_once():
    predictor = Reverser()
    model = Model("toy", predictor, None, LIMITS, Metrics())
    request = Request(["one two", "three"], explain=False)
    assert len(asyncio.run(model.answer(request))) == 2
    assert predictor.parsed == ["one two", "three"]


def test_an_answer_is_explained_upon_request(client):
    (output,) = predict(client, ["one two"], explain=True).json()["outputs"]
    assert output["words"] == ["one", "two"]
    long, short = predict(client, ["a b c d e f", "a"], explain=True).json()["outputs"]
    assert long == {"reversed": "f e d c b a", "count": 6} and short["words"] == ["a"]


def test_the_models_are_listed_with_what_their_pages_need(client):
    first, second, *_ = client.get("/v1/models").json()["models"]
    assert [first["name"], second["name"]] == ["toy", "slow"]
    assert first["texts"] == [{"name": "text", "title": "Text", "lines": 3, "several": False}]
    assert first["examples"] == [["one two three"]] and first["explains"]
    models = client.get("/openapi.json").json()["components"]["schemas"]["Model"]
    assert {*models["properties"]} == {*first}


def test_the_description_fits_requests_and_answers(client):
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")

    def validator(content):
        schema = content["content"]["application/json"]["schema"]
        components = {"components": document["components"]}
        return jsonschema.Draft202012Validator(components | schema)

    post = document["paths"]["/v1/models/toy:predict"]["post"]
    for inputs, right in ((["a"], True), ([{"text": "a"}], True), ([3], False), ([], False)):
        assert validator(post["requestBody"]).is_valid({"inputs": inputs}) == right
        assert (predict(client, inputs).status_code == 200) == right
    for explain in (False, True):
        answer = predict(client, ["a b"], explain=explain).json()
        validator(post["responses"]["200"]).validate(answer)
    validator(post["responses"]["422"]).validate(predict(client, [""]).json())
    for path in ("/v1/models", "/healthz", "/readyz"):
        listed = validator(document["paths"][path]["get"]["responses"]["200"])
        listed.validate(client.get(path).json())
        assert not listed.is_valid({})


def test_the_page_of_the_api_has_each_path_schema_and_example(client):
    page = client.get("/docs").text
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        assert all(f"<h2><code>{name.upper()} {path}</code></h2>" in page for name in methods)
    for name in document["components"]["schemas"]:
        assert f'"{name}": {{' in page
    for language in ("curl", "Python", "JavaScript"):
        assert page.count(f'<h4>{language}</h4><pre tabindex="0">') == 4  # of models
    for status in document["paths"]["/v1/models/toy:predict"]["post"]["responses"]:
        assert f"<tr><td>{status}</td><td>" in page


def test_pages_load_nothing_from_elsewhere_and_have_no_inline_code(client):
    for path in ("/", "/models/toy", "/docs"):
        page = re.sub(r"<pre.*?</pre>", "", client.get(path).text, flags=re.S)
        inline = r"<style|style=| on\w+=|<script(?! type=\"module\" src=)"
        assert not re.search(rf"https?:|{inline}", page)
        for file in re.findall(r'(?:src|href)="(/[^"]*)"', page):
            assert client.get(file).status_code == 200, file
    for file in ("page.js", "views.js", "style.css"):
        text = client.get(f"/static/{file}").text.replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"^\s*//.*|/\*.*?\*/| // .*", "", text, flags=re.M | re.S)


def test_a_page_has_a_label_for_each_box_and_the_other_models_of_its_task(client):
    page = client.get("/models/toy").text
    for name in re.findall(r'<(?:textarea|select) id="([^"]+)"', page):
        assert f'<label for="{name}">' in page
    assert "<option>slow</option>" in page and "<option>toy</option>" not in page


def test_metrics_count_requests_by_status(client):
    predict(client, ["a", "b"])
    predict(client, [""])
    text = client.get("/metrics").text
    assert 'serve_requests_total{model="toy",status="200"} 1.0\n' in text
    assert 'serve_requests_total{model="toy",status="422"} 1.0\n' in text
    assert 'serve_inputs_total{model="toy"} 2.0\n' in text
    assert 'serve_request_seconds_bucket{le="+Inf",model="toy"} 2.0\n' in text
    assert 'serve_inputs_waiting{model="toy"} 0.0\n' in text
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) .*|\w+(\{[^{}]*\})? [-+.e\d]+", line), line


def test_nothing_of_a_request_is_logged_unless_requested(caplog):
    caplog.set_level(logging.DEBUG)
    for log in (False, True):
        with TestClient(service(log=log)) as client:
            predict(client, ["a secret crash"])
            client.get("/secret")
    lines = [r.getMessage() for r in caplog.records if r.name.startswith(("common_jax", "launch"))]
    assert not any("a secret" in line for line in lines)
    (line,) = (line for line in lines if "404" in line)
    assert line.startswith("GET /secret 404 ")
    assert sum(line.startswith("POST /v1/models/toy:predict 500") for line in lines) == 1


def test_a_bug_is_answered_without_its_message(monkeypatch):
    def broken(*_):
        raise RuntimeError("/a/path")

    monkeypatch.setattr("launch.serve.pages.index", broken)
    response = TestClient(service()).get("/")
    assert response.status_code == 500
    assert response.json() == {"error": {"status": 500, "message": "internal error"}}


def test_it_is_ready_when_it_has_compiled():
    made = service(warm=False)
    with TestClient(made) as client:
        for ready, status in ((False, 503), (True, 200)):
            made.ready = ready
            assert client.get("/readyz").status_code == status
            assert client.get("/healthz").status_code == 200


def test_an_answer_that_takes_too_long_is_given_up_unless_it_compiles():
    limits = dataclasses.replace(LIMITS, timeout=0.1)
    with TestClient(service(limits, warm=False)) as client:
        assert predict(client, ["a"], name="slow").status_code == 200
        response = predict(client, ["a"], name="slow")
    assert response.status_code == 504
    assert response.json()["error"]["message"] == "no answer within 0.1 s"


@pytest.mark.parametrize("path", ["/", "/metrics", "/v1/models", "/static/page.js"])
def test_only_the_hosts_of_this_server_are_answered(path):
    ours = ("10.0.0.7:8000", "localhost:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST", "a.example")
    others = ("evil.example", "example", "10.0.0.8:8000", "localhost.a.example", "", "[::2]")
    with TestClient(service(hosts=["A.example"]), "http://10.0.0.7:8000") as client:
        assert {client.get(path, headers={"host": host}).status_code for host in ours} == {200}
        for host in others:
            refused = client.get(path, headers={"host": host})
            assert refused.status_code == 421
            assert refused.json()["error"]["message"].endswith("(--allowed_hosts)")
