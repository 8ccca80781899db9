"""Every number in the tables of README.md, the manual and docs/results is in a raw file, and every
number in the results of README.md and in the summary of docs/results is that of a cell.

* A page that names its command, "Made by: ...", is made from the trials in the zip files,
  speed.json and examples.json of its folder; made again from these, it has the same tables.
* Any other table of numbers has a comment above it that names its raw files, relative to
  docs/results; each number but those of the first column is in one of them, rounded:

      <!-- raw: FILE FILE -->

* Texts with the cells of their numbers: tests/docs/cells.py.
"""

import itertools
import json
import math
import re
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pytest

from launch.pages import markdown
from launch.reproduce import __main__ as reproduce
from launch.reproduce.archive import path_of, unpack
from launch.reproduce.claim_tables import claims_csv
from launch.reproduce.claims import judged
from launch.reproduce.listing import stored_page
from launch.reproduce.page import page
from launch.reproduce.results import read_results
from launch.reproduce.spec import read_table, read_tables
from launch.reproduce.statements import CLAIMS_FILE, statements_page
from launch.reproduce.trials import trials_of
from tests.docs.cells import TEXTS, Tables, mistakes, updated

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
UNCHECKED = ("performance", "mistakes")
MADE = "Made by: "
# docs/performance.md has sums and units that its raw files do not, docs/mistakes.md messages
MANUAL = {*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / f"{n}.md" for n in UNCHECKED}
LISTS = {RESULTS / "tables.md": stored_page, RESULTS / "claims.md": statements_page}
PAGES = [ROOT / "README.md", *sorted(MANUAL), *sorted({*RESULTS.rglob("*.md")} - LISTS.keys())]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
RAW_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
MARK = re.compile(r"<!-- raw: (.*?) -->")


def table_lines(path):
    return [line for line in path.read_text().splitlines() if line.startswith("|")]


def unfounded(path, tables, out):
    """The lines of a page's tables that cannot be made from its raw files."""
    (made_by,) = (line for line in path.read_text().splitlines() if line.startswith(MADE))
    argv = shlex.split(made_by.partition("launch.reproduce ")[2])
    args = reproduce._parser().parse_args(argv)
    spec = read_table(tables / f"{args.table}.toml")
    scale = reproduce._scale(spec, args)
    trials = trials_of(spec, scale, out / "data", out)
    for trial in trials:
        if (stored := path_of(trial, path.parent)).exists():
            unpack(trial, stored)
    files = [path.parent / name for name in (reproduce.SPEED, reproduce.ANSWERS)]
    speeds, answers = (json.loads(f.read_text()) if f.exists() else {} for f in files)
    results = read_results(spec, scale, trials, speeds, [])
    if scale.claims and spec.kind != "speed":
        values = results.matrix(scale.claims[0].metric)[1][0]
        assert scale.paired == (correlation(values) > 0.5)
    verdicts = judged(results)
    if verdicts:
        assert (path.parent / CLAIMS_FILE).read_text() == claims_csv(verdicts)
    markdown.write(out / "again.md", page(results, verdicts, "again", answers.get("rows", {})))
    return [line for line in table_lines(path) if line not in table_lines(out / "again.md")]


def correlation(values):
    """Of the seeds, three or more, that two rows have in common: the sum of the pairs' covariances
    as a share of that of the products of their deviations; 0 without such rows."""
    sums = np.zeros(2)
    for pair in itertools.combinations(values, 2):
        common = np.stack(pair)[:, ~np.isnan(pair).any(0)]
        if common.shape[1] > 2:
            (first, covariance), (_, second) = np.cov(common)
            sums += covariance, math.sqrt(first * second)
    return sums[0] / sums[1] if sums[1] else 0.0


def marked_tables(text):
    """(comment, head, rows of cells) of each table of numbers; the comment may be empty."""
    cells = lambda line: [cell.strip() for cell in line.strip()[1:-1].split("|")]
    text = re.sub(r"(?:^\|[^\n]*\n)+(?=\n<!-- cells\n)", "", text, flags=re.MULTILINE)
    for table_match in re.finditer(r"(?:(<!--[^\n]*-->)\n\n)?((?:^\|.*\n)+)", text, re.MULTILINE):
        head, _, *rows = map(cells, table_match[2].splitlines())
        if any(re.match(r"[-+±]?\d[\d,.]*( \(.*\))?$", cell) for row in rows for cell in row[1:]):
            yield table_match[1] or "", head, rows


def unexplained(text, folder=RESULTS):
    """Numbers of a page that are in none of its raw files."""
    wrong = []
    for comment, head, rows in marked_tables(text):
        mark = MARK.match(comment)
        if mark is None:
            wrong.append(f"no raw files named: {head}")
            continue
        texts = [(folder / file).read_text() for file in mark[1].split()]
        raw = [abs(float(number)) for text in texts for number in RAW_NUMBER.findall(text)]
        for row in rows:
            for name, cell in zip(head[1:], row[1:], strict=True):
                for number in NUMBER.findall(cell):
                    half = 0.5 * 10.0 ** -len(number.partition(".")[2]) * (1 + 1e-9)
                    value = float(number.replace(",", ""))
                    if not any(abs(one - value) <= half for one in raw):
                        wrong.append(f"{row[0]}, {name}: {number}")
    return wrong


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_number_is_that_of_raw_files(path, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    if MADE in path.read_text():
        assert not unfounded(path, reproduce.TABLES, tmp_path)
    else:
        assert not unexplained(path.read_text())


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_a_list_of_all_tables_is_up_to_date(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert path.read_text() == LISTS[path](read_tables(reproduce.TABLES).values(), RESULTS)


def test_archives_name_no_folder_of_the_machine():
    paths = [*RESULTS.rglob("*.zip")]
    assert paths
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            texts = [archive.read(name).decode() for name in ("config.json", "result.json")]
        assert not re.search(r"[=\s\"']/", "".join(texts)), path


def test_a_changed_digit_is_found(tmp_path):
    (tmp_path / "a.json").write_text('{"f1": 64.5789, "em": [52.1, 1e-3], "parameters": 148122}')
    rows = "| dev | 64.58 (52.1) | 148,122 |\n| test | - | 0.001 |\n"
    table = "| | F1 | size |\n|---|---|---|\n" + rows
    marked = f"<!-- raw: a.json -->\n\n{table}"
    assert not unexplained(marked, tmp_path)
    for old, new in (("64.58", "64.59"), ("148,122", "148,123"), ("52.1)", "52.2)")):
        (wrong,) = unexplained(marked.replace(old, new), tmp_path)
        assert new.strip(")") in wrong
    assert unexplained(table, tmp_path) == ["no raw files named: ['', 'F1', 'size']"]
    assert not unexplained("| flag | |\n|---|---|\n| a | takes 8 steps |\n", tmp_path)


def checked(path):
    """The sections of a text whose numbers have cells."""
    section = r"^## (?:Results|What was found|Beside the papers|In detail)$.*?(?=^## |\Z)"
    return "".join(re.findall(section, path.read_text(), flags=re.MULTILINE | re.DOTALL))


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.chdir(ROOT)
    return Tables(RESULTS, reproduce.TABLES)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_numbers_of_a_text_are_those_of_their_cells(path, tables):
    text = checked(path)
    assert not mistakes(text, tables) and updated(text, tables) == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"(2D-CSAN \| BLEU \| .*\| )[\d.]+", r"\g<1>1.23", "1.23: .*sacrebleu is"),
        (r"^(CSAN: [\d,]+ steps)", r"\1 of 2,047 tokens", "6 numbers, 5 cells"),
        (r"^(CSAN: )[\d,]+ steps", r"\g<1>6,001 steps", "6,001: .*train.steps is"),
        (r"2D-CSAN \| train.steps", "2D-CSAN | train.step", "no such cell"),
        (r"(2D-CSAN \| sacrebleu\n)", "2D-CSAN | f2\n", "no such cell"),
    ],
)
def test_a_number_that_is_not_that_of_its_cell_is_found(old, new, message, tables):
    text = checked(TEXTS[1])
    changed = re.sub(old, new, text, count=1, flags=re.MULTILINE)
    assert changed != text
    assert any(re.search(message, mistake) for mistake in mistakes(changed, tables))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"(of 11\s+tokens are better than of 3 )does not hold here", r"\1holds here", "does not"),
        ("holds here, provisionally", "holds here", "here, provisional"),
        ("0.87\\): holds here, provisionally", "0.87): open", "open: .*'holds here, prov"),
        (r" does not hold here", "", "8 numbers, 9 cells"),
    ],
)
def test_a_verdict_that_is_not_that_of_its_claim_is_found(old, new, message, tables):
    text = checked(TEXTS[0])
    assert not mistakes(text, tables)
    changed = re.sub(old, new, text, count=1)
    assert changed != text
    assert any(re.search(message, mistake) for mistake in mistakes(changed, tables))


def test_two_rows_with_each_others_numbers_are_found(tables):
    text = checked(TEXTS[1])
    row = r"^\| AttentiveConvNet, (?:light|advanced) \| acc.* ([\d.]+) \|$"
    light, advanced = re.findall(row, text, re.MULTILINE)
    swapped = text.replace(light, "X").replace(advanced, light).replace("X", advanced)
    assert [m.split(":")[0] for m in mistakes(swapped, tables)] == [advanced, light]
