"""The command that installs an extra, from where the package was installed."""

import importlib.metadata
import json
from unittest import mock

import pytest

from common_jax.errors import PACKAGE, missing_extra

CLONE = {"url": "file:///a%20clone", "dir_info": {"editable": True}}
FOLDER = {"url": "file:///a%20clone", "dir_info": {}}
WHEEL = {"url": "file:///dist/x.whl", "archive_info": {}}
DOWNLOAD = {"url": "https://example.org/x.whl", "archive_info": {}}
COMMIT = {"url": "https://example.org/x", "vcs_info": {"vcs": "git", "commit_id": "abc"}}


def install(monkeypatch, installer, record):
    files = {"INSTALLER": f"{installer}\n", "direct_url.json": record and json.dumps(record)}
    installed = mock.Mock(read_text=files.get)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: installed)


@pytest.mark.parametrize(
    ("installer", "record", "command"),
    [
        ("uv", CLONE, "uv sync --extra serve --project '/a clone'"),
        ("pip", CLONE, "pip install -e '/a clone[serve]'"),
        ("pip", FOLDER, "pip install '/a clone[serve]'"),
        ("pip", WHEEL, "pip install '/dist/x.whl[serve]'"),
        ("uv", WHEEL, "uv pip install '/dist/x.whl[serve]'"),
        ("pip", DOWNLOAD, f"pip install '{PACKAGE}[serve] @ https://example.org/x.whl'"),
        ("pip", COMMIT, f"pip install '{PACKAGE}[serve] @ git+https://example.org/x@abc'"),
        ("pip", None, f"pip install '{PACKAGE}[serve]'"),
    ],
)
def test_an_extra_is_installed_from_the_same_source(installer, record, command, monkeypatch):
    install(monkeypatch, installer, record)
    assert str(missing_extra("it", "serve")) == f"it needs the extra serve ({command})"


def test_a_clone_needs_no_path_inside_it(monkeypatch, tmp_path):
    install(monkeypatch, "uv", {**CLONE, "url": tmp_path.as_uri()})
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path / "runs")
    assert "(uv sync --extra serve)" in str(missing_extra("it", "serve"))


def test_code_that_is_not_installed_is_a_clone(monkeypatch):
    absent = mock.Mock(side_effect=importlib.metadata.PackageNotFoundError)
    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    assert "(uv sync --extra serve)" in str(missing_extra("it", "serve"))
