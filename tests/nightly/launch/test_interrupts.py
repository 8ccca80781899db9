"""Ctrl-C in a command: inside a program that never returns, and in Python."""

import signal
import subprocess
import sys

import pytest

from tests.launch.commands import ROOT

CODE = """
import hashlib, signal, sys, time
from launch import cli, interrupts
interrupts.SECONDS = 1.0
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
def computes(argv):  # in C, without the interpreter's lock, as XLA does
    print(flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
def computes_in_threads(argv):
    from common_jax.io.threads import threaded_map
    list(threaded_map(computes, [argv], 2))
def waits(argv):
    try:
        print(flush=True)
        time.sleep(100)
    finally:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            time.sleep(0.01)
        print("saved", flush=True)
def answers_itself(argv):
    signal.signal(signal.SIGINT, lambda *_: print("saved", flush=True))
    print(flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 5_000_000)
cli.run(MAIN, [])
"""


def interrupted(main):
    """What a process prints after Ctrl-C, its lines of errors and its status."""
    command = [sys.executable, "-c", CODE.replace("MAIN", main)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        assert process.stdout.readline() == "\n"
        process.send_signal(signal.SIGINT)
        try:
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    return output.strip(), errors, process.returncode


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ("computes_in_threads", ("", "stopped\n", 130)),
        ("waits", ("saved", "stopped\n", 130)),
        ("answers_itself", ("saved", "", 0)),
    ],
)
def test_ctrl_c_ends_what_does_not_answer_it(main, expected):
    assert interrupted(main) == expected
