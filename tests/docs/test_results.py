"""Every number in the tables of README.md, the manual and docs/results is in a raw file, and every
number in the results of README.md and in the summary of docs/results is that of a cell.

* A page that names its command, "Made by: ...", is made from the trials in the zip files,
  speed.json and examples.json of its folder; made again from these, it has the same tables.
* Any other table of numbers has a comment above it that names its raw files, relative to
  docs/results; each number but those of the first column is in one of them, rounded:

      <!-- raw: FILE FILE -->

* Texts with the cells of their numbers: tests/docs/cells.py.
"""

import json
import re
import zipfile

import pytest

from benchmarks import pages
from launch.pages import markdown
from launch.reproduce.kept_model import MODELS
from tests.docs.cells import SECTIONS, TEXTS, updated
from tests.docs.digests import LISTS, MADE, RESULTS, ROOT, STORED, unchanged, wrong_lines

# Two pages have sums and units that their raw files do not, docs/mistakes.md messages.
UNCHECKED = {"performance.md", "mistakes.md", "results/planned.md"}
MEASURED = sorted((RESULTS / "benchmarks").glob("*.md"))  # made again from their raw files
CARDS = {*RESULTS.rglob(f"{MODELS}/*/*.md")}
MANUAL = {*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / name for name in UNCHECKED} - CARDS
PAGES = sorted({ROOT / "README.md", *MANUAL} - {*MEASURED})
by_name = {"ids": lambda path: str(path.relative_to(ROOT))}
FROM_TRIALS = [path for path in PAGES if path in LISTS or MADE in path.read_text()]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
RAW_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
MARK = re.compile(r"<!-- raw: (.*?) -->")


@pytest.fixture(scope="module", autouse=True)
def root():
    """Configs are named from the root."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        yield


def marked_tables(text):
    """(comment, head, rows of cells) of each table of numbers; the comment may be empty."""
    cells = lambda line: [cell.strip() for cell in line.strip()[1:-1].split("|")]
    text = re.sub(r"(?:^\|[^\n]*\n)+(?=\n<!-- cells\n)", "", text, flags=re.MULTILINE)
    for table_match in re.finditer(r"(?:(<!--[^\n]*-->)\n\n)?((?:^\|.*\n)+)", text, re.MULTILINE):
        head, _, *rows = map(cells, table_match[2].splitlines())
        if any(re.match(r"[-+±]?\d[\d,.]*( \(.*\))?$", cell) for row in rows for cell in row[1:]):
            yield table_match[1] or "", head, rows


@pytest.mark.parametrize("path", [p for p in PAGES if p not in FROM_TRIALS], **by_name)
def test_each_number_is_that_of_raw_files(path):
    for comment, head, rows in marked_tables(path.read_text()):
        mark = MARK.match(comment)
        assert mark, f"no raw files named: {head}"
        texts = [(RESULTS / file).read_text() for file in mark[1].split()]
        raw = [abs(float(number)) for text in texts for number in RAW_NUMBER.findall(text)]
        for row in rows:
            for name, cell in zip(head[1:], row[1:], strict=True):
                for number in NUMBER.findall(cell):
                    half = 0.5 * 10.0 ** -len(number.partition(".")[2]) * (1 + 1e-9)
                    value = float(number.replace(",", ""))
                    assert any(abs(one - value) <= half for one in raw), (row[0], name, number)


@pytest.mark.parametrize("again", ["if changed", pytest.param("again", marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", FROM_TRIALS, **by_name)
def test_a_page_is_that_of_its_trials(path, again, tmp_path):
    if again == "if changed" and unchanged(path):
        pytest.skip("unchanged since it was made again; made at night")
    assert not wrong_lines(path, tmp_path)


@pytest.mark.slow
def test_the_digests_are_those_of_the_pages():
    stale = [name for name in json.loads(STORED.read_text()) if not unchanged(RESULTS / name)]
    assert stale == [], "run python -m tests.docs.digests"


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.stem)
def test_a_page_of_measurements_is_that_of_its_raw_file(path):
    report = pages.report(path.with_suffix(".json"))
    text, pictures = markdown.to_markdown(report, f"{path.stem}_charts")
    assert text == path.read_text("utf-8")
    assert pictures.keys() == {file.name for file in path.parent.glob(f"{path.stem}_charts/*")}


def test_archives_name_no_folder_of_the_machine():
    paths = [*RESULTS.rglob("*.zip")]
    assert paths
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            texts = [archive.read(name).decode() for name in ("config.json", "result.json")]
        assert not re.search(r"[=\s\"']/", "".join(texts)), path


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_numbers_of_a_text_are_those_of_their_cells(path):
    text = path.read_text()
    assert SECTIONS.search(text)
    assert SECTIONS.sub(lambda match: updated(match[0]), text) == text
