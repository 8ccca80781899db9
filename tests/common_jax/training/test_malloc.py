"""What is freed stays with the process, and what is reserved takes no memory."""

import platform
import subprocess
import sys

import pytest

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
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    page_faults, kilobytes = map(int, run.stdout.split())
    assert page_faults < 64  # 65,536 small pages are in it, and 128 large ones
    assert kilobytes < 512 << 10
