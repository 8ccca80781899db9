"""A report as one self-contained HTML file without scripts."""

import html
import re
import time
from collections.abc import Iterator, Sequence

from common_jax.document import Cell, Chart, Picture, Report, Section, Table, shown
from launch.pages import charts

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1a1a; --soft: #555; --line: #e4e4e4;
  --head: #8881; --fade: #0003; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15191e; --ink: #e6e6e6; --soft: #a9b4c0; --line: #39424d; --head: #8883;
    --fade: #fff4; }
}
body { margin: 0 auto; max-width: 68rem; padding: 1rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
/* A side at which a table goes on is shaded: the paper moves with it, the shades do not. */
.wide { overflow-x: auto; margin: .8rem 0; background:
  linear-gradient(to right, var(--paper) 40%, transparent) left / 2.5rem 100% no-repeat local,
  linear-gradient(to left, var(--paper) 40%, transparent) right / 2.5rem 100% no-repeat local,
  linear-gradient(to right, var(--fade), transparent) left / 1rem 100% no-repeat scroll,
  linear-gradient(to left, var(--fade), transparent) right / 1rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
.number { text-align: right; }
td.number { white-space: nowrap; }
.text { text-align: left; min-width: 8rem; overflow-wrap: anywhere; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { background: var(--head); }
.note, figcaption { color: var(--soft); font-size: .85rem; max-width: 44rem; }
.charts { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
figure { margin: 0; max-width: 34rem; break-inside: avoid; }
svg { display: block; width: 100%; height: auto; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .wide { overflow: visible; }
  table { font-size: 7.5pt; }
  tr, h2 { break-inside: avoid; break-after: auto; }
  h2 { break-after: avoid; }
}
"""

_NOTEBOOK = "conv-attention"
# `all: revert` takes back the rules of notebooks, which align and shade cells.
_NOTEBOOK_STYLE = """
.conv-attention { font-size: 14px; line-height: 1.45; overflow-wrap: anywhere; }
.conv-attention h2 { font-size: 1.1em; margin: .8em 0 .4em; }
.conv-attention p { margin: .4em 0; }
.conv-attention .wide { overflow-x: auto; margin: .4em 0; }
.conv-attention :is(table, thead, tbody, tr, th, td) { all: revert; color: inherit;
  background: none; }
.conv-attention table { border-collapse: collapse; font-size: .9em;
  font-variant-numeric: tabular-nums; }
.conv-attention :is(th, td) { padding: .25em .6em; vertical-align: top;
  border-bottom: 1px solid rgba(128, 128, 128, .35); }
.conv-attention .number { text-align: right; white-space: nowrap; }
.conv-attention .text { text-align: left; min-width: 6em; }
.conv-attention :is(.note, figcaption) { opacity: .75; font-size: .9em; max-width: 44em; }
.conv-attention .charts { display: grid; gap: 1em;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22em), 1fr)); }
.conv-attention figure { margin: 0; max-width: 34em; }
.conv-attention svg { display: block; width: 100%; height: auto; }
"""


def to_html(report: Report, every: float | None = None) -> str:
    """The report as HTML.

    Args:
      every: seconds between two reloads of the page; None for none.
    """
    title = html.escape(report.title)
    names = (f"chart{number}" for number in range(10**9))
    refresh = f'<meta http-equiv="refresh" content="{every:.0f}">' if every else ""
    changed = time.strftime("Last change: %Y-%m-%d %H:%M:%S") if every else ""

    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',  # else browsers request one
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>{refresh}</head>",
            f"<body><main><h1>{title}</h1>",
            *([f'<p class="note">{changed}</p>'] if every else []),
            *(section_html(section, names) for section in report.sections),
            "</main></body></html>",
            "",
        ]
    )


def to_fragment(sections: Sequence[Section]) -> str:
    """Sections as HTML for the output of a notebook, in the colours around it."""
    names = (f"notebook{number}" for number in range(10**9))
    shown = [section_html(section, names) for section in sections if section.elements]
    return "\n".join(
        [f'<div class="{_NOTEBOOK}"><style>{_NOTEBOOK_STYLE}</style>', *shown, "</div>"]
    )


def section_html(section: Section, names: Iterator[str]) -> str:
    """A section as HTML, which needs `STYLE`.

    Args:
      names: of its pictures, unique in a page.
    """
    lines = [f"<section><h2>{html.escape(section.title)}</h2>"]
    in_charts = False
    for element in section.elements:
        if isinstance(element, Picture) != in_charts:
            in_charts = not in_charts
            lines.append('<div class="charts">' if in_charts else "</div>")
        if isinstance(element, Picture):
            lines.append(_chart(element, next(names)))
        elif isinstance(element, Table):
            lines.append(_table(element))
        else:
            lines.append(f"<p>{html.escape(element)}</p>")
    return "\n".join([*lines, *(["</div>"] if in_charts else []), "</section>"])


def _chart(chart: Picture, name: str) -> str:
    label = html.escape(f"{chart.title}: {chart.y_label} against {chart.x_label}", quote=True)
    caption = f"<figcaption>{html.escape(chart.note)}</figcaption>" if chart.note else ""
    drawn = [chart] if isinstance(chart, Chart) else chart
    picture = charts.svg(drawn, name, inherits=True)
    return f'<figure role="img" aria-label="{label}">{picture}{caption}</figure>'


def _table(table: Table) -> str:
    classes = [*map(_kind, zip(*table.rows, strict=True))]
    head = "".join(
        f'<th scope="col" class="{css_class}">{html.escape(name)}</th>'
        for name, css_class in zip(table.head, classes, strict=True)
    )
    rows = [f"<tr>{''.join(_cells(row, classes, table.shaded))}</tr>" for row in table.rows]
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    body = "\n".join(rows)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
        f"</div>{note}"
    )


def _kind(column: Sequence[Cell]) -> str:
    """The CSS class of a column: "number", which is right-aligned, or "text"."""
    numbers = all(
        re.match(r"[-+]?\d[\d.,]*(\s|$)|-$|not (run|reached)$", shown(cell)) for cell in column
    )
    return "number" if numbers else "text"


def _cells(row: Sequence[Cell], classes: Sequence[str], shaded: bool) -> Iterator[str]:
    total = sum(cell for cell in row[1:] if isinstance(cell, int | float)) if shaded else 0
    for cell, css_class in zip(row, classes, strict=True):
        style = ""
        if total and isinstance(cell, int | float):
            style = f' style="background:rgba(0,114,178,{0.6 * cell / total:.3f})"'
        yield f'<td class="{css_class}"{style}>{html.escape(shown(cell))}</td>'
