"""A page in a headless Chromium: typing, clicking, the keyboard, another model beside it."""

import pytest

from tests.browser import Browser, needs_chromium
from tests.launch.serve.toy_server import running


@pytest.fixture(scope="module")
def address():
    with running() as (port, _):
        yield f"http://127.0.0.1:{port}"


@needs_chromium
def test_a_page_answers_what_is_typed_and_clicked(address, tmp_path):
    with Browser(tmp_path / "profile", width=390) as browser:
        browser.open(f"{address}/")
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
        message = browser.wait_for("document.querySelector('[role=alert]')?.innerText")
        assert message == "inputs[0]: a text of length 6; at most 5 is explained"
        root = "document.documentElement"
        assert browser.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
        refused = [one for one in browser.complaints if "422" not in str(one)]
        assert refused == []  # nothing is blocked by the policy, nothing fails


@needs_chromium
def test_a_page_asks_again_after_a_failed_request(address, tmp_path):
    with Browser(tmp_path / "profile") as browser:
        browser.open(f"{address}/models/toy")
        browser.evaluate("{ window.real = fetch; fetch = () => Promise.reject(Error('off')); 0 }")
        browser.type("#text-text", "one two")
        browser.click("button[type=submit]")
        browser.wait_for("document.getElementById('status').innerText.includes('not answer')")
        browser.evaluate("{ fetch = window.real; 0 }")
        browser.click("button[type=submit]")
        browser.wait_for("document.querySelector('#results .answer') !== null")
        assert browser.text("#results .answer") == "two one"


@needs_chromium
def test_each_kind_of_view_is_drawn(address, tmp_path):
    with Browser(tmp_path / "profile", dark=True) as browser:

        def count(selector):
            return browser.evaluate(f"document.querySelectorAll({selector!r}).length")

        browser.open(f"{address}/models/viewer")
        browser.click("[data-example='0']")
        browser.wait_for("document.querySelector('mark') !== null")
        assert browser.text("mark") == "zwei"  # offsets are of characters, of which 😀 is one
        assert browser.text("td") == "one" and count("polyline") == 2
        assert count(".heads button") == 2 and count("polygon.window") == 3
        label = "document.querySelector('.heads button').getAttribute('aria-label')"
        assert browser.evaluate(label) == "Layer 1, head 1"
        browser.click(".heads button:last-child")
        assert browser.text("figcaption").startswith("Layer 1, head 2")
        browser.evaluate(
            "(() => { const one = document.querySelector('#results select'); one.value = 1;"
            "one.dispatchEvent(new Event('change')); })()"
        )
        assert browser.text("figcaption").startswith("Layer 2, head 1")
        browser.click(".words button")
        assert browser.evaluate("document.querySelectorAll('.words span')[1].title") == "0.8000"
        assert count(".words button[aria-pressed='true']") == 1
        browser.open(f"{address}/models/ranker")
        browser.type("#text-question", "who?")
        browser.type("#text-sentence", "one two three\n\none\none two")
        browser.click("button[type=submit]")
        browser.wait_for("document.querySelectorAll('ol li').length === 3")
        sentences = "[...document.querySelectorAll('ol li')].map((one) => one.firstChild.data)"
        assert browser.evaluate(sentences) == ["one", "one two", "one two three"]
        assert browser.complaints == []
