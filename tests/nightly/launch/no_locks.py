"""Runs a command on disks that answer requests for locks with an errno: no_locks.py ERRNO COMMAND.

A filter of system calls (Linux's seccomp) answers, also C++ code and programs that the command
starts, as a network disk without locks does.
"""

import ctypes
import os
import platform
import struct
import sys

_NUMBERS = {"x86_64": (73, 72), "aarch64": (32, 25)}  # of flock and fcntl
SUPPORTED = sys.platform.startswith("linux") and platform.machine() in _NUMBERS
_COMMANDS = (6, 7, 37, 38)  # of fcntl: F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000  # linux/seccomp.h
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2  # of prctl
_CALL, _SECOND_ARGUMENT = 0, 24  # offsets in struct seccomp_data


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def install(number: int) -> None:
    """Makes flock and the locks of fcntl fail with an errno, in this process and its children."""
    flock, fcntl = _NUMBERS[platform.machine()]
    error = 5 + len(_COMMANDS)  # the last instruction
    code = [
        (_LOAD, 0, 0, _CALL),
        (_EQUAL, error - 2, 0, flock),
        (_EQUAL, 0, len(_COMMANDS) + 1, fcntl),
        (_LOAD, 0, 0, _SECOND_ARGUMENT),
        *((_EQUAL, error - at - 1, 0, value) for at, value in enumerate(_COMMANDS, start=4)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | number),
    ]
    packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = _Program(len(code), ctypes.addressof(packed))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_SECCOMP, _FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    install(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
