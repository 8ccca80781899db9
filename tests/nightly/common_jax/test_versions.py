"""The commit of a clone, and of code that has none."""

import subprocess
import sys
from pathlib import Path

from common_jax import versions


def output_of(folder, *command):
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


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
