"""Pages that are made from trials, made again; and the digests of those that were found right.

Making the largest again takes minutes. Tests by day make them only if their files have changed
since the digest in digests.json was stored; tests at night make all pages.
`python -m tests.docs.digests` makes those that have changed and stores their digests.
"""

import difflib
import hashlib
import itertools
import json
import math
import shlex
import sys
import tempfile
from pathlib import Path

import numpy as np

from launch.pages import markdown
from launch.reproduce import __main__ as reproduce
from launch.reproduce.archive import path_of, unpack
from launch.reproduce.claim_tables import claims_csv
from launch.reproduce.claims import judged
from launch.reproduce.listing import stored_page
from launch.reproduce.measurements import ANSWERS, SPEED
from launch.reproduce.page import page
from launch.reproduce.results import read_results
from launch.reproduce.spec import read_table, read_tables
from launch.reproduce.statements import CLAIMS_FILE, statements_page
from launch.reproduce.trials import trials_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
STORED = Path(__file__).with_name("digests.json")
MADE = "Made by: "
LISTS = {RESULTS / "tables.md": stored_page, RESULTS / "claims.md": statements_page}


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
    files = [path.parent / name for name in (SPEED, ANSWERS)]
    speeds, answers = (json.loads(f.read_text()) if f.exists() else {} for f in files)
    results = read_results(spec, scale, trials, speeds, [])
    if scale.claims and spec.kind != "speed":
        values = results.matrix(scale.claims[0].metric)[1][0]
        assert scale.paired == (correlation(values) > 0.5)
    verdicts = judged(results)
    if verdicts:
        assert (path.parent / CLAIMS_FILE).read_text() == claims_csv(results, verdicts)
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


def digest(path):
    """The SHA-256 of what a page is made from, and of the page.

    A table's are its own file and all files of the page's folder; those of the list of tables are
    the tables' files and the names of the stored trials.
    """
    if path.name == "page.md":
        table = ROOT / "tables" / f"{path.parent.parent.relative_to(RESULTS)}.toml"
        files = [table, *sorted(path.parent.glob("*.*"))]
        names = []
    else:
        files = [path, *sorted((ROOT / "tables").rglob("*.toml"))]
        names = sorted(str(file.relative_to(RESULTS)) for file in RESULTS.rglob("*.zip"))
    total = hashlib.sha256("\n".join(names).encode())
    for file in files:
        total.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def unchanged(path):
    """Whether a page and its files are those that were found right when the page was last made."""
    return json.loads(STORED.read_text()).get(str(path.relative_to(RESULTS))) == digest(path)


def wrong_lines(path, out):
    """The lines of a page that differ from those that it has if it is made again."""
    if path not in LISTS:
        return unfounded(path, reproduce.TABLES, out)
    again = LISTS[path](read_tables(reproduce.TABLES).values(), RESULTS)
    return [*difflib.unified_diff(path.read_text().split("\n"), again.split("\n"), lineterm="")]


if __name__ == "__main__":
    found = json.loads(STORED.read_text())
    for name in found:
        file = RESULTS / name
        if unchanged(file):
            continue
        with tempfile.TemporaryDirectory() as folder:
            if wrong := wrong_lines(file, Path(folder)):
                sys.exit(f"{file} cannot be made again:\n" + "\n".join(wrong))
        found[name] = digest(file)
        STORED.write_text(json.dumps(found, indent=1) + "\n")
