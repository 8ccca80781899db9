"""`--help`: all flags, and examples."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

import launch

COMMANDS = [
    path.stem
    for path in sorted(Path(launch.__file__).parent.glob("*.py"))
    if "run(main)" in path.read_text()
]
PAGES = [[name] for name in COMMANDS] + [
    ["bench", sub] for sub in ("attention", "train", "predict")
]


def page(capsys, command, *words):
    with pytest.raises(SystemExit) as exit_:
        importlib.import_module(f"launch.{command}").main([*words, "--help"])
    assert exit_.value.code == 0
    return capsys.readouterr().out


def test_all_commands_are_looked_at():
    assert {"train", "evaluate", "predict", "bench", "export"} <= set(COMMANDS)


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_each_page_explains_every_flag_and_has_an_example(words, capsys):
    text = page(capsys, *words)
    options = text[text.index("\noptions:") :].replace("\n  --", "\n\n  --")
    listed = re.findall(r"^  (?:-h, )?(--[\w.]+)(.*(?:\n   .*)*)", options, re.MULTILINE)
    assert listed
    for flag, rest in listed:
        assert re.search(r"(\s{2,}|\n\s+)\S", rest), f"{flag} is not explained"
    example = text[text.index("\nexample:") : text.index("\noptions:")].replace("\\\n", " ")
    typed = [shlex.split(line) for line in re.findall(r"python -m launch\.(.*)", example)]
    own = [line for line in typed if line[: len(words)] == words]
    assert own
    for line in own if words != ["bench"] else []:
        flags = {word for word in line if word.startswith("--")}
        assert flags <= {flag for flag, _ in listed}, line
