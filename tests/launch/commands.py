"""Commands run as the shell runs them."""

import sys

import pytest

from launch import cli, train


def arguments(config, folder, run="run", **changes):
    """Of training: `config` with other fields, in a run of the folder."""
    values = {"data.dir": folder, "data.cache_dir": folder / "cache", **changes}
    overrides = [f"--config.{key}={value}" for key, value in values.items()]
    return ["--config", config, *overrides, "--workdir", str(folder / run)]


def fails(monkeypatch, capsys, argv, main=train.main):
    """Runs a command as the shell would; gives its one line on standard error."""
    monkeypatch.setattr(sys, "argv", ["launch", *argv])
    with pytest.raises(SystemExit) as exit_:
        cli.run(main)
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    return line
