"""Pages in a headless Chromium: those of a server, and those of reports."""

import pytest

from launch.pages import html
from tests.launch import commands
from tests.launch.pages.test_documents import REPORT
from tests.launch.serve.toy_server import running
from tests.launch.test_csan import copy_of_seed_1
from tests.nightly.browser import CHROMIUM, Browser, look

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="waits for a Chromium on the path")


@pytest.fixture(scope="module")
def address():
    with running() as (port, _):
        yield f"http://127.0.0.1:{port}"


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


@pytest.mark.parametrize("dark", [False, True])
def test_text_contrasts_with_the_page(tmp_path, dark):
    (tmp_path / "page.html").write_text(html.to_html(REPORT), "utf-8")
    rgb = """(selector, name) => getComputedStyle(document.querySelector(selector))[name]
        .match(/[0-9]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3"""
    with Browser(tmp_path / "profile", dark=dark) as browser:
        browser.open((tmp_path / "page.html").as_uri())
        paper = browser.evaluate(f"({rgb})('body', 'backgroundColor')")
        assert paper < 40 if dark else paper > 240
        for selector, name in (("p", "color"), ("svg text", "fill"), ("th", "color")):
            assert abs(browser.evaluate(f"({rgb})('{selector}', '{name}')") - paper) > 180


@pytest.mark.parametrize("width", [360, 1200])
def test_a_browser_shows_it_all(tmp_path, width):
    result = look(html.to_html(REPORT), tmp_path, width)
    assert result["console"] == []
    assert result["overflow"] == 0
    for text in ("Two <runs>", "Hello <you>.", "a|b <i>", "1,234", "Said * so.", "A note <b>."):
        assert text in result["text"]
    assert result["figures"][0]["label"] == "Gap <to> a|b: BLEU against n"
    assert len(result["figures"]) == 5
    for figure in result["figures"]:
        assert figure["width"] > 300 and figure["svg"] > 200
        assert figure["marks"] > 10
        assert figure["letter"] > 8  # pixels: it can be read
    assert {"one & two", "three", "BLEU"} <= {*result["figures"][0]["words"]}
    assert {"what", "who"} <= {*result["figures"][1]["words"]}
    words = {*result["figures"][2]["words"]}
    assert {"a$", "b", "cat", "query", "one & 1", "win<dow"} <= words
    assert {"a / b", "c / d", "the paper"} <= {*result["figures"][3]["words"]}


def test_a_report_of_two_translators_in_a_browser(tiny, tmp_path):
    folder = tiny("csan", tmp_path / "runs")
    copy_of_seed_1(folder / "run", folder / "other")
    page = commands.reported(folder, "run", "other")
    for width in (390, 1200):
        seen = look(page, tmp_path, width)
        assert seen["console"] == [] and seen["overflow"] == 0
        assert len(seen["figures"]) == 8 and all(f["marks"] > 10 for f in seen["figures"])
    assert "mean of 2: run, other" in seen["text"]
