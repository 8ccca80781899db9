"""Steps that are damaged in every way, and a folder that goes away."""

import itertools
import json
import os
import shutil

import pytest

from common_jax.errors import UserError
from common_jax.io import checksums
from tests.common_jax.training.test_checkpoint import (  # noqa: F401  (two fixtures)
    abstract,
    flip,
    make_state,
    reopen,
    require_set_aside,
    saved,
)


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def replaced(path, make):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    make(path)


def damages(step):
    """Ways to damage a step's folder, by name: (function, text in the error message)."""
    kinds = {
        "halved": lambda path: os.truncate(path, path.stat().st_size // 2),
        "to nothing": lambda path: os.truncate(path, 0),
        "deleted": os.unlink,
        "a folder": lambda path: replaced(path, os.mkdir),
    }
    cases = {}
    for path, kind in zip(files_of(step), itertools.cycle(kinds), strict=False):
        name = path.relative_to(step).as_posix()
        cases[f"{name} flipped"] = (lambda s, n=name: flip(s / n), name)
        cases[f"{name} {kind}"] = (lambda s, n=name, k=kind: kinds[k](s / n), name)
    fewer = json.loads((step / checksums.NAME).read_text())
    fewer["files"].popitem()
    for kind, text in {"garbled": "{x", "of none": "{}", "fewer": json.dumps(fewer)}.items():
        write = lambda s, text=text: (s / checksums.NAME).write_text(text)
        cases[f"checksums {kind}"] = (write, checksums.NAME)
    array = files_of(step / "state" / "d")[0].relative_to(step)
    cases["longer"] = (lambda s: (s / array).write_bytes(b"x" * 10_000), str(array))
    cases["emptied"] = (lambda s: replaced(s, os.mkdir), "an empty folder")
    write = lambda path: path.write_text("50")
    cases["a file"] = (lambda s: replaced(s, write), "a file, not a folder")
    for item in ("state", "position", "metrics"):
        cases[f"without {item}"] = (lambda s, i=item: shutil.rmtree(s / i), item)
    return cases


def test_damaged_steps_are_reported_moved_aside_and_the_one_before_restored(
    saved,  # noqa: F811
    abstract,  # noqa: F811
    tmp_path,
    caplog,
):
    cases = damages(saved / "checkpoints" / "8")
    assert len(cases) >= 30
    for number, (do, message) in enumerate(cases.values()):
        run = shutil.copytree(saved, tmp_path / f"{number}")
        do(run / "checkpoints" / "8")
        caplog.clear()
        require_set_aside(reopen(run), run, abstract, message, "8", caplog)
        shutil.rmtree(run)


def test_a_folder_that_goes_away(tmp_path):
    checkpoints = reopen(tmp_path / "run")
    checkpoints.save(make_state(1), 1, (0, 1), None)
    checkpoints.wait()
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match="cannot be written: Not a directory; nothing is saved yet"):
        checkpoints.save(make_state(2), 2, (0, 2), None)
    checkpoints.close()
