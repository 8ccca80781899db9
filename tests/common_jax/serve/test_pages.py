"""A page in a headless Chromium: typing, clicking, the keyboard, another model beside it."""

import pytest

from tests.browser import needs_chromium
from tests.chromium import Browser
from tests.common_jax.serve.toy_server import running


@pytest.fixture(scope="module")
def address():
    with running() as (port, _):
        yield f"http://127.0.0.1:{port}"


@needs_chromium
def test_a_page_answers_what_is_typed_and_clicked(address, tmp_path):
    with Browser(tmp_path / "profile", width=390) as browser:
        browser.open(f"{address}/")
        browser.click("a[href='/models/toy']")
        browser.wait_for("document.getElementById('form') !== null")
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
        message = browser.wait_for("document.querySelector('[role=alert]')?.innerText")
        assert message == "inputs[0]: a text of length 6; at most 5 is explained"
        root = "document.documentElement"
        assert browser.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
        refused = [one for one in browser.complaints if "422" not in str(one)]
        assert refused == []  # nothing is blocked by the policy, nothing fails
