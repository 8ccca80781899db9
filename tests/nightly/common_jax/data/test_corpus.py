"""Corpora and cached arrays: killed builds, failing disks, damaged files, another user's folder."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from common_jax.data.corpus import prepare
from common_jax.errors import UserError
from tests.common_jax.data.test_corpus import builds, fetch, start, touch


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux, to be another user")
def test_read_only_folder(tmp_path):
    """A read-only folder is an error, unless the corpus is already in it."""
    ready = prepare(tmp_path, {"ready": 1}, touch)
    tmp_path.chmod(0o555)
    code = (
        "import os, sys\n"
        "from common_jax.data.corpus import prepare\n"  # before the user changes
        "import filelock\n"
        "if os.geteuid() == 0:\n"
        "    os.seteuid(65534)\n"
        f"for name in ('ready', 'new'):\n"
        f"    try: print(prepare({str(tmp_path)!r}, {{name: 1}}, lambda folder: None))\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
    )
    for parent in tmp_path.parents:  # pytest's own folders are closed to others
        if parent.stat().st_uid == os.geteuid() and parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    tmp_path.chmod(0o755)
    first, second = done.stdout.splitlines()
    assert first == str(ready), done.stderr
    assert second.startswith(f"UserError data.cache_dir={tmp_path}: ")
    assert "Permission denied" in second


def test_a_killed_build_starts_again(tmp_path):
    """The process that waited for it builds the corpus."""
    first = start(tmp_path, 60)
    assert first.stdout.readline() == "building\n"
    second = start(tmp_path, 0)
    time.sleep(1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    path = second.communicate(timeout=60)[0].splitlines()[-1]
    assert builds(tmp_path) == 2
    assert sorted(os.listdir(path)) == ["checksums.json", "done", "fingerprint.json", "part"]
    assert not list((tmp_path / "cache").glob("*.tmp"))


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"data\.cache_dir=.*file: .*Not a directory|File exists"):
        prepare(tmp_path / "file", {}, touch)
    assert fetch(tmp_path / "file" / "plans") and fetch(tmp_path / "file" / "plans")


def test_a_write_of_arrays_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", fail)
    assert fetch(tmp_path) and not list(tmp_path.iterdir())
