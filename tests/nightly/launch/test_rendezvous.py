"""Processes of a run that wait for each other, over real sockets."""

import logging
import re
import socket
import threading
import time

import pytest

from common_jax.errors import UserError
from launch import rendezvous
from launch.rendezvous import meet

SECONDS = 20


@pytest.fixture
def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


class Process(threading.Thread):
    """A call of `meet` in a thread; `result` is its error, "" for none."""

    def __init__(self, address, count, number, seconds=SECONDS):
        super().__init__(daemon=True)
        self._arguments = (address, count, number, seconds, "; ADVICE")
        self.result = None
        self.start()

    def run(self):
        try:
            meet(*self._arguments)
            self.result = ""
        except UserError as error:
            self.result = str(error)

    def end(self):
        self.join(SECONDS)
        return self.result


def messages(caplog):
    return [re.sub(r"\d+ s", "N s", record.getMessage()) for record in caplog.records]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_all_return_once_all_are_there_and_the_port_is_free(address, order):
    processes = []
    for number in order:
        assert all(process.is_alive() for process in processes)
        processes.append(Process(address, 3, number))
        time.sleep(0.2)
    assert [process.end() for process in processes] == ["", "", ""]
    rendezvous._listen(address).close()


def test_who_is_awaited_is_logged_by_all_and_the_end_is_a_line(address, monkeypatch, caplog):
    monkeypatch.setattr(rendezvous, "LOG_SECONDS", 1)
    processes = [Process(address, 4, number, 2.6) for number in (0, 2)]
    ends = [process.end() for process in processes]
    waiting = "waiting for processes 1, 3 of 4 (numbered from 0) since N s; ADVICE"
    assert messages(caplog).count(waiting) == 4
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    line = r"no processes 1, (2, )?3 of 4 \(numbered from 0\) within 3 s; ADVICE"
    assert re.fullmatch(line, ends[0])
    assert re.fullmatch(f"(coordinator {address}: )?{line}", ends[1])


def test_a_missing_first_process_is_named_with_its_address(address, monkeypatch, caplog):
    monkeypatch.setattr(rendezvous, "LOG_SECONDS", 1)
    line = f"process 0 of 2 (numbered from 0) {{}} N s, {address}: Connection refused; ADVICE"
    end = Process(address, 2, 1, 2.6).end()
    assert re.sub(r"\d+ s", "N s", end) == "no " + line.format("within")
    assert messages(caplog) == ["waiting for " + line.format("since")] * 2


def test_a_process_that_ends_while_it_waits_is_awaited_again(address):
    first = Process(address, 3, 0)
    host, _, port = address.rpartition(":")
    time.sleep(0.2)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"conv-attention 1 3\n")
        assert connection.recv(100) == b"[2]\n"
    second = Process(address, 3, 2)
    time.sleep(1.5)
    assert first.is_alive() and second.is_alive()
    third = Process(address, 3, 1)
    assert [process.end() for process in (first, second, third)] == ["", "", ""]


def test_other_programs_at_the_port_are_ignored(address):
    first = Process(address, 2, 0)
    host, _, port = address.rpartition(":")
    time.sleep(0.2)
    for content in (b"", b"GET / HTTP/1.1\n", b"conv-attention 7 2\n", b"\xff" * 100):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(content)
    assert first.is_alive()
    assert [Process(address, 2, 1).end(), first.end()] == ["", ""]


@pytest.mark.parametrize(
    "count,number,line",
    [
        (3, 1, "two processes have the number 1"),
        (2, 2, "process 0 is one of 3, process 2 one of 2"),
    ],
)
def test_processes_that_contradict_are_refused(address, count, number, line):
    first, second = Process(address, 3, 0), Process(address, 3, 1)
    time.sleep(1)
    assert Process(address, count, number).end() == f"coordinator {address}: {line}"
    assert [Process(address, 3, 2).end(), first.end(), second.end()] == ["", "", ""]


def test_a_port_in_use_is_one_line(address):
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))):
        end = Process(address, 2, 0).end()
    assert re.fullmatch(rf"coordinator: port {port}: Address already in use", end)
