"""A report as Markdown, its charts in a folder beside it."""

import re
from urllib.parse import quote

from common_jax.document import Chart, Picture, Report, Table, markdown_table, shown
from common_jax.io.atomic import replace_text
from common_jax.io.paths import AnyPath
from launch.pages import charts


def to_markdown(report: Report, folder: str) -> tuple[str, dict[str, str]]:
    """The report as Markdown, and its pictures: SVG by file name.

    Args:
      folder: of the pictures, relative to the text.
    """
    lines = [f"# {_escaped(report.title)}"]
    pictures = dict[str, str]()

    # Headings, pictures, tables with their notes, and text, in the report's order.
    for section in report.sections:
        lines.append(f"## {_escaped(section.title)}")
        for element in section.elements:
            if isinstance(element, Picture):
                name = f"chart{len(pictures)}.svg"
                pictures[name] = charts.svg(
                    [element] if isinstance(element, Chart) else element, name
                )
                lines.append(f"![{_escaped(element.title)}]({quote(folder)}/{name})")
                note = element.note
            elif isinstance(element, Table):
                rows = ([_escaped(shown(cell)) for cell in row] for row in element.rows)
                lines.append(markdown_table(map(_escaped, element.head), rows))
                note = element.note
            else:
                note = element
            if note:
                lines.append(_escaped(note))
    return "\n\n".join([*lines, ""]), pictures


def write(path: AnyPath, report: Report) -> None:
    """Writes FILE, and its pictures to <its name>_charts, replacing older ones."""
    folder = path.with_name(f"{path.stem}_charts")
    text, pictures = to_markdown(report, folder.name)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("chart*.svg"):
        old.unlink()
    for name, picture in pictures.items():
        replace_text(folder / name, picture)
    replace_text(path, text)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*<>\[\]])", r"\\\1", " ".join(text.split()))
