"""A report as HTML and Markdown: its content, and its display in a browser."""

import re

import pytest

from common_jax.document import (
    Chart,
    Forest,
    Heatmap,
    Interval,
    Outline,
    Panel,
    Report,
    Section,
    Series,
    Table,
)
from launch.pages import charts, html, markdown

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
WEIGHTS = [[0.0, 0.25, 1.0], [0.0, 0.25, 0.25]]
WINDOW = Outline("win<dow", [(0, 1), (1, 2)])
PANELS = [Panel("one & 1", WEIGHTS, [WINDOW]), None, Panel("two", WEIGHTS), Panel("", WEIGHTS)]
HEAT = Heatmap(
    "heads & <keys>", "key", "query", ["a$", "b"], ["cat", "dog", "eel"], PANELS, across=2
)
FOREST = Forest(
    "Ratios",
    "times",
    [
        Interval("a / b", 2.0, 1.0, 4.0, 3.0),
        *[Interval("c / d", 0.5, 0.25, 1.5, emphasised=False)] * 9,
    ],
    is_ratio=True,
)
PARTS = "Hello <you>.", LINES, BARS, HEAT, FOREST, TABLE, LONG, MATRIX, WIDE
REPORT = Report("Two <runs>", [Section("All & more", PARTS)])


def test_markdown_has_the_tables_and_names_the_pictures_also_in_the_place_of_an_older_one(tmp_path):
    path = tmp_path / "my report.md"
    markdown.write(path, REPORT)
    text = path.read_text()
    assert "# Two \\<runs\\>\n\n## All & more\n\nHello \\<you\\>.\n" in text
    assert "| run | score | p |\n| --- | --- | --- |\n| a\\|b \\<i\\> | 1,234 | 0.50 |" in text
    assert "| c | -1.00 | - |" in text
    pictures = re.findall(r"!\[.*\]\((.*)\)", text)
    assert len(pictures) == 5
    for name in pictures:
        assert (tmp_path / name.replace("%20", " ")).read_text().startswith("<svg ")
    markdown.write(path, Report("One", [Section("a", [BARS])]))
    assert "](my%20report_charts/chart0.svg)" in path.read_text()
    assert [p.name for p in (tmp_path / "my report_charts").iterdir()] == ["chart0.svg"]


def test_a_page_needs_no_other_file_and_groups_its_pictures():
    """A group of the four pictures of the report's parts, and one of that after its table."""
    text = html.to_html(REPORT)
    names = re.findall(r"(?:href|src|url)[=(]\\?[\"']?([^\"')> ]+)", text)
    assert {name for name in names if not name.startswith(("#", "data:"))} == set()
    assert "http-equiv" not in text and "<script" not in text and "@import" not in text
    assert text == html.to_html(REPORT)  # each time the same
    groups = re.findall(r'<div class="charts">(.*?)\n</div>', text, re.DOTALL)
    assert [group.count("<figure") for group in groups] == [4, 1]
    clips = re.findall(r'<clipPath id="([^"]*)"', text)
    assert len(clips) == len({*clips}) > 2
    assert {*re.findall(r"url\(#([^)]*)\)", text)} <= {*clips}


def test_numbers_are_right_aligned():
    rows = [("1D", "22.50 (21.66 to 23.33)", "+1.5"), ("2D-CSAN", "not run", "-")]
    text = html.to_html(Report("t", [Section("a", [Table(("x", "y", "z"), rows)])]))
    assert re.findall(r'<td class="(\w+)">', text) == ["text", "number", "number"] * 2


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


def test_a_forest_has_each_interval_and_the_number_to_compare_it_with():
    (axes,) = charts.draw(FOREST).axes
    intervals = [[tuple(end[:, 0]) for end in bar.get_segments()] for *_, (bar,) in axes.containers]
    assert intervals == [[(1.0, 4.0)], *[[(0.25, 1.5)]] * 9]
    points = {line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1}
    assert points == {1.0, 4.0, 2.0, 3.0, 0.25, 1.5, 0.5}  # ends, means, and what is marked
    assert [text.get_text() for text in axes.texts] == ["a / b", *["c / d"] * 9]


def test_a_heatmap_shades_cells_and_outlines_spans():
    """The corners of the cells and of the outline, in columns and rows of the first panel."""
    picture = charts.svg(HEAT, "heat")
    (frame, *_), number = re.findall(r' d="([^"]*)"', picture[picture.index("axes_1") :]), r"[\d.]+"
    points = lambda path: [
        tuple(map(float, p)) for p in re.findall(f"[ML] ({number}) ({number})", path)
    ]
    (x0, y1), (x1, _), (_, y0), *_ = points(frame)
    within = lambda path: [
        (round(3 * (x - x0) / (x1 - x0), 1), round(2 * (y - y0) / (y1 - y0), 1))
        for x, y in points(path)
    ]
    shaded = re.findall(r' d="([^"]*)"[^>]*fill: #0072b2(; fill-opacity: 0.5)?"', picture)
    (half, _), (full, _) = sorted(shaded[:2], key=lambda one: not one[1])
    corners = lambda x, y: {(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)}
    assert {*within(full)} == corners(2, 0)  # the largest; half its shade is for a quarter
    assert {*within(half)} == corners(1, 0) | corners(1, 1) | corners(2, 1)
    (outline,) = re.findall(r' d="([^"]*)"[^>]*stroke: #d55e00; stroke-width: 1.2', picture)[:1]
    border = [(2, 0), (2, 1), (3, 1), (3, 2), (1, 2), (1, 1), (0, 1), (0, 0), (2, 0)]
    assert within(outline) == border
    assert picture.count('id="axes_') == 3  # none for the empty place


def test_pictures_fit_a_light_and_a_dark_page():
    """No background, and black only as the colour of the page's text."""
    for picture in (charts.svg([LINES], "a"), charts.svg([BARS], "b"), charts.svg(HEAT, "c")):
        assert "#ffffff" not in picture and "#000000" not in picture
        assert "prefers-color-scheme: dark" in picture and "currentColor" in picture


@pytest.mark.parametrize("number", [2, 5, 9])
@pytest.mark.parametrize("names", [["a", "b"], ["Transformer-base", "2D-CSAN, local windows"]])
def test_a_legend_is_below_the_names_and_inside_the_picture(number, names):
    series = [Series(f"label {n}", names, [1.0, 2.0]) for n in range(number)]
    figure = charts.draw([Chart("t", "x", "y", series, form="bars")])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    legend = axes.get_legend().get_window_extent()
    assert legend.y0 >= 0 and legend.y1 <= axes.xaxis.get_tightbbox().y0
