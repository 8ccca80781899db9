"""Lines and tables of `launch.predict`: one that cannot be used, and all columns kept."""

import csv
import io
import json
import os
import subprocess
import sys
import threading

import pytest

from common_jax.deploy import load
from common_jax.errors import UserError
from launch import cli
from launch.predict import __main__ as predict
from launch.predict.records import file_records
from tests.families.runs import FAMILIES
from tests.launch.commands import ROOT

BAD = b"\xff broken"


@pytest.fixture(scope="module")
def models(trained, tiny, tmp_path_factory):
    """A family's name, and its run and an export, by flag."""
    family, folder = trained
    out = tiny.exported(family.name, tmp_path_factory.mktemp("lines") / "export")
    return family.name, {"--workdir": str(folder / "run"), "--model": str(out)}


def names_of(model):
    return [text.name for text in load(model).schema.texts]


@pytest.fixture
def printed(monkeypatch, capsys):
    """Status, output and messages of the command."""

    def ask(lines, *argv):
        content = b"".join(line + b"\n" for line in lines)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            cli.run(predict.main, [*map(str, argv)])
        captured = capsys.readouterr()
        return exit_.value.code, captured.out.splitlines(), captured.err.splitlines()

    return ask


@pytest.mark.slow_for("csan", "qanet")
def test_all_lines_of_a_pipe_are_answered_and_a_table_in_it_is_refused(models, tmp_path, printed):
    name, models = models
    lines = [*FAMILIES[name].lines] * 2
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = "".join(f"{line}\n" for line in lines)
    threading.Thread(target=pipe.write_text, args=(content, "utf-8"), daemon=True).start()
    argv = ["--workdir", models["--workdir"], "--input", pipe]
    expected = [*map(str, load(models["--workdir"]).predict(lines))]
    assert printed([], *argv)[:2] == (0, expected)
    columns = ",".join(f"{text}={n}" for n, text in enumerate(names_of(argv[1]), start=1))
    status, out, errors = printed([], *argv, "--columns", columns)
    assert (status, out) == (2, []) and f"{pipe}: a pipe, which can be read once" in errors[-1]


def test_one_text_instead_of_a_list_is_refused(models):
    predictor = load(models[1]["--workdir"])
    for lines in (FAMILIES[models[0]].lines[0], {"text": "a"}):
        with pytest.raises(UserError, match="not a list of them"):
            next(predictor.predict(lines))


@pytest.mark.parametrize("flag", ["--workdir", "--model"])
def test_a_bad_line_has_an_error_at_its_place(models, flag, printed):
    name, models = models
    reason = "standard input:2: not UTF-8 (byte 0xff after 0 bytes)"
    first, second = FAMILIES[name].lines
    expected = [*map(str, load(models[flag]).predict([first, second]))]
    lines = [first.encode(), BAD, second.encode()]
    status, out, errors = printed(lines, flag, models[flag])
    assert status == 2 and [out[0], out[2]] == expected
    assert errors[-1] == f"error: 1 of 3 lines cannot be used; the first: {reason}"
    if name == "csan":
        assert out[1] == "" and errors[-2] == f"error: {reason}"
    else:
        assert json.loads(out[1]) == {"error": reason}
    stopped = printed(lines, flag, models[flag], "--on_bad_line", "stop")
    assert stopped == (2, expected[:1], [f"error: {reason}"])


def test_a_text_with_line_ends_and_tabs_is_a_json_line(models):
    name, models = models
    names = names_of(models["--workdir"])
    texts = {name: f"one\ntwo\t{name} three" for name in names}
    plain = {name: f"one two {name} three" for name in names}
    lines = [json.dumps({**texts, "more": 1}), plain]
    answers = [*load(models["--workdir"]).predict(lines)]
    if name != "qanet":
        assert answers[0] == answers[1]
        return
    first, second = (answer.to_dict() for answer in answers)
    assert (first["start"], first["end"]) == (second["start"], second["end"])
    for answer, context in ((first, texts["context"]), (second, plain["context"])):
        assert answer["answer"] == context[answer["start"] : answer["end"]]  # exact characters


@pytest.mark.slow_for("qanet")
def test_a_table_keeps_its_columns_and_order(models, tmp_path, printed):
    name, models = models
    names = names_of(models["--workdir"])
    rows = [[str(n), *(f'a "cat", {n}\nä {text}' for text in names), "gold"] for n in range(5)]
    rows[2][1] = "\xff" if name == "csan" else ""  # the text of a classifier or reader has words
    table, head = tmp_path / "in.csv", ["nr", *names, "label"]
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    for form in ("csv", "jsonl"):
        out = tmp_path / f"out.{form}"
        argv = ["--workdir", models["--workdir"], "--input", table, "--output", out]
        assert printed([], *argv)[:2] == (0 if name == "csan" else 2, [])
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


def test_a_carriage_return_in_a_cell_of_csv_is_in_quotes(tiny, tmp_path, printed):
    run = tiny("csan", tmp_path) / "run"
    table = tmp_path / "in.csv"
    out = tmp_path / "out.csv"
    rows = [["a\rb", "source"], ["1", "a cat"], ["2", "a dog\rruns"], ["3\r", 'a "cat"']]
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    assert printed([], "--workdir", run, "--input", table, "--output", out)[0] == 0
    content = out.read_bytes().decode()
    assert [row[:2] for row in csv.reader(io.StringIO(content, newline=""))] == rows
    assert "\n1,a cat," in content


def test_a_column_of_json_lines_means_the_same_in_all_rows(trained, tiny, tmp_path, printed):
    """An answer has a name that no row of a file has; a stream ends where a row has it."""
    family = trained[0].name
    run = tiny(family, tmp_path) / "run"
    field = {"csan": "translation", "qanet": "answer", "attconv": "label"}[family]
    rows = [{name: "a cat" for name in names_of(run)} for _ in range(103)]
    rows[101][field] = "gold"
    lines = [json.dumps(row).encode() for row in rows]
    out = tmp_path / "out.jsonl"
    for name in ("in.jsonl", "in.txt"):
        (tmp_path / name).write_bytes(b"\n".join(lines))
        argv = ["--workdir", run, "--input", tmp_path / name, "--output", out]
        assert printed([], *argv)[0] == 0
        written = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
        assert [row.get(field) for row in written] == [row.get(field) for row in rows]
        assert all(f"predicted_{field}" in row for row in written)

    status, _, errors = printed(lines, "--workdir", run, "--output", out)
    assert status == 2 and errors[-1].startswith("error: standard input:102: column ")
    assert len(out.read_text("utf-8").splitlines()) == 101
    status, _, errors = printed(lines[100:102][::-1], "--workdir", run, "--output", out)
    written = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert status == 0 and all(f"predicted_{field}" in row for row in written)


def test_columns_are_named(models, tmp_path, printed):
    model = models[1]["--model"]
    names = names_of(model)
    table = tmp_path / "in.jsonl"
    out = tmp_path / "out.jsonl"
    rows = [{f"my_{text}": "a cat" for text in names} | {"x": [n]} for n in range(3)]
    rows[1] = {"x": [1]}
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    argv = ["--model", model, "--input", table]
    status, _, errors = printed([], *argv)
    assert status == 2 and "no columns that are known: my_" in errors[-1]
    assert "set --columns=" in errors[-1]
    named = ",".join(f"{text}=my_{text}" for text in names)
    status, _, errors = printed([], *argv, "--columns", named, "--output", out)
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert status == 2 and [row["x"] for row in written] == [[0], [1], [2]]
    assert ["error" in row for row in written] == [False, True, False]
    assert errors[-1].startswith("error: 1 of 3 lines cannot be used; the first: ")


def test_a_table_is_read_by_the_columns_and_separator_of_training(trained, tiny, tmp_path):
    """If it has them; else as any table."""
    family = trained[0].name
    run = tiny(family, tmp_path) / "run"
    names = names_of(run)
    further = {"csan": ["target"], "qanet": ["answers"], "attconv": ["label"]}[family]
    saved = json.loads((run / "config.json").read_text())
    saved["config"]["data"]["columns"] = ",".join(f"{n}=my {n}" for n in [*names, *further])
    if family == "csan":
        saved["config"]["data"]["separator"] = "|"
    (run / "config.json").write_text(json.dumps(saved))
    schema = load(run).schema

    def texts(separator, head, cells, columns=""):
        file = tmp_path / "in.tsv"
        file.write_text(f"{separator.join(head)}\n{separator.join(cells)}\n")
        (record,) = file_records(file, columns, schema).rows
        return [record.input.value[name] for name in names]

    own = [f"my {name}" for name in names]
    known = ["a cat" for _ in names]
    mine = ["a dog" for _ in names]
    separator = "|" if family == "csan" else "\t"
    assert texts(separator, ["nr", *names, *own], ["1", *known, *mine]) == mine
    assert texts(separator, ["nr", *names], ["1", *known]) == known
    assert texts("\t", ["nr", *names], ["1", *known]) == known
    by_option = ",".join(f"{name}={name}" for name in names)
    assert texts(separator, [*names, *own], [*known, *mine], by_option) == known


def test_csv_needs_rows_of_texts(models, tmp_path, printed):
    argv = ["--model", models[1]["--model"], "--output", tmp_path / "out.csv"]
    status, _, errors = printed([b"a"], *argv)
    assert status == 2 and "name it .jsonl" in errors[-1]


@pytest.mark.slow_for("csan", "qanet")
def test_a_text_that_would_exceed_the_memory_is_refused(models, printed):
    lines = FAMILIES[models[0]].lines
    for flag, model in models[1].items():
        predictor = load(model, max_memory=1e-6)
        with pytest.raises(UserError, match=r"here:1: too long: it needs .* GiB of memory"):
            next(predictor.predict(lines[:1], "here"))
        assert len([*load(model).predict(lines)]) == 2
        assert printed([lines[0].encode()], flag, model)[0] == 0


@pytest.mark.slow_for("csan", "qanet")
def test_output_is_utf8_and_a_closed_pipe_ends_quietly(models):
    run = models[1]["--workdir"]
    text = FAMILIES[models[0]].lines[0]
    command = [sys.executable, "-m", "launch.predict", "--workdir", run]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "JAX_PLATFORMS": "cpu"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, **pipes, cwd=ROOT, env=environment)
    process.stdin.write(f"{text}\n".encode())
    process.stdin.flush()
    answer = process.stdout.readline()  # while standard input is open
    assert answer.decode("utf-8") == f"{next(load(run).predict([text]))}\n"
    process.stdout.close()
    with pytest.raises(BrokenPipeError):
        while process.poll() is None:
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
    errors = process.stderr.read().decode()
    assert "Traceback" not in errors and "Fatal" not in errors
    assert process.wait() == 0


def test_a_dev_set_without_answers_is_predicted(tiny, tmp_path, printed):
    model = tiny.exported("qanet", tmp_path / "export")
    file = tmp_path / "dev.json"
    out = tmp_path / "answers.jsonl"
    first, second = {"id": "a", "question": "How many?"}, {"question": "Who has cats?"}
    asked = [first, {"id": "b"}, second, {**first, "id": 7}]
    paragraphs = [{"context": "Ada has nine cats.", "qas": asked}]
    data = [{"title": "Cats", "paragraphs": paragraphs}]
    file.write_text(json.dumps({"version": "1.1", "data": data}))
    status, _, errors = printed([], "--model", model, "--input", file, "--output", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    expected = [answer.answer for answer in load(model).predict(FAMILIES["qanet"].lines)]
    assert [row.get("id") for row in rows] == ["a", "b", None, 7]
    assert [rows[0]["answer"], rows[2]["answer"]] == expected
    assert "question" in rows[1]["error"] and status == 2 and "1 of 4 lines" in errors[-1]
