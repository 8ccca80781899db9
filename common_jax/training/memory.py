"""The host's memory, which on a CPU is the device's."""

import ctypes
import mmap
import os
import sys
from pathlib import Path

# glibc's malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8

_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


def physical_memory() -> int:
    """The machine's, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def keep_freed_memory() -> None:
    """Asks the C library to keep what is freed for the next request; before threads are started.

    A step on the CPU takes its temporary memory from `malloc` and frees all of it. glibc gives
    blocks of that size back to the system at once, which then hands the next step fresh pages, each
    with a fault and full of zeros: a sixth of a small step's time. What comes of it is in pages of
    2 MiB, for which a processor keeps fewer addresses: a third of a large step's time. Elsewhere
    nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    mallopt = getattr(libc, "mallopt", None)
    if mallopt is not None:  # not every Linux has glibc
        for option, value in (
            (_ARENA_MAX, 1),  # other arenas hold no large blocks
            (_MMAP_MAX, 0),  # a mapping goes back as soon as it is freed
            (_TRIM_THRESHOLD, -1),  # the largest there is
            (_TOP_PAD, 256 * 2**20),
        ):
            mallopt(option, value)
        if _OVERCOMMIT.exists() and _OVERCOMMIT.read_text().strip() != "2":  # it counts addresses
            _use_huge_pages(libc)


def _use_huge_pages(libc: ctypes.CDLL) -> None:
    """Reserves addresses for most of the machine's memory, asks for huge pages there, and frees
    them, which `keep_freed_memory` has made to stay: a page takes memory when it is written to."""
    size = physical_memory() * 3 // 4
    libc.malloc.restype = ctypes.c_void_p
    if block := libc.malloc(ctypes.c_size_t(size)):
        first = -block % mmap.PAGESIZE
        start, length = block + first, (size - first) // mmap.PAGESIZE * mmap.PAGESIZE
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)
        libc.free(ctypes.c_void_p(block))
