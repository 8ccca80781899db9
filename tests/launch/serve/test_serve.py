"""`launch.serve`: its arguments."""

import os
import sys
import types

import pytest

from launch.serve import __main__ as serve
from tests.launch.commands import fails


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
        (["--workdir", "a", "--max_body", "0"], "--max_body 0"),
        (["--workdir", "a", "--timeout", "0"], "--timeout 0"),
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
    line = fails(monkeypatch, capsys, ["--workdir", "a"], serve.main)
    assert "needs the extra serve" in line


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
