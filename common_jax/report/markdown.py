"""A report as Markdown, its charts in a folder beside it."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from common_jax.report import charts
from common_jax.report.document import Chart, Report, Table, shown


def to_markdown(report: Report, folder: str) -> tuple[str, dict[str, str]]:
    """The text, and the pictures that it shows: their contents by name.

    Args:
      folder: where the pictures will lie, seen from the text.
    """
    lines, pictures = [f"# {_escaped(report.title)}"], dict[str, str]()
    for section in report.sections:
        lines.append(f"## {_escaped(section.title)}")
        for part in section.parts:
            if isinstance(part, Chart):
                name = f"chart{len(pictures)}.svg"
                pictures[name] = charts.svg([part], name)
                lines.append(f"![{_escaped(part.title)}]({folder}/{name})")
                note = part.note
            elif isinstance(part, Table):
                lines.append(table([part.head, *([shown(c) for c in row] for row in part.rows)]))
                note = part.note
            else:
                note = part
            if note:
                lines.append(_escaped(note))
    return "\n\n".join([*lines, ""]), pictures


def table(rows: Iterable[Sequence[object]]) -> str:
    """Rows of cells as a table, the first its head."""
    cells = [list(row) for row in rows]
    cells.insert(1, ["---"] * len(cells[0]))
    escaped = ([_escaped(str(cell)) for cell in row] for row in cells)
    return "\n".join("| " + " | ".join(row) + " |" for row in escaped)


def write(path: Path, report: Report) -> None:
    """Writes both: FILE and FILE's pictures in <its name>_charts."""
    folder = path.with_name(f"{path.stem}_charts")
    text, pictures = to_markdown(report, folder.name)
    if pictures:
        folder.mkdir(exist_ok=True)
    for name, picture in pictures.items():
        (folder / name).write_text(picture, encoding="utf-8")
    path.write_text(text, encoding="utf-8")


def _escaped(text: str) -> str:
    return re.sub(r"([|<>*])", r"\\\1", " ".join(text.split()))
