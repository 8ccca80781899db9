"""The pages of measurements, made from their raw files: what they show, a chart, all numbers.

`python -m benchmarks.pages` writes those of docs/results/benchmarks again.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.document import Chart, Element, Report, Section, Series, Table
from launch.pages import markdown
from launch.text_table import Row

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "benchmarks"
SUITE = "suite"  # name of this suite's side
ABOUT = (
    'The suite is this project. Medians over rounds; "times as fast" is the median of the ratios '
    "within a round."
)
EQUAL = ' "Equal" is the share of answers that are the suite\'s.'
SPEED = "suite, times as fast"  # the column of ratios
EQUAL_COLUMN = "equal, %"
SERVED = ("batches", "--max_batch 1")  # the server with and without batches


def report(path: Path) -> Report:
    """The page of a raw file."""
    results = json.loads(path.read_text("utf-8"))
    return (server if "rows" in results else comparison)(path.name, results)


def measured_parts(results: Mapping[str, Any]) -> dict[str, Any]:
    """The measures of a comparison's raw file, by name."""
    return {name: found for name, found in results.items() if name != "page"}


def comparison(file: str, results: Mapping[str, Any]) -> Report:
    """The page of a comparison of this suite with other toolkits (`benchmarks.side_by_side`)."""
    parts = measured_parts(results)
    rows = {m: summary(p["rounds"], p.get("unit", "example")) for m, p in parts.items()}
    speeds = {m: {row["side"]: row[SPEED] for row in part} for m, part in rows.items()}
    others = [
        side for side in dict.fromkeys(s for m in speeds.values() for s in m) if side != SUITE
    ]

    # A sentence for each measure, and charts of those without a "caution", why one is not reliable.
    shown: list[Element] = []
    for measure, ratios in speeds.items():
        beside = [f"{ratios[side]:.2f} times {side}" for side in others if side in ratios]
        caution = parts[measure].get("caution")
        end = f" ({caution})." if caution else "."
        shown.append(f"{_title(measure)}: the suite's speed is {'; '.join(beside)}{end}")
    charted = [measure for measure in speeds if "caution" not in parts[measure]]
    shown += _charts({measure: speeds[measure] for measure in charted}, others)
    equal = EQUAL if any(EQUAL_COLUMN in row for part in rows.values() for row in part) else ""
    shown.append(f"{ABOUT}{equal} {file} has all rounds.")

    # All numbers, and what differs between the sides.
    page = results["page"]
    sections = [
        Section("What it shows", shown),
        *(Section(_title(measure), [_table(part)]) for measure, part in rows.items()),
        Section("Differences between the sides", page["differences"]),
    ]
    return Report(page["title"], sections)


def _charts(speeds: Mapping[str, Mapping[str, float]], others: Sequence[str]) -> list[Chart]:
    """Bars of the speeds: a chart for each measure of several, or of all beside a single side."""
    label = "times as fast (1: equal)"
    if len(others) == 1:
        heights = [ratios[others[0]] for ratios in speeds.values()]
        bars = Series("", [*speeds], heights)
        return [Chart(f"The suite's speed beside {others[0]}", "", label, [bars], form="bars")]
    charts = []
    for measure, ratios in speeds.items():
        sides = [side for side in others if side in ratios]
        bars = Series("", sides, [ratios[side] for side in sides])
        if len(sides) > 1:
            charts.append(Chart(_title(measure), "", label, [bars], form="bars"))
    return charts


def _title(measure: str) -> str:
    return measure[0].upper() + measure[1:]


def summary(rows: Sequence[Row], unit: str = "example") -> list[Row]:
    """A row for each side: examples or tokens a second, the suite's speed relative to it, memory.

    Ratios are medians over the rounds' ratios.
    """
    # Examples a second of each side, in the order of rounds.
    rates: dict[str, list[float]] = {}
    for row in rows:
        rates.setdefault(row["side"], []).append(row["units"] / sum(row["seconds"]))
    result = []
    for side in sorted(rates, key=lambda side: (side != SUITE, side)):
        values = rates[side]
        ratios = [suite / rate for suite, rate in zip(rates[SUITE], values, strict=True)]
        of_side = [row for row in rows if row["side"] == side]

        # Its row; sides without answers have no share of equal ones.
        def median(name: str, of_side: Sequence[Row] = of_side) -> float:
            return statistics.median(row[name] for row in of_side)

        answered = "equal_answers" in of_side[0]
        equal = {EQUAL_COLUMN: 100 * median("equal_answers")} if answered else {}
        result.append(
            {
                "side": side,
                f"{unit}s a second": statistics.median(values),
                "least": min(values),
                "largest": max(values),
                SPEED: statistics.median(ratios),
                "peak MiB": median("peak_mib"),
                "first pass s": median("first_pass_seconds"),
                "parameters": int(median("parameters")),
                **equal,
            }
        )
    return result


def server(file: str, results: Mapping[str, Any]) -> Report:
    """The page of the throughput and latency of a server (`benchmarks.serve`)."""
    # Throughput by clients, a line for each side.
    rows = served(results["rows"])
    lines = []
    for side in dict.fromkeys(row["side"] for row in rows):
        of_side = [row for row in rows if row["side"] == side]
        rates = [row["requests_per_second"] for row in of_side]
        lines.append(Series(side, [row["clients"] for row in of_side], rates))
    shown: list[Element] = [
        _gain(rows),
        Chart("Throughput", "clients", "requests a second", lines),
        f"Medians over rounds; {file} has all of them.",
    ]

    # All numbers; memory may not have been measured.
    tables = [Section("Requests", [_table(rows)])]
    if results["memory"]:
        tables.append(Section("Memory", [_table(results["memory"])]))
    return Report(results["title"], [Section("What it shows", shown), *tables])


def _gain(rows: Sequence[Row]) -> str:
    """What batches bring, with the largest number of clients."""
    most = max(row["clients"] for row in rows)
    by_side = {row["side"]: row for row in rows if row["clients"] == most}
    batches, single = (by_side[side] for side in SERVED)
    gain = batches["requests_per_second"] / single["requests_per_second"]
    return (
        f"With {most} clients, batches answer {gain:.2f} times as many requests a second as inputs "
        f"one at a time, half of them within {batches['p50_ms']:.0f} ms instead of "
        f"{single['p50_ms']:.0f} ms."
    )


def served(rows: Sequence[Row]) -> list[Row]:
    """The medians over rounds, a row for each number of clients and side."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["clients"]):
        groups.setdefault((row["clients"], row["side"]), []).append(row)
    names = ("requests_per_second", "p50_ms", "p95_ms", "p99_ms")
    return [
        {"clients": clients, "side": side}
        | {name: statistics.median(row[name] for row in group) for name in names}
        for (clients, side), group in groups.items()
    ]


def _table(rows: Sequence[Row]) -> Table:
    head = [*dict.fromkeys(name for row in rows for name in row)]
    names = [name.replace("_", " ") for name in head]
    return Table(names, [[row.get(name) for name in head] for row in rows])


if __name__ == "__main__":
    for path in sorted(RESULTS.glob("*.json")):
        markdown.write(path.with_suffix(".md"), report(path))
