"""Lines and tables of `launch.predict`: one that cannot be used, and all columns kept."""

import csv
import io
import json
import subprocess
import sys

import pytest

from common_jax.deploy import load
from common_jax.errors import UserError
from launch import cli, export, predict
from tests.launch import commands, test_attconv, test_csan, test_qanet

FAMILIES = {"csan": test_csan, "attconv": test_attconv, "qanet": test_qanet}
LINES = {
    "csan": ["The train leaves at noon.", "Three cats and a dog"],
    "attconv": ["a cat\ta dog", "the dog sits\ta cat sits"],
    "qanet": [
        json.dumps({"id": n, "context": "Ada has nine cats.", "question": question})
        for n, question in enumerate(("How many?", "Who has cats?"))
    ],
}
BAD = b"\xff broken"


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    return request.param, _models(request.param, tmp_path_factory.mktemp("lines"))


def _models(name, folder):
    """A run that has not taken a step, and its export, by flag."""
    commands.begun(FAMILIES[name], folder / name)
    run, out = folder / name / "run", folder / "export"
    export.main(["--workdir", str(run), "--out", str(out)])
    return {"--workdir": str(run), "--model": str(out)}


def printed(monkeypatch, capsys, lines, *argv):
    """Status, output and messages of the command."""
    content = b"".join(line + b"\n" for line in lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        cli.run(predict.main, [*map(str, argv)])
    captured = capsys.readouterr()
    return exit_.value.code, captured.out.splitlines(), captured.err.splitlines()


@pytest.mark.parametrize("flag", ["--workdir", "--model"])
def test_a_bad_line_has_an_error_at_its_place(family, flag, monkeypatch, capsys):
    name, models = family
    first, second = LINES[name]
    expected = [*map(str, load(models[flag]).predict([first, second]))]
    lines = [first.encode(), BAD, second.encode()]
    status, out, errors = printed(monkeypatch, capsys, lines, flag, models[flag])
    reason = "standard input:2: not UTF-8 (byte 0xff after 0 bytes)"
    assert status == 2 and [out[0], out[2]] == expected
    assert errors[-1] == f"error: 1 of 3 lines cannot be used; the first: {reason}"
    if name == "csan":
        assert out[1] == "" and errors[-2] == f"error: {reason}"
    else:
        assert json.loads(out[1]) == {"error": reason}
    stop = flag, models[flag], "--on_bad_line", "stop"
    assert printed(monkeypatch, capsys, lines, *stop) == (2, expected[:1], [f"error: {reason}"])


def test_a_text_with_line_ends_and_tabs_is_a_json_line(family):
    name, models = family
    predictor = load(models["--workdir"])
    names = [text.name for text in predictor.schema.texts]
    texts = {name: f"one\ntwo\t{name} three" for name in names}
    plain = {name: f"one two {name} three" for name in names}
    answers = [*predictor.predict([json.dumps({**texts, "more": 1}), plain])]
    if name != "qanet":
        assert answers[0] == answers[1]
        return
    first, second = (answer.to_dict() for answer in answers)
    assert (first["start"], first["end"]) == (second["start"], second["end"])
    for answer, context in ((first, texts["context"]), (second, plain["context"])):
        assert answer["answer"] == context[answer["start"] : answer["end"]]  # exact characters


@pytest.mark.slow_for("qanet")
def test_a_table_keeps_its_columns_and_order(family, tmp_path, monkeypatch, capsys):
    name, models = family
    names = [text.name for text in load(models["--workdir"]).schema.texts]
    rows = [[str(n), *(f'a "cat", {n}\nä {text}' for text in names), "gold"] for n in range(5)]
    rows[2][1] = "\xff" if name == "csan" else ""  # the text of a classifier or reader has words
    table, head = tmp_path / "in.csv", ["nr", *names, "label"]
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    for form in ("csv", "jsonl"):
        out = tmp_path / f"out.{form}"
        argv = ["--workdir", models["--workdir"], "--input", table, "--output", out]
        status, printed_lines, _ = printed(monkeypatch, capsys, [], *argv)
        assert (status, printed_lines) == (0 if name == "csan" else 2, [])
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        written = [*csv.reader(file)]
    assert [row[: len(head)] for row in written] == [head, *rows]
    assert written[0][-1] == "error" and len({len(row) for row in written}) == 1
    objects = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [[row[column] for column in head] for row in objects] == rows
    if name == "csan":
        assert written[0][len(head) :] == ["translation", "error"]
        return
    (bad,) = [number for number, row in enumerate(objects) if "error" in row]
    assert bad == 2 and objects[2]["error"] == written[3][-1] != ""
    if name == "attconv":
        assert "predicted_label" in written[0] and objects[0]["predicted_label"]


def test_columns_are_named(family, tmp_path, monkeypatch, capsys):
    _, models = family
    names = [text.name for text in load(models["--workdir"]).schema.texts]
    table = tmp_path / "in.jsonl"
    rows = [{f"my_{text}": "a cat" for text in names} | {"x": [n]} for n in range(3)]
    rows[1] = {"x": [1]}
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    argv = ["--model", models["--model"], "--input", table]
    status, _, errors = printed(monkeypatch, capsys, [], *argv)
    assert status == 2 and "no columns that are known: my_" in errors[-1]
    assert "set --columns=" in errors[-1]
    named = ",".join(f"{text}=my_{text}" for text in names)
    out = tmp_path / "out.jsonl"
    status, _, errors = printed(monkeypatch, capsys, [], *argv, "--columns", named, "--output", out)
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert status == 2 and [row["x"] for row in written] == [[0], [1], [2]]
    assert ["error" in row for row in written] == [False, True, False]
    assert errors[-1].startswith("error: 1 of 3 lines cannot be used; the first: ")


def test_csv_needs_rows_of_texts(family, tmp_path, monkeypatch, capsys):
    _, models = family
    argv = ["--model", models["--model"], "--output", tmp_path / "out.csv"]
    status, _, errors = printed(monkeypatch, capsys, [b"a"], *argv)
    assert status == 2 and "name it .jsonl" in errors[-1]


@pytest.mark.slow_for("csan", "qanet")
def test_a_text_that_would_exceed_the_memory_is_refused(family, monkeypatch, capsys):
    name, models = family
    for flag, model in models.items():
        predictor = load(model, max_memory=1e-6)
        with pytest.raises(UserError, match=r"here:1: too long: it needs .* GiB of memory"):
            next(predictor.predict(LINES[name][:1], "here"))
        assert len([*load(model).predict(LINES[name])]) == 2
        out = printed(monkeypatch, capsys, [LINES[name][0].encode()], flag, model)
        assert out[0] == 0


@pytest.mark.slow_for("csan", "qanet")
def test_output_is_utf8_and_a_closed_pipe_ends_quietly(family):
    name, models = family
    model = ["--workdir", models["--workdir"]]
    command = [sys.executable, "-m", "launch.predict", *model]
    environment = {**commands.os.environ, "PYTHONIOENCODING": "ascii", "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=commands.ROOT,
        env=environment,
    )
    line = LINES[name][0].encode()
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    answer = process.stdout.readline()  # while standard input is open
    assert answer.decode("utf-8") == f"{next(load(models['--workdir']).predict([line.decode()]))}\n"
    process.stdout.close()
    with pytest.raises(BrokenPipeError):
        while process.poll() is None:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
    errors = process.stderr.read().decode()
    assert "Traceback" not in errors and "Fatal" not in errors
    assert process.wait() == 0


def test_a_dev_set_without_answers_is_predicted(family, tmp_path, monkeypatch, capsys):
    name, models = family
    if name != "qanet":
        pytest.skip("files of SQuAD's form are for readers")
    context = "Ada has nine cats."
    first, second = {"id": "a", "question": "How many?"}, {"question": "Who has cats?"}
    asked = [first, {"id": "b"}, second, {**first, "id": 7}]
    data = [{"title": "Cats", "paragraphs": [{"context": context, "qas": asked}]}]
    file, out = tmp_path / "dev.json", tmp_path / "answers.jsonl"
    file.write_text(json.dumps({"version": "1.1", "data": data}))
    argv = ["--model", models["--model"], "--input", file, "--output", out]
    status, _, errors = printed(monkeypatch, capsys, [], *argv)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    expected = [answer.to_dict() for answer in load(models["--model"]).predict(LINES["qanet"])]
    assert [row.get("id") for row in rows] == ["a", "b", None, 7]
    assert [rows[0]["answer"], rows[2]["answer"]] == [row["answer"] for row in expected]
    assert "question" in rows[1]["error"] and status == 2 and "1 of 4 lines" in errors[-1]
