"""Memory of this process. Imports the standard library alone: other toolkits are measured by it."""

import re
import resource
import sys
from pathlib import Path


def host_peak_memory() -> int:
    """The most bytes of memory that this process has used. Of Linux from /proc, as ru_maxrss also
    counts the process that started this one."""
    status = Path("/proc/self/status")
    if status.exists() and (peak := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(peak[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
