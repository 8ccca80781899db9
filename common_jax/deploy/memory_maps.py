"""The memory maps of this process, of which Linux allows some 65,000."""

from pathlib import Path

_LIMIT = Path("/proc/sys/vm/max_map_count")
_MAPS = Path("/proc/self/maps")


def nearly_used_up() -> bool:
    """Whether this process has half of the maps that it may have.

    A program that XLA compiles for a CPU has some 400, and the process is killed if there is no
    room for those of another.
    """
    try:
        with _MAPS.open("rb") as maps:
            return 2 * sum(1 for _ in maps) > int(_LIMIT.read_text())
    except OSError:  # not Linux
        return False
