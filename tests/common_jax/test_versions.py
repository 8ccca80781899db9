"""The commit of a clone, and of code that has none."""

import subprocess
import sys
from pathlib import Path

from common_jax import versions

SOURCE = Path(versions.__file__).read_text()


def git(folder, *args):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


def commit_of(folder):
    program = "from common_jax.versions import commit; print(commit())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, check=True, capture_output=True
    )
    return done.stdout.decode().strip()


def test_the_commit_is_that_of_the_code_and_not_of_a_folder_around_it(tmp_path):
    clone = tmp_path / "clone"
    (clone / "common_jax").mkdir(parents=True)
    (clone / "common_jax" / "__init__.py").touch()
    (clone / "common_jax" / "versions.py").write_text(SOURCE)
    git(tmp_path, "init")
    git(tmp_path, "add", "clone/common_jax/versions.py")
    git(tmp_path, "commit", "-m", "around")
    assert commit_of(clone) == ""
    git(clone, "init")
    git(clone, "add", ".")
    git(clone, "commit", "-m", "own")
    assert commit_of(clone) == git(clone, "rev-parse", "HEAD")
    (clone / "common_jax" / "__init__.py").write_text("changed = True")
    assert commit_of(clone) == git(clone, "rev-parse", "HEAD") + "-dirty"
