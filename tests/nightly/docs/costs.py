"""The table of docs/results/attention_cost.md, made from the raw file of `launch.bench attention`.

`python -m tests.nightly.docs.costs` writes it into the page.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "results" / "attention_cost.md"
RAW = ROOT / "docs" / "results" / "bench_attention_cpu.json"
COLUMNS = {
    "all tokens": "vanilla",
    "1D dense": "dense 1D",
    "1D banded": "banded 1D",
    "2D dense": "dense 2D",
    "2D banded": "banded 2D",
}
_TABLE = re.compile(rf"(?<=<!-- raw: {RAW.name} -->\n\n)(?:\|.*\n)*")


def table(rows: list[dict]) -> str:
    """A line for each length: milliseconds (MiB of temporary memory) of each form."""
    by_form = {(row["length"], row["form"]): row for row in rows}
    cells = [["tokens", *COLUMNS], ["---"] * (1 + len(COLUMNS))]
    for length in dict.fromkeys(row["length"] for row in rows):
        forms = [by_form[length, form] for form in COLUMNS.values()]
        cells.append([f"{length:,}", *map(_cell, forms)])
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def updated(page: str, rows: list[dict]) -> str:
    """The text of the page with the table of these rows."""
    return _TABLE.sub(lambda _: table(rows), page)


def _cell(row: dict) -> str:
    time, memory = row["milliseconds"], row["temporary_mib"]
    return f"{'-' if time is None else _number(time)} ({_number(memory)})"


def _number(value: float) -> str:
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(), json.loads(RAW.read_text())["rows"]))
