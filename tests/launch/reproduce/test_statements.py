"""Archives of trials, and the list of the papers' statements from the claims beside the pages."""

import dataclasses
import lzma
import re

import pytest

from common_jax.errors import UserError
from launch.reproduce.archive import read_archive, write_archive
from launch.reproduce.claim_tables import CSV_HEAD
from launch.reproduce.spec import read_table
from launch.reproduce.statements import statements, statements_page
from launch.trials.status import csv_text

TABLE = """\
title = "t"
source = "Yang et al. 2019, Table 1"
kind = "table"
split = "test"
metrics = ["accuracy"]
listed = "small"
[scales.paper]
[scales.large]
[scales.small]
[[rows]]
name = "a"
config = "c.py"
published = { accuracy = 81.0 }
[[rows]]
name = "b"
config = "c.py"
published = { accuracy = 80.0 }
[[rows]]
name = "c"
config = "c.py"
[[claims]]
text = "A is better"
row = "a"
than = "b"
[[claims]]
text = "C is better"
row = "c"
than = "b"
[[claims]]
text = "C is larger"
row = "c"
than = "a"
ours = true
[[claims]]
text = "Again"
row = "a"
than = "c"
repeats = "csan/other"
[[claims]]
text = "Nowhere"
row = "b"
than = "a"
scales = ["paper"]
"""


def line(text, verdict, here=""):
    values = {"claim": text, "use": "judged", "metric": "accuracy", "verdict": verdict}
    rows = {"A": ("a", "b"), "C": ("c", "b"), "L": ("c", "a")}[text[0]]
    low = 1.0 if " to " in here else None
    values |= {"row": rows[0], "than": rows[1], "here": here, "low": low}
    return dict.fromkeys(CSV_HEAD) | values | {"claim": text.replace("L", "C is larger")}


def written(folder):
    (folder / "tables" / "paper").mkdir(parents=True)
    path = folder / "tables" / "paper" / "toy.toml"
    path.write_text(TABLE)
    provisional = "holds here, provisional: 2 of 3 planned seeds of a"
    pages = {
        "small": [
            line("A is better", provisional, "+3.00 points (+2.00 to +4.00)"),
            line("C is better", "open: not run: c"),
            line("L", "open: one seed", "+5.00 points (one seed)"),
        ],
        "large": [
            line("A is better", "does not hold here", "-1.00 points (-2.00 to -0.10)"),
            line("C is better", "open: too few seeds", "+1.00 points (-1.00 to +3.00)"),
            line("L", "holds here", "+2.00 points (+1.00 to +3.00)"),
        ],
    }
    for scale, lines in pages.items():
        stored = folder / "stored" / "paper" / "toy" / scale
        stored.mkdir(parents=True)
        (stored / "claims.csv").write_text(csv_text(CSV_HEAD, lines))
    spec = dataclasses.replace(read_table(path), units={"accuracy": "points"})
    return [spec], folder / "stored"


def test_a_statement_is_listed_once_at_the_scale_of_the_file(tmp_path):
    better, missing, ours, nowhere = statements(*written(tmp_path))
    assert (better.scale, better.here) == ("small", "+3.00 points (+2.00 to +4.00)")
    assert better.published == "+1.00 points" and better.others == {"large": "does not hold here"}
    assert better.state == "holds here, provisional" and better.is_decided
    assert (missing.state, missing.reason) == ("open", "not run") and not missing.is_decided
    assert missing.others == {} and ours.others == {"large": "holds here"}
    assert ours.claim.ours and ours.here == "+5.00 points (one seed)"
    assert (nowhere.scale, nowhere.reason) == ("", "not run")
    assert nowhere.published == "-1.00 points"


def test_the_page_has_the_decided_statements_first_and_the_open_ones_by_reason(tmp_path):
    text = statements_page(*written(tmp_path))
    assert "The 3 comparable statements" in text
    counts = text.partition("## Decided")[0]
    assert "- open: 2\n- holds here, provisional: 1\n" in counts
    assert "A is better" in text.split("## Decided")[1].split("## Open")[0]
    assert "; at large: does not hold here" in text
    assert "<summary>open: not run (2)</summary>" in text
    ours = text.split("## Questions of this suite")[1]
    assert "C is larger" in ours and text.count("C is larger") == 1 and "Again" not in text


TEXTS = {"config.json": "{}", "result.json": "{}", "eval/test.predictions.txt": "a\n"}


def test_references_of_several_trials_are_stored_once(tmp_path):
    common = {"eval/test.references": "ein Hund\n" * 2, "eval/test.sources": "a dog\n" * 2}
    others = {"eval/test.references": "犬\n" * 2, "eval/test.sources": "a cat\n" * 2}
    contents = [TEXTS | common, TEXTS | common, TEXTS | others, TEXTS]
    for number, files in enumerate(contents):
        write_archive(tmp_path / f"{number}.zip", files)
    shared = tmp_path / "test.references.xz"
    assert lzma.decompress(shared.read_bytes()).decode() == common["eval/test.references"]
    for number, files in enumerate(contents):
        assert read_archive(tmp_path / f"{number}.zip") == files

    path = tmp_path / "0.zip"
    for damage in (lambda: shared.write_bytes(b"no"), shared.unlink):
        damage()
        with pytest.raises(UserError, match=rf"^{re.escape(str(path))}: not an archived trial \("):
            read_archive(path)
