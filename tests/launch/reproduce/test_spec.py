"""Table files: all of the repository's, and how rows, scales and claims are combined."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.training.config import parse
from launch.reproduce.spec import read_table, read_tables
from launch.reproduce.table_file import MEASURED
from launch.reproduce.trials import corpora_of

TABLES = Path(__file__).parents[3] / "tables"
TEXT = """
title = "t"
source = "s"
kind = "table"
split = "test"
metrics = ["accuracy", "f1"]
[data.pairs]
folder = "snli"
files = ["a.tsv", "parses/"]
origin = "example.org"
[data.vectors]
files = []
origin = "example.org"
[scales.paper]
config = "big.py"
data = "pairs"
overrides = { "a" = 1, "b" = 1, "c" = 1 }
[scales.small]
config = "small.py"
note = "shorter"
seeds = 3
metrics = ["f1"]
claim_metrics = ["f1"]
rows = ["A", "B", "D"]
[scales.huge]
unavailable = "too large"
[[rows]]
name = "A"
system = "one"
overrides = { "b" = 2, "c" = "{vectors}/v" }
by_scale = { paper = { overrides = { "c" = 3 } }, small = { seeds = 1 } }
note = "unlike"
published = { accuracy = 1 }
[[rows]]
name = "B"
config = "own.py"
[[rows]]
name = "C"
scales = ["paper"]
[[rows]]
name = "D"
missing = "lost"
[[claims]]
text = "better"
row = "A"
than = "B"
[[claims]]
text = "in the paper's alone"
row = "A"
than = "C"
relation = "comparable"
within = 1
[[claims]]
text = "faster"
row = "A"
than = "B"
metric = "train_speed"
scales = ["small"]
"""

SHARED = """
[data.pairs]
folder = "elsewhere"
files = ["a.tsv"]
origin = "example.org"
[data.words]
files = ["words.tsv"]
origin = "example.org"
[settings.short]
config = "small.py"
data = "words"
seeds = 2
overrides = { "a" = 1, "b" = 1 }
note = "Of half the width."
[settings.shorter]
setting = "short"
overrides = { "b" = 2, "d" = 2 }
note = "100 steps."
"""


def read(folder, text):
    (folder / "csan").mkdir(exist_ok=True)
    path = folder / "csan" / "toy.toml"
    path.write_text(text)
    return read_table(path)


def test_a_row_that_varies_a_field_stands_for_a_row_of_each_value(tmp_path):
    varied = TEXT.replace('name = "C"', 'name = "C"\nvary = { "b" = [5, 6] }', 1)
    varied = varied.replace('than = "C"', 'than = "B"')
    rows = {row.name: row for row in read(tmp_path, varied).scales["paper"].systems}
    assert [name for name in rows if name.startswith("C")] == ["C, 5", "C, 6"]
    assert rows["C, 6"].overrides == {"a": "1", "b": "6", "c": "1"}
    assert rows["C, 6"].varied == ("b",)


# Of each page with a claim, the seeds that were planned when verdicts began to be compared with
# plans: of most rows, and of the others by name.
PLANS = {
    "attconv/selection/small": {"": 3},
    "attconv/table3/small": {"": 3, "NES": 1, "W-by-W attention": 1, "LSTMN": 1},
    "attconv/table3/vectors": {
        **{"": 3, "LSTMN": 1, "AttentiveConvNet, light": 8, "AttentiveConvNet, advanced": 8},
        "AttentiveConvNet, advanced&intra-attention": 10,
    },
    "attconv/table4/small": {"": 3},
    "attconv/table4/vectors": {"": 8},
    "attconv/table5/vectors": {"": 3, "WordC1": 1, "WordC2": 1},
    "csan/figure2/small": {"": 3},
    "csan/figure3/small": {"": 3},
    "csan/figure3/medium": {"": 2},
    "csan/table1/small": {"": 3, "Transformer-base": 8, "1D-CSAN": 8, "2D-CSAN": 8},
    "csan/table1/medium": {"": 2},
    "csan/table2/small": {"": 2},
    "qanet/probe/small": {"": 1, "QANet": 3, "without normalisation of the encoders' outputs": 3},
    "qanet/table4/small": {"": 1, "QANet": 2, "RNN-1-128": 2},
    "qanet/table4/medium": {"": 2},
    "qanet/table5/medium": {"": 2},
    "qanet/table7/small": {"": 2, "Random": 1},
}


@pytest.mark.parametrize("page", PLANS)
def test_no_plan_of_seeds_is_lowered(page):
    name, _, scale = page.rpartition("/")
    rows = read_table(TABLES / f"{name}.toml").scales[scale].made
    assert rows
    for row in rows:
        assert row.planned >= PLANS[page].get(row.name, PLANS[page][""]), row.name


@pytest.mark.parametrize("name", sorted(read_tables(TABLES)))
def test_each_file_is_consistent(name):
    path = TABLES / f"{name}.toml"
    spec, raw = read_table(path), tomllib.loads(path.read_text())
    claims = {claim.text for scale in spec.scales.values() for claim in scale.claims}
    possible = [s for s in spec.scales.values() if not s.unavailable]
    if possible:  # no row, claim or example belongs to no scale
        varied = lambda row: itertools.chain(*row.get("vary", {}).values())
        named = [[f"{r['name']}, {v}" for v in varied(r)] or [r["name"]] for r in raw["rows"]]
        assert {row.name for s in possible for row in s.systems} == {*itertools.chain(*named)}
        assert claims == {claim["text"] for claim in raw.get("claims", [])}
        examples = {example.name for scale in possible for example in scale.examples}
        assert examples == {example["name"] for example in raw.get("examples", [])}
    published = [*raw.get("columns", {}), *raw["metrics"], *MEASURED]
    for scale in possible:
        assert all(row.seen <= row.planned for row in scale.systems)
        for claim in scale.claims:  # by the seeds that were not seen
            awaits = scale.name in claim.awaits
            assert not awaits or all(scale.row(n).seen for n in (claim.row, claim.than))
        assert len({(claim.text, claim.metric) for claim in scale.claims}) == len(scale.claims)
        for row in scale.systems:
            assert {*row.published} <= {*published}, row.name  # each column has a title or a metric
            assert row.missing or row.ensemble or row.file.partition(":")[0].endswith(".py")
            assert not (row.missing and row.note)
        needed = {corpus.folder for corpus in corpora_of(spec, scale)}
        assert needed <= {corpus.folder for corpus in spec.data.values()}
        if scale.target:
            assert "hours_to_target" in scale.metrics


def test_vectors_have_the_dimension_of_the_models_words():
    keys = ("data.vectors", "words.dim")
    rows = [r for t in read_tables(TABLES).values() for s in t.scales.values() for r in s.made]
    given = {(r.file, *(r.overrides.get(key, "") for key in keys)) for r in rows}
    given = [(file, *values) for file, *values in given if values[0]]
    assert len(given) > 20
    for file, *values in given:
        overrides = [f"--config.{k}={v}" for k, v in zip(keys, values, strict=True) if v]
        (dim,) = re.findall(r"\.(\d+)d\.", values[0])
        assert parse(file, overrides).words.dim == int(dim), (file, values)


def test_rows_have_what_the_scale_the_row_and_the_row_at_the_scale_set(tmp_path):
    scales = read(tmp_path, TEXT).scales
    paper = {row.name: row for row in scales["paper"].systems}
    assert [*paper] == ["A", "B", "C", "D"]
    assert paper["A"].overrides == {"a": "1", "b": "2", "c": "3"}
    assert paper["A"].varied == ("b", "c") and paper["A"].note == "unlike"
    assert (paper["A"].file, paper["A"].data, paper["A"].planned) == ("big.py:one", "pairs", 1)
    assert paper["B"].file == "own.py" and paper["B"].overrides["b"] == "1"
    assert [row.name for row in scales["paper"].made] == ["A", "B", "C"]
    small = {row.name: row for row in scales["small"].systems}
    assert [*small] == ["A", "B", "D"]
    assert (small["A"].file, small["A"].data) == ("small.py:one", "")
    assert [row.planned for row in small.values()] == [1, 3, 3]
    assert (scales["small"].note, scales["paper"].note) == ("shorter", "")
    assert not scales["huge"].systems and scales["huge"].unavailable == "too large"


def test_claims_are_in_the_scales_that_have_their_rows(tmp_path):
    scales = read(tmp_path, TEXT).scales
    first, second = scales["paper"].claims
    assert (first.metric, first.relation) == ("accuracy", "better")
    assert (second.relation, second.within) == ("comparable", 1.0)
    better, faster = scales["small"].claims
    assert better.metric == "f1"
    assert (faster.relation, faster.factor) == ("ratio", 1.0)


def test_a_scale_inherits_a_shared_setting(tmp_path):
    (tmp_path / "shared.toml").write_text(SHARED)
    own = 'setting = "shorter"\noverrides = { "d" = 4 }\nnote = "Greedy."\nseeds = 3\n'
    old = 'config = "small.py"\nnote = "shorter"\nseeds = 3\n'
    spec = read(tmp_path, TEXT.replace(old, own))
    small = spec.scales["small"]
    assert small.note == "Of half the width. 100 steps. Greedy."
    second = small.systems[1]  # its own config
    assert second.overrides == {"a": "1", "b": "2", "d": "4"}
    assert (second.data, second.seeds, small.systems[0].file) == ("words", 3, "small.py:one")
    assert spec.data["pairs"].folder == "snli"  # the table's own
    folders = [corpus.folder for corpus in corpora_of(spec, small)]
    assert folders == ["words", "vectors"]
    with pytest.raises(UserError, match="no setting 'shortest'; did you mean 'shorter'"):
        read(tmp_path, TEXT.replace(old, own.replace("shorter", "shortest")))


def test_some_rows_and_another_number_of_seeds(tmp_path):
    small = read(tmp_path, TEXT).scales["small"]
    chosen = small.only(["B"], 7)
    assert [(row.name, row.planned) for row in chosen.systems] == [("B", 7)]
    assert not chosen.claims
    assert [row.planned for row in small.only([], None).systems] == [1, 3, 3]
    with pytest.raises(UserError, match="no row 'BB'; did you mean 'B'"):
        small.only(["BB"], None)


def test_corpora_are_those_that_rows_use(tmp_path):
    spec = read(tmp_path, TEXT)
    folders = lambda name: [corpus.folder for corpus in corpora_of(spec, spec.scales[name])]
    assert folders("paper") == ["snli"]  # by_scale replaces the vectors
    assert folders("small") == ["vectors"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "B"', 'name = "A"', "two rows"),
        ('metric = "train_speed"', 'metric = "nll"', "nll: better is lower"),
        ('"B", "D"]', '"B", "E"]', r"scales.small: no row 'E'"),
        ('scales = ["paper"]', 'scales = ["papers"]', r"rows\[2\]: no scale 'papers'"),
        ("small = { seeds", "tiny = { seeds", r"rows\[0\]: no scale 'tiny'"),
        ('data = "pairs"', 'data = "pair"', "scales.paper: row 'A': no data 'pair'"),
        ("within = 1\n", "", "no 'within'"),
        ('"better"', '"better"\nawaits = ["smal"]', r"claims\[0\]: no scale 'smal'; did you"),
        ('"comparable"', '"alike"', r"claims\[1\]: relation='alike': must be better \| equal"),
        ('"train_speed"', '"train_speed"\nrelation = "equal"', "equal goes with parameters"),
        ("within = 1\n", 'relations = "x"\n', "unknown key 'relations'; did you mean 'relation'"),
        ('than = "C"\n', 'than = "C"\nrelation = "ratio"\nfactor = 2\n', "not TOML"),
        ('"comparable"\nwithin = 1', '"ratio"\nfactor = 2', "a ratio is one of speeds"),
        ('config = "small.py"\n', "", "no 'config'"),
        ("seeds = 3", "seeds = 0", "scales.small: seeds = 0: at least 1"),
        ("seeds = 1", "seeds = 0", r"rows\[0\]: by_scale.small: seeds = 0: at least 1"),
        ("seeds = 3", 'seeds = "3"', "scales.small: seeds='3': expected int, got str"),
        ("accuracy = 1 }", 'accuracy = "1" }', r"rows\[0\]: published.accuracy='1'"),
        ('metrics = ["f1"]', 'metrics = "f1"', "scales.small: metrics='f1': expected a list"),
        ('name = "C"', 'name = "C"\nensemble = { of = "E", runs = 2 }', r"rows\[2\]: no row 'E'"),
        ('name = "C"', 'name = "C"\nensemble = { of = "A", runs = 1 }', "runs = 1: at least 2"),
        ('source = "s"\n', "", "key 'source' is missing"),
        ('kind = "table"', 'kind = "tables"', r"kind='tables': must be table \| figure"),
        ("[data.vectors]", "[data.vectors.a]", r"data.vectors: unknown key 'a'"),
        ('config = "big.py"', 'systems = ["A"]', r"scales.paper: unknown key 'systems'"),
    ],
)
def test_mistakes(tmp_path, old, new, message):
    assert old in TEXT
    with pytest.raises(UserError, match=message) as error:
        read(tmp_path, TEXT.replace(old, new))
    assert str(error.value).startswith(f"{tmp_path / 'csan' / 'toy.toml'}: ")
    assert "\n" not in str(error.value)
