"""A report as HTML and Markdown: its content, and its display in a browser."""

import re

import pytest

from common_jax.report import charts, html, markdown
from common_jax.report.document import Chart, Heatmap, Report, Section, Series, Table
from tests.browser import look, needs_chromium

LINES = Chart(
    "Gap <to> a|b",
    "n",
    "BLEU",
    [
        Series(
            "one & two", [1, 2, 3], [0.5, 0.25, -1.0], [0.1, None, 0.2], [[0.4, 0.6], [0.25], []]
        ),
        Series("three", [1, 3], [1.0, 2.0]),
    ],
    note="A note <b>.",
    zero=True,
)
BARS = Chart("F1", "type", "F1", [Series("a", ["what", "who"], [50.0, 60.0])], form="bars")
FALLING = Series("", range(500), [1 / (n + 1) for n in range(500)])
LONG = Chart("Loss", "step", "loss", [FALLING], "lines")
TABLE = Table(("run", "score", "p"), [["a|b <i>", 1234, 0.5], ["c", "-1.00", None]], "Said * so.")
MATRIX = Table(("gold", "yes", "no"), [["yes", 3, 1], ["no", 0, 0]], shaded=True)
WIDE = Table(["run", *(f"column {n}" for n in range(30))], [["x", *[1.5] * 30]])
WEIGHTS = [[0.0, 0.5, 1.0]] * 2
HEAT = Heatmap("heads & <keys>", "key", "query", ["a$", "b"], ["cat", "dog", "eel"], WEIGHTS)
PARTS = "Hello <you>.", LINES, BARS, HEAT, TABLE, LONG, MATRIX, WIDE
REPORT = Report("Two <runs>", [Section("All & more", PARTS)])


def test_markdown_has_the_tables_and_names_the_pictures(tmp_path):
    markdown.write(tmp_path / "report.md", REPORT)
    text = (tmp_path / "report.md").read_text()
    assert "# Two \\<runs\\>\n\n## All & more\n\nHello \\<you\\>.\n" in text
    assert "| run | score | p |\n| --- | --- | --- |\n| a\\|b \\<i\\> | 1,234 | 0.50 |" in text
    assert "| c | -1.00 | - |" in text
    pictures = re.findall(r"!\[.*\]\((.*)\)", text)
    assert len(pictures) == 4
    for name in pictures:
        assert (tmp_path / name).read_text().startswith("<svg ")


def test_markdown_takes_the_place_of_an_older_one(tmp_path):
    path = tmp_path / "my report.md"
    markdown.write(path, REPORT)
    markdown.write(path, Report("One", [Section("a", [BARS])]))
    assert "](my%20report_charts/chart0.svg)" in path.read_text()
    assert [p.name for p in (tmp_path / "my report_charts").iterdir()] == ["chart0.svg"]


def test_a_page_needs_no_other_file():
    text = html.to_html(REPORT)
    names = re.findall(r"(?:href|src|url)[=(]\\?[\"']?([^\"')> ]+)", text)
    assert {name for name in names if not name.startswith(("#", "data:"))} == set()
    assert "http-equiv" not in text and "<script" not in text and "@import" not in text
    assert text == html.to_html(REPORT)  # each time the same


def test_ids_in_pictures_are_unique():
    text = html.to_html(REPORT)
    clips = re.findall(r'<clipPath id="([^"]*)"', text)
    assert len(clips) == len({*clips}) > 2
    assert {*re.findall(r"url\(#([^)]*)\)", text)} <= {*clips}


def test_nothing_to_draw_is_a_mistake():
    for empty in ([], [Chart("a", "x", "y", [])], [Chart("a", "x", "y", [Series("", [], [])])]):
        with pytest.raises(ValueError, match="nothing to draw"):
            charts.draw(empty)


def test_any_name_can_be_rendered():
    names = ["a$\\foo$", "$", "_old", "x" * 300, "<&>", "ünï 🐈"]
    series = [Series(name, [1, 2], [1.0, 2.0]) for name in names]
    text = charts.svg([Chart("$t$", "_x", "y" * 200, series)], "names")
    for label in ("a$\\foo$", "_old", "&lt;&amp;&gt;", "ünï"):
        assert label in text
    assert "x" * 80 not in text
    charts.svg([Chart("t", "x", "y", [Series("", names, [1.0] * 6)], form="bars")], "places")


@needs_chromium
@pytest.mark.parametrize("width", [360, 1200])
def test_a_browser_shows_it_all(tmp_path, width):
    result = look(html.to_html(REPORT), tmp_path, width)
    assert result["console"] == []
    assert result["overflow"] == 0
    for text in ("Two <runs>", "Hello <you>.", "a|b <i>", "1,234", "Said * so.", "A note <b>."):
        assert text in result["text"]
    assert result["figures"][0]["label"] == "Gap <to> a|b: BLEU against n"
    assert len(result["figures"]) == 4
    for figure in result["figures"]:
        assert figure["width"] > 300 and figure["svg"] > 200
        assert figure["marks"] > 10
        assert figure["letter"] > 8  # pixels: it can be read
    assert {"one & two", "three", "BLEU"} <= {*result["figures"][0]["words"]}
    assert {"what", "who"} <= {*result["figures"][1]["words"]}
    assert {"a$", "b", "cat", "query"} <= {*result["figures"][2]["words"]}


@needs_chromium
def test_a_browser_would_say_what_is_wrong(tmp_path):
    broken = html.to_html(REPORT).replace("</main>", "<script>missing()</script></main>")
    assert "missing is not defined" in look(broken, tmp_path, 800)["console"][0]
