"""Every number in the tables of README.md, the manual and docs/results is in a raw file, and every
number in the results of README.md and in the summary of docs/results is that of a cell.

* A page that names its command, "Made by: ...", is made from the trials in the zip files,
  speed.json and examples.json of its folder; made again from these, it has the same tables.
* Any other table of numbers has a comment above it that names its raw files, relative to
  docs/results; each number but those of the first column is in one of them, rounded:

      <!-- raw: FILE FILE -->

* Texts with the cells of their numbers: tests/docs/cells.py.
"""

import re
import zipfile

import pytest

from benchmarks import pages
from launch.pages import markdown
from tests.docs.cells import TEXTS, mistakes, updated
from tests.docs.digests import LISTS, MADE, RESULTS, ROOT, unchanged, wrong_lines

# Two pages have sums and units that their raw files do not, docs/mistakes.md messages.
UNCHECKED = {"performance.md", "mistakes.md", "results/planned.md"}
MEASURED = sorted((RESULTS / "benchmarks").glob("*.md"))  # made again from their raw files
MANUAL = {*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / name for name in UNCHECKED}
PAGES = [ROOT / "README.md", *sorted(MANUAL - LISTS.keys() - {*MEASURED})]
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


def unexplained(text):
    """Numbers of a page that are in none of its raw files."""
    wrong = []
    for comment, head, rows in marked_tables(text):
        mark = MARK.match(comment)
        if mark is None:
            wrong.append(f"no raw files named: {head}")
            continue
        texts = [(RESULTS / file).read_text() for file in mark[1].split()]
        raw = [abs(float(number)) for text in texts for number in RAW_NUMBER.findall(text)]
        for row in rows:
            for name, cell in zip(head[1:], row[1:], strict=True):
                for number in NUMBER.findall(cell):
                    half = 0.5 * 10.0 ** -len(number.partition(".")[2]) * (1 + 1e-9)
                    value = float(number.replace(",", ""))
                    if not any(abs(one - value) <= half for one in raw):
                        wrong.append(f"{row[0]}, {name}: {number}")
    return wrong


@pytest.mark.parametrize("path", [*PAGES, *LISTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_each_number_is_that_of_raw_files(path, tmp_path):
    if path not in LISTS and MADE not in path.read_text():
        assert not unexplained(path.read_text())
    elif unchanged(path):
        pytest.skip("unchanged since it was made again; made at night")
    else:
        assert not wrong_lines(path, tmp_path)


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
    """Of the sections whose numbers have cells."""
    section = r"^## (?:Results|What was found|Beside the papers|In detail)$.*?(?=^## |\Z)"
    text = "".join(re.findall(section, path.read_text(), flags=re.MULTILINE | re.DOTALL))
    assert not mistakes(text) and updated(text) == text
