"""Pages that are made from trials are made again, and the checks of pages find what is wrong."""

import json
import re

import pytest

from tests.docs.cells import TEXTS, mistakes
from tests.docs.digests import LISTS, MADE, RESULTS, ROOT, STORED, unchanged, wrong_lines
from tests.docs.manual import commands
from tests.docs.test_docs import error, wrong_names
from tests.docs.test_results import PAGES, checked, unexplained

PAGES = [*LISTS, *(path for path in PAGES if MADE in path.read_text())]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_is_made_again(path, tmp_path):
    assert not wrong_lines(path, tmp_path)


def test_the_digests_are_those_of_the_pages():
    stale = [name for name in json.loads(STORED.read_text()) if not unchanged(RESULTS / name)]
    assert stale == [], "run python -m tests.docs.digests"


README, INDEX = TEXTS


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


@pytest.mark.parametrize(
    ("path", "old", "new", "message"),
    [
        (INDEX, r"(2D-CSAN \| BLEU \| .*\| )[\d.]+", r"\g<1>1.23", "1.23: .*sacrebleu is"),
        (INDEX, r"^(CSAN: [\d,]+ steps)", r"\1 of 2,047 tokens", "6 numbers, 5 cells"),
        (INDEX, r"^(CSAN: )[\d,]+ steps", r"\g<1>6,001 steps", "6,001: .*train.steps is"),
        (INDEX, r"2D-CSAN \| train.steps", "2D-CSAN | train.step", "no such cell"),
        (INDEX, r"(2D-CSAN \| sacrebleu\n)", "2D-CSAN | f2\n", "no such cell"),
        (README, r"(11\s+tokens are better than of 3 )does not hold", r"\1holds", "does not"),
        (README, "holds here, provisionally", "holds here", "here, provisional"),
        (README, "0.87\\): holds here, provisionally", "0.87): open", "open: .*'holds here, prov"),
        (README, r" does not hold here", "", "8 numbers, 9 cells"),
    ],
)
def test_a_number_or_verdict_that_is_not_that_of_its_cell_is_found(path, old, new, message, tables):
    text = checked(path)
    changed = re.sub(old, new, text, count=1, flags=re.MULTILINE)
    assert changed != text
    assert any(re.search(message, mistake) for mistake in mistakes(changed, tables))


QUICKSTART = "python -m launch.train --config configs/csan/quickstart.py"


@pytest.mark.parametrize(
    "line,message",
    [
        (QUICKSTART.replace("train", "trian"), "no command launch.trian"),
        (QUICKSTART.replace("quickstart", "quick"), "no such file"),
        (f"{QUICKSTART}:csan_3d", "csan_3d"),
        (f"{QUICKSTART} --steps 3", "--steps"),
        (f"uv run {QUICKSTART} \\\n  --config.model.token_widnow=3 | tee log", "token_widnow"),
        (f"- exec {QUICKSTART}\n    --config.data.nothing=1", "data.nothing"),
        ("echo A. | python -m launch.predict --workdir runs/a --beam 3", "--beam"),
        ("python -m launch.export --workdir a --out b --format onnx", "onnx"),
        ("python -m launch.reproduce csan/table1 --scale huge --out OUT", "--scale huge"),
        (f"{QUICKSTART.replace('train', 'sweep')} --grid model.dmi=1 --out o", "model.dmi"),
        ("ssh host --command='\n python -m launch.train --config a.py'", "no such file: a.py"),
    ],
)
def test_a_stale_command_is_reported(line, message, parsers):
    ((name, argv),) = commands(line)
    assert message in error(name, argv)


def test_a_wrong_name_is_reported(config_keys):
    wrong = ["launch.trian", "train.stepz=3", "configs/csan/none.py", "common_jax.masks.casual"]
    right = ["launch.train", "train.steps=3", "configs/csan/multi30k.py:big", "common_jax.masks"]
    text = " ".join(f"`{span}`" for span in [*wrong, *right])
    assert [*wrong_names(text, config_keys)] == wrong
