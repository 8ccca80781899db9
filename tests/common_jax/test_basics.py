"""Settings of jax that change results, pytrees, texts without paths, and commands that install."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from common_jax import numerics, versions
from common_jax.config import MeshConfig
from common_jax.errors import PACKAGE, UserError, missing_extra
from common_jax.masks import Mask, padding
from common_jax.training.mesh import make_mesh
from launch.export.request import shareable


@pytest.mark.parametrize(
    "setting,value,message",
    [
        (jax.enable_x64, True, "jax_enable_x64=True"),
        (jax.threefry_partitionable, False, "jax_threefry_partitionable=False"),
        (jax.default_matmul_precision, "float32", "jax_default_matmul_precision=float32"),
    ],
)
def test_a_setting_that_changes_results_is_refused_from_python(setting, value, message):
    with setting(value), pytest.raises(UserError, match=message):
        make_mesh(MeshConfig(1))
    make_mesh(MeshConfig(1))


def test_keys_have_a_generator_whatever_the_default_is():
    expected = jax.random.key_data(jax.random.key(3)).tolist()
    with jax.default_prng_impl("rbg"):
        key = numerics.random_key(3)
        assert jax.random.key_impl(key) == "threefry2x32"
        assert jax.random.key_data(key).tolist() == expected


def test_variables_are_removed_or_recorded(monkeypatch):
    environment = {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu", "JAX_DEFAULT_PRNG_IMPL": "rbg"}
    removed = numerics.remove_variables(environment)
    assert removed == ["JAX_ENABLE_X64=1", "JAX_DEFAULT_PRNG_IMPL=rbg"]
    assert environment == {"JAX_PLATFORMS": "cpu"}
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert numerics.recorded_variables()["NVIDIA_TF32_OVERRIDE"] == "0"


def test_types_hold_where_a_node_is_made_and_not_where_jax_makes_one():
    """Three dims where two are needed too: `--jaxtyping-packages` of pyproject.toml."""
    valid = jnp.array([[True, True, False]])
    shapes = jax.tree.map(lambda a: a.shape, padding(valid))
    assert isinstance(shapes, Mask) and shapes.key_segments == (1, 3)
    with pytest.raises(TypeCheckError, match="key_segments"):
        Mask(key_segments=(1, 3))
    with pytest.raises(TypeCheckError, match="key_valid"):
        padding(valid[None])


@pytest.mark.parametrize(
    "text,expected",
    [
        ("/home/ada/data/snli", "snli"),
        ("/home/ada b/data", "data"),
        ("~/data", "data"),
        ("~ada/data/x.txt", "x.txt"),
        ("runs/csan/quickstart", "runs/csan/quickstart"),
        ("../data", "../data"),
        ("and/or, 1/2", "and/or, 1/2"),
        ("gs://bucket/run", "gs://bucket/run"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        (
            "python -m launch.train --config=/a/b.py:light --config.data.dir=/c/d --x '/e f/g'",
            "python -m launch.train --config=b.py:light --config.data.dir=d --x 'g'",
        ),
        ("name=/a/b,other=~/c/d", "name=b,other=d"),
    ],
)
def test_an_absolute_path_in_an_export_is_its_last_component(text, expected):
    assert shareable(text) == expected
    assert shareable({"labels": text, "data": {"labels": text}})["data"]["labels"] == text
    assert shareable({"a": [text, 1, None, 0.5, True]}) == {"a": [expected, 1, None, 0.5, True]}


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


def test_a_clone_needs_no_path_inside_it_and_is_what_is_not_installed(monkeypatch, tmp_path):
    install(monkeypatch, "uv", {**CLONE, "url": tmp_path.as_uri()})
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path / "runs")
    assert "(uv sync --extra serve)" in str(missing_extra("it", "serve"))
    absent = mock.Mock(side_effect=importlib.metadata.PackageNotFoundError)
    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    assert "(uv sync --extra serve)" in str(missing_extra("it", "serve"))


def output_of(folder, *command):
    return subprocess.check_output(command, cwd=folder, text=True).strip()


@pytest.mark.slow
def test_the_commit_is_that_of_the_code_and_not_of_a_folder_around_it(tmp_path):
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    program = "from common_jax.versions import commit; print(commit())"
    clone = tmp_path / "clone"
    commit = lambda: output_of(clone, sys.executable, "-c", program)
    (clone / "common_jax").mkdir(parents=True)
    (clone / "common_jax" / "__init__.py").touch()
    (clone / "common_jax" / "versions.py").write_text(Path(versions.__file__).read_text())
    for folder, files in ((tmp_path, "clone/common_jax/versions.py"), (clone, ".")):
        if folder == clone:
            assert commit() == ""
        output_of(folder, *git, "init")
        output_of(folder, *git, "add", files)
        output_of(folder, *git, "commit", "-m", "all")
    head = output_of(clone, *git, "rev-parse", "HEAD")
    assert commit() == head
    (clone / "common_jax" / "__init__.py").write_text("changed = True")
    assert commit() == f"{head}-dirty"
