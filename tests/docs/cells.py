"""Numbers and verdicts in texts that are tied to cells of the tables in docs/results.

A comment after a paragraph, a list item or a table of README.md or docs/results/index.md has the
sources of all of its numbers, and of all words of verdicts, in their order, one a line:

    <!-- cells
    csan/table1/small
    2D-CSAN | sacrebleu
    2D-CSAN - Transformer-base | log_likelihood | low
    2D-CSAN - Transformer-base; 1D-CSAN - Transformer-base | log_likelihood | verdict
    -->

A line without "|" names the table and scale of the lines below it. ROW | METRIC is the mean in
table.csv; a third field is another column of it, such as `parameters` or `published`; for the
difference of a claim `low`, `high` or `within`; `last`, the mean over a row's trials of the last
number in their log; `range`, that of their scores; or `target`. A METRIC with a dot is a field of
the row's config. `setting` is any number in the setting of the table's page, and `raw | FILE` any
number in a file of docs/results. `verdict` is that of a claim, of several if they have the same:
"holds here", "does not hold here", either of these with ", provisional", "awaits new seeds", "open"
or "not judged". `statements | VERDICT` is the number of the papers' statements with that verdict,
or that verdict itself, `statements | all` the number of all. The metric of a difference may be one
beside that of the claim. Numbers in names ("Table 3", "2D", "F1") and in code need no cell.
`python -m tests.docs.cells` writes the numbers and verdicts of the cells into the texts.
"""

import functools
import json
import re
import statistics
import zipfile
from collections.abc import Iterator
from pathlib import Path

from common_jax.config import value_of
from launch.reproduce import __main__ as reproduce
from launch.reproduce.archive import path_of
from launch.reproduce.claim_tables import JUDGED
from launch.reproduce.claims import state_of
from launch.reproduce.spec import read_table, read_tables
from launch.reproduce.statements import CLAIMS_FILE, statements
from launch.reproduce.table_file import Scale, TableSpec
from launch.reproduce.trials import ROW, trials_of
from launch.trials.status import read_csv
from launch.trials.trials import Trial
from tests.docs.digests import RESULTS, ROOT

VERDICT = re.compile(
    r"\b(?:(?:do(?:es)?\s+not\s+hold|holds?)\s+here(?:,\s+provisional(?:ly)?)?"
    r"|awaits?\s+new\s+seeds|open|not\s+judged)\b"
)
SECTIONS = re.compile(
    r"^## (?:Results|What was found|Beside the papers|In detail)$.*?(?=^## |\Z)",
    re.MULTILINE | re.DOTALL,
)
COMMENT = re.compile(r"[ ]*<!-- cells\n(.*?)-->", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d(?:,?\d)*(?:\.\d+)?(?: million)?")
TEXTS = (ROOT / "README.md", RESULTS / "index.md")
NAME = re.compile(  # names with numbers, code, links' targets and comments
    r"`[^`]*`|\]\([^)]*\)|<!--.*?-->|<img[^>]*>|https?://\S+"
    r"|\b(?:Tables?|Figures?|section) \d+(?:(?:, \d+)* and \d+)?"
    r"|\b[A-Za-z][\w-]*\d\w*|\b\d+[A-Z]\w*"
    r"|\bprecision at 1\b|\b\d+(?::\d+)+\b|\b\d+ x \d+\b|\d+-(?=[a-z])",
    re.DOTALL,
)


def values(page: str, source: str) -> list[float]:
    """The value of a line of a comment; of `setting` all numbers of the setting."""
    if source == "setting":
        text = (RESULTS / page / "page.md").read_text()
        return _numbers(text.partition("## Setting")[2].partition("| ")[0])
    if source.startswith("statements |"):
        return [float(_statements(source.partition("|")[2].strip()))]
    if source.startswith("raw |"):
        return _numbers((RESULTS / source.partition("|")[2].strip()).read_text())
    return [_value(page, source)]


@functools.cache
def _statements(verdict: str) -> int:
    """The number of the papers' statements with a verdict; of all for "all"."""
    listed = statements(read_tables(reproduce.TABLES).values(), RESULTS)
    states = [s.state for s in listed if not s.claim.ours]
    return len(states) if verdict == "all" else states.count(verdict)


def _value(page: str, source: str) -> float:
    row, metric, *further = (field.strip() for field in source.split("|"))
    column = further[0] if further else ""
    if "." in metric:
        configs = {trial.values[ROW]: trial.config for trial in _trials(page)}
        return float(value_of(configs[row], metric))
    if " - " in row:
        return _difference(page, row, metric, column or "mean")
    if column == "published":
        return _scale(page)[1].row(row).published[metric]
    if column == "target":
        return _scale(page)[1].target.value
    if column in ("last", "range"):
        return _of_trials(page, row, metric, column)
    cell = _rows(page)[row, metric][column or "mean"]
    if not cell:
        raise LookupError(f"{page}: {source}: an empty cell")
    return float(cell)


def verdicts(page: str, source: str) -> set[str]:
    """The verdicts of a line of a comment."""
    if source.startswith("statements |"):
        return {source.partition("|")[2].strip()}
    rows, metric, column = (field.strip() for field in source.split("|"))
    if column != "verdict":
        raise LookupError("a number, not a verdict")
    claims = [_claim(page, pair.strip(), metric) for pair in rows.split(";")]
    return {state_of(claim["verdict"]) for claim in claims}


@functools.cache
def _rows(page: str) -> dict[tuple[str, str], dict[str, str]]:
    rows = read_csv(RESULTS / page / "table.csv")
    return {(row["row"], row["metric"]): row for row in rows}


@functools.cache
def _scale(page: str) -> tuple[TableSpec, Scale]:
    table, _, scale = page.rpartition("/")
    spec = read_table(reproduce.TABLES / f"{table}.toml")
    return spec, spec.scales[scale]


@functools.cache
def _trials(page: str) -> list[Trial]:
    return trials_of(*_scale(page), Path("data"), Path("out"))


def _of_trials(page: str, row: str, metric: str, column: str) -> float:
    """A number of the stored trials of a row."""
    split = _scale(page)[1].split
    values = []
    for trial in _trials(page):
        path = path_of(trial, RESULTS / page)
        if trial.values[ROW] == row and path.exists():
            with zipfile.ZipFile(path) as archive:
                log = archive.read("metrics.jsonl").decode().splitlines()
                scores = json.loads(archive.read("result.json"))["metrics"]
            lines = [
                line for line in map(json.loads, log) if metric in line and "split" not in line
            ]
            values.append(lines[-1][metric] if column == "last" else scores[split][metric])
    return statistics.fmean(values) if column == "last" else max(values) - min(values)


def _difference(page: str, rows: str, metric: str, column: str) -> float:
    """A number of the difference that the page gives with a claim."""
    scale = _scale(page)[1]
    if column == "within":
        return next(c.within for c in scale.claims if f"{c.row} - {c.than}" == rows and c.within)
    number = _claim(page, rows, metric)[column]
    if not number:
        raise LookupError(f"{page}: {rows} | {metric}: an empty cell")
    return float(number)


def _claim(page: str, rows: str, metric: str) -> dict[str, str]:
    """The line of claims.csv on two rows by a metric, that of a verdict if there is one."""
    claims = read_csv(RESULTS / page / CLAIMS_FILE)
    on_rows = (claim for claim in claims if f"{claim['row']} - {claim['than']}" == rows)
    found = [claim for claim in on_rows if claim["metric"] == metric]
    if not found:
        raise LookupError(f"{page}: no claim on {rows}, {metric}")
    return next((claim for claim in found if claim["use"] == JUDGED), found[0])


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d(?:,?\d)*(?:\.\d+)?", text)]


def blocks(text: str) -> Iterator[tuple[str, str | None]]:
    """The parts of a text: each paragraph, list item and table, with the lines of its comment or
    None, and the comments themselves."""
    start = 0
    for match in COMMENT.finditer(text):
        before = _split(text[start : match.start()])
        tied = max(number for number, block in enumerate(before) if block.strip())
        for number, block in enumerate(before):
            yield block, match[1] if number == tied else None
        yield match[0], ""
        start = match.end()
    yield from ((block, None) for block in _split(text[start:]))


def _split(text: str) -> list[str]:
    return re.split(r"(?<=\n\n)|(?<=\n)(?=- )", text)


def spans(block: str) -> list[tuple[int, int]]:
    """Where the numbers of a text are, with "million" if it follows, and its words of verdicts."""
    plain = NAME.sub(lambda match: re.sub(r"[\d.,]", "#", match[0]), block)
    found = [*NUMBER.finditer(plain), *VERDICT.finditer(plain)]
    return sorted(match.span() for match in found)


def sources(comment: str) -> list[tuple[str, str]]:
    """The page and the source of each number."""
    page, pairs = "", list[tuple[str, str]]()
    for line in map(str.strip, comment.strip().splitlines()):
        if "|" in line or line == "setting":
            pairs.append((page, line))
        else:
            page = line
    return pairs


def updated(text: str) -> str:
    """A text with the numbers and verdicts of its cells in the forms in which they are written."""
    parts = []
    for block, comment in blocks(text):
        ends = [] if COMMENT.fullmatch(block) else spans(block)
        pairs = sources(comment or "")
        assert len(ends) == len(pairs), f"{len(ends)} numbers, {len(pairs)} cells: {block[:70]}"
        for (start, end), pair in reversed([*zip(ends, pairs, strict=True)]):
            block = block[:start] + _right(block[start:end], *pair) + block[end:]
        parts.append(block)
    return "".join(parts)


def _right(words: str, page: str, source: str) -> str:
    """A number or a verdict, unchanged if its cell has it."""
    if VERDICT.fullmatch(words):
        verdict = verdicts(page, source)
        return words if verdict == {_singular(words)} else " and ".join(sorted(verdict))
    found = [written(value, words) for value in values(page, source)]
    return words if words in found else found[0]


def _singular(words: str) -> str:
    """A verdict as the page has it."""
    words = " ".join(words.split())
    words = words.replace("do not hold", "does not hold").replace("provisionally", "provisional")
    words = re.sub(r"^hold here", "holds here", words)
    return re.sub(r"^await new", "awaits new", words)


def written(value: float, like: str) -> str:
    """A value in the form of another number: its digits, its sign, commas, "million"."""
    digits, _, unit = like.partition(" ")
    value /= 1e6 if unit else 1
    places = len(digits.partition(".")[2])
    sign = "+" if digits[0] in "+-" else ""
    text = f"{value if sign else abs(value):{sign},.{places}f}"
    return f"{text} {unit}".strip()


if __name__ == "__main__":
    for path in TEXTS:
        path.write_text(SECTIONS.sub(lambda match: updated(match[0]), path.read_text()))
