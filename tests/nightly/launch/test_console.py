"""Completion in shells, and colors in terminals."""

import os
import pty
import subprocess

import pytest

from launch.__main__ import main
from tests.launch.test_console import CONSOLE, completed


@pytest.mark.parametrize(
    "line,expected",
    [
        ("train --config csan/q", "csan/quickstart"),
        ("train --config ow", "own.py"),
        ("sweep --config csan/quickstart --systems cnns,csan_", "cnns,csan_1d cnns,csan_2d"),
        ("train --config csan/quickstart --config.model.tie=", "none target all"),
        ("bench train --config attconv/quickstart --config.mesh.f", "--config.mesh.fsdp"),
        ("reproduce csan/f", "csan/figure1 csan/figure2 csan/figure3"),
        ("train --pri", "--print_config"),
        ("export --format s", "stablehlo safetensors"),
        ("trian --", ""),
    ],
)
def test_bash_completes(line, expected, tmp_path):
    (tmp_path / "own.py").write_text("")
    assert completed(line, tmp_path) == expected.split()


@pytest.mark.parametrize(
    "shell,registers", [("zsh", "compdef _python_argcomplete"), ("fish", "complete --command")]
)
def test_other_shells_have_a_script(shell, registers, capsys):
    main(["completion", shell])
    assert registers in capsys.readouterr().out


def test_only_a_terminal_has_colors():
    def shown(**variables):
        terminal, end = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", **variables}
        environment.pop("NO_COLOR") if variables.get("NO_COLOR") == "" else None
        subprocess.run([CONSOLE, "trian"], stderr=end, env=environment)
        os.close(end)
        return os.read(terminal, 1000).decode()

    assert shown(NO_COLOR="").startswith("\x1b[31merror:\x1b[0m no command")
    for variables in ({"NO_COLOR": "1"}, {"NO_COLOR": "", "TERM": "dumb"}):
        assert shown(**variables).startswith("error: no command")
    piped = subprocess.run([CONSOLE, "trian"], capture_output=True, text=True)
    assert piped.stderr.startswith("error: ") and piped.returncode == 2
