"""Processes of a run that wait for each other, over real sockets."""

import os
import re
import socket
import subprocess
import sys

import pytest

from tests.launch.tiny_runs import ROOT

CODE = """
import logging, sys
from launch.cli import run
from launch.train import rendezvous
from launch.train.schedulers import DistributedArgs

address, count, number = sys.argv[1:]
rendezvous.JOIN_SECONDS = 15
rendezvous.LOG_SECONDS = 5
logging.basicConfig(format="%(message)s")
run(lambda _: rendezvous.join(DistributedArgs("", address, int(count), int(number))))
"""


@pytest.fixture
def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def ends(address, *processes):
    """Exit status and messages of processes that join, each given by count and number."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CODE, address, str(count), str(number)],
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for count, number in processes
    ]
    messages = [process.communicate(timeout=120)[1].splitlines() for process in started]
    return [(process.returncode, lines) for process, lines in zip(started, messages, strict=True)]


def test_all_return_once_all_are_there(address):
    assert ends(address, (3, 2), (3, 0), (3, 1)) == [(0, [])] * 3


@pytest.mark.parametrize("numbers", [(0,), (1,), (0, 2)])
def test_the_awaited_host_and_number_are_logged_and_the_end_is_a_line(address, numbers):
    for status, lines in ends(address, *((4, number) for number in numbers)):
        ours = [line for line in lines if "processes at" in line]
        assert status == 2 and lines[-1] == ours[-1]
        assert ours == [
            f"waiting for 4 processes at {address} since 5 s",
            f"waiting for 4 processes at {address} since 10 s",
            f"error: fewer than 4 processes at {address} within 15 s",
        ]


def test_processes_that_expect_other_numbers_are_refused(address):
    for status, lines in ends(address, (2, 0), (3, 1)):
        assert status == 2
        assert re.fullmatch(
            r"error: process (\d) is one of \d, process (?!\1)\d one of \d", lines[-1]
        )


def test_a_port_in_use_is_one_line(address):
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))):
        line = f"error: coordinator: port {port}: Address already in use"
        assert ends(address, (2, 0)) == [(2, [line])]
