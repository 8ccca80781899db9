"""Disks, files and memory of the operating system, with its real limits."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.training.log import MetricsLog
from common_jax.training.run_folder import RunFolder
from tests.common_jax.training.test_checkpoint import make_state, reopen, same, shapes_of
from tests.common_jax.training.test_run_folder import fail


def test_a_full_disk_is_one_line_and_the_last_checkpoint_stays(tmp_path):
    """A limit on the size of files, which acts as a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    checkpoints = reopen(tmp_path)
    checkpoints.save(make_state(8), 8, (1, 2), None)
    checkpoints.close()
    for limit in (4000, 1):
        checkpoints = reopen(tmp_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(UserError) as raised:
                checkpoints.save(make_state(9), 9, (1, 3), None)
                checkpoints.wait()
            checkpoints.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        line = f"{tmp_path}/checkpoints: cannot be written: File too large; step 8 is safely saved"
        assert str(raised.value) == line
        assert checkpoints.steps == [8]
    restored = reopen(tmp_path).restore_newest(shapes_of(make_state(0)))
    same(restored.state, make_state(8))


def test_the_log_on_a_device_that_is_always_full(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    log = MetricsLog(RunFolder(tmp_path), 0)
    log._file = Path("/dev/full").open("ab", buffering=0)  # noqa: SIM115
    with pytest.raises(UserError, match=r"metrics\.jsonl: cannot be written: No space left"):
        log.write(1, {"loss": 1.0})
    log.close()


def test_tensorboard_on_a_full_disk_does_not_hang(tmp_path):
    log = MetricsLog(RunFolder(tmp_path), 0)
    log._trackers[0]._writer._write_serialized_event = fail
    with pytest.raises(UserError, match=r"cannot be written: No space left"):
        log.write(1, {"loss": 1.0})
    log.close()


PROGRAM = """
import resource
import numpy as np
from common_jax.training.malloc import keep_freed_memory

keep_freed_memory()
used = lambda: resource.getrusage(resource.RUSAGE_SELF)
np.ones(256 << 20, np.uint8)
before = used().ru_minflt
np.ones(256 << 20, np.uint8)
after = used().ru_minflt
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(after - before, peak.split()[1])  # ru_maxrss would be the parent's, where that had more
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc, whose malloc is asked")
def test_memory_that_was_freed_is_used_again_without_a_fault():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    page_faults, kilobytes = map(int, done.stdout.split())
    assert page_faults < 64  # 65,536 small pages are in it, and 128 large ones
    assert kilobytes < 512 << 10
