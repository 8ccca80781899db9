"""The server as a process: bad requests, load, and a stop under load."""

import concurrent.futures
import contextlib
import http.client
import json
import signal
import socket
import threading
import time

import pytest

from common_jax.errors import UserError
from launch.serve.server import HEADERS, listen
from tests.launch.serve.bad_requests import BAD, GOOD, PREDICT, SLOW, Bad
from tests.launch.serve.toy_server import ROOT, post, requested, running
from tests.nightly.browser import Browser, needs_chromium


@pytest.fixture(scope="module")
def port():
    with running() as (port, _):
        yield port


def exchange(port, data, half_close=False):
    """The status and the body of the answer to some bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        sender = threading.Thread(target=_send, args=(connection, data, half_close))
        sender.start()
        response = http.client.HTTPResponse(connection)
        response.begin()
        body = response.read()
        sender.join()
    return response.status, body


def _send(connection, data, half_close):
    with contextlib.suppress(OSError):  # an answer before the end of the request
        connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)


def check(port, bad):
    status, body = exchange(port, bad.data, half_close=bad.half_close)
    assert status == bad.status, body
    message = json.loads(body)["error"]["message"] if body.startswith(b"{") else body.decode()
    assert bad.words in message
    assert str(ROOT) not in message and "Traceback" not in message and "\n" not in message.strip()
    status, body = exchange(port, GOOD)
    assert (status, json.loads(body)["outputs"][0]["reversed"]) == (200, "two one")


@pytest.mark.parametrize("path", ["/", "/docs", "/static/page.js", "/nothing", PREDICT])
def test_every_response_has_the_security_headers(port, path):
    response, _ = requested(port, path)
    assert {*HEADERS} <= {(name.lower(), value) for name, value in response.getheaders()}
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize("name", [name for name in BAD if name not in SLOW])
def test_a_bad_request_is_refused_and_the_next_is_answered(port, name):
    check(port, BAD[name])


def test_a_client_that_still_sends_gets_the_complete_refusal(port):
    data = BAD["headers of 100 kilobytes"].data
    for _ in range(10):  # in most of them the server resets the connection
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            _send(connection, data[:70_000], half_close=False)
            _send(connection, data[70_000:], half_close=False)
            time.sleep(0.05)
            response = http.client.HTTPResponse(connection)
            response.begin()
            assert response.status == 400 and response.read()


def test_slow_requests_are_refused_and_the_next_are_answered(port):
    with concurrent.futures.ThreadPoolExecutor(len(SLOW)) as pool:
        for done in [pool.submit(check, port, BAD[name]) for name in SLOW]:
            done.result()


def test_a_client_that_closes_its_side_is_answered(port):
    check(port, Bad(BAD["an input NaN"].data, 422, "inputs[0]", half_close=True))
    status, body = exchange(port, GOOD, half_close=True)
    assert status == 200 and b"two one" in body


def test_clients_that_leave_do_no_harm(port):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(GOOD)
    while (status := post(port, ["a"])[0]) == 429:  # their inputs may wait
        pass
    assert status == 200


def test_a_full_queue_is_refused(port):
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        jobs = [pool.submit(post, port, list("abcd"), "slow") for _ in range(12)]
        answers = [job.result() for job in jobs]
    assert {status for status, _ in answers} == {200, 429}
    refused = [answer["error"]["message"] for status, answer in answers if status == 429]
    assert all("inputs wait, and at most 8 may; try again" in message for message in refused)
    assert post(port, ["a"], "slow")[0] == 200


@needs_chromium
def test_a_page_answers_what_is_typed_and_clicked(port, tmp_path):
    with Browser(tmp_path / "profile", width=390) as browser:
        browser.open(f"http://127.0.0.1:{port}/")
        browser.click("a[href='/models/toy']")
        # complete: the script, which answers a submission, has run
        loaded = "location.pathname === '/models/toy' && document.readyState === 'complete'"
        browser.wait_for(loaded)
        browser.type("#text-text", "one <b>two</b>")
        browser.click("button[type=submit]")
        browser.wait_for("document.querySelector('#results .answer') !== null")
        assert browser.text("#results .answer") == "<b>two</b> one"
        browser.click("[data-example='0']")  # focus goes there
        browser.wait_for("document.querySelector('#results .answer').innerText[0] === 't'")
        assert browser.text("#results .answer") == "three two one"
        browser.evaluate("document.getElementById('compare').value = 'slow'")
        browser.evaluate("document.getElementById('text-text').focus()")
        for _ in range(3):  # to the button, past the two choices
            browser.press("Tab")
        browser.press("Enter")
        browser.wait_for("document.querySelectorAll('#results section').length === 2")
        assert browser.text("#results section:last-child h2") == "slow"
        browser.type("#text-text", "a " * 6)
        browser.click("button[type=submit]")
        browser.wait_for("document.querySelectorAll('#results .faint').length === 2")
        assert browser.text("#results .faint") == "Too long for an explanation."
        root = "document.documentElement"
        assert browser.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
        assert browser.complaints == []  # nothing is blocked by the policy, nothing fails


def client(port, until_gone):
    """Requests on one connection until the server is gone: how many were answered, and how the
    last one ended."""
    answered = 0
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    while True:
        try:
            body = json.dumps({"inputs": ["one two"]})
            headers = {"content-type": "application/json"}
            connection.request("POST", "/v1/models/toy:predict", body, headers)
            response = connection.getresponse()
        except (ConnectionError, http.client.BadStatusLine) as error:
            if until_gone.is_set():
                return answered, type(error)
            raise
        answer = json.loads(response.read())  # complete
        assert (response.status, answer["outputs"][0]["reversed"]) == (200, "two one")
        answered += 1


def test_sigterm_under_load_answers_every_accepted_request():
    stopped = threading.Event()
    pool = concurrent.futures.ThreadPoolExecutor(24)
    with running(delay=0.2, queue=100, batch=4, timeout=20) as (port, process), pool:
        jobs = [pool.submit(client, port, stopped) for _ in range(24)]
        time.sleep(0.7)
        stopped.set()
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=20)
        seconds = time.monotonic() - begun
        answered = sum(job.result()[0] for job in jobs)
    assert process.returncode == 0 and seconds < 10
    assert errors == ""
    assert f'serve_requests_total{{model="toy",status="200"}} {answered}.0\n' in out
    assert "serve_requests_in_flight 0.0\n" in out
    assert out.count("serve_requests_total{") == 1


def test_what_takes_longer_than_a_stop_is_given_up():
    pool = concurrent.futures.ThreadPoolExecutor(13)
    with running(delay=1.0, queue=100, batch=1, timeout=20, stop=2) as (port, process), pool:
        jobs = [pool.submit(post, port, ["a"]) for _ in range(12)]
        body = pool.submit(exchange, port, BAD["a slow body"].data)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
        status, text = body.result()
        answers = [(status, json.loads(text)), *(job.result() for job in jobs)]
    refused = {"error": {"status": 503, "message": "the server is stopping"}}
    assert process.returncode == 0 and {status for status, _ in answers} == {200, 503}
    assert all(answer == refused for status, answer in answers if status == 503)
    assert f'{{model="toy",status="503"}} {answers.count((503, refused))}.0\n' in out


def test_an_address_that_cannot_be_listened_to_is_one_line():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"--port {port}: Address already in use"):
            listen("127.0.0.1", port)
