"""Corpora in published formats: tables, several files, TensorFlow Datasets."""

import csv
from pathlib import Path

import pytest
from sacremoses import MosesDetokenizer

from common_jax.bad_examples import BadExamples
from common_jax.config import from_values
from common_jax.data.corpus import file_identity
from common_jax.errors import UserError
from common_jax.fields import from_mapping, to_mapping
from common_jax.io.files import read_lines
from common_jax.training.config import parse
from common_jax.training.identity import result_fields
from csan_jax.config import Config, DataConfig
from csan_jax.data.dataset import TranslationData
from csan_jax.data.sources import source_of
from tests.common_jax.data import phrasebook
from tests.csan_jax.data.test_data import sizes
from tests.real import needs_real_data, real_data


def config(folder, **options) -> DataConfig:
    fields = dict(dir=str(folder), cache_dir=str(folder / "cache"), vocab_size=320)
    fields |= dict(source_language="en", target_language="de")
    return from_mapping(DataConfig, fields | options, "data.")


def prepared(folder, **options) -> TranslationData:
    data = TranslationData(config(folder, **options))
    data.prepare()
    data.report()
    return data


def read(config, split="train", policy="error"):
    """The pairs, and the counts of bad examples."""
    source, bad_examples = source_of(config, split), BadExamples(policy)
    rows = list(source.read(bad_examples))
    return [row[1:] for row in rows], [row.place for row in rows], bad_examples.counts


ASPEC = dict(
    source_language="ja",
    target_language="en",
    separator=" ||| ",
    columns="-2,-1",
    train="train-1.txt,train-2.txt",
    dev="dev.txt",
    test="test.txt",
)
JAEN = [(f"これは文{n}です。", f"This is sentence {n}, a | b || c.") for n in range(90)]


@pytest.fixture
def aspec(tmp_path) -> Path:
    """Lines of ASPEC: train has a score, an id and a number before the text, other splits no
    score."""
    files = {"train-1": (0, 40), "train-2": (40, 70), "dev": (70, 80), "test": (80, 90)}
    for name, (start, stop) in files.items():
        score = "0.087 ||| " if name.startswith("train") else ""
        lines = [f"{score}A-02A001 ||| {n} ||| {' ||| '.join(JAEN[n])}" for n in range(start, stop)]
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_aspec(aspec):
    pairs, places, bad_examples = read(config(aspec, **ASPEC))
    assert pairs == JAEN[:70] and not bad_examples
    assert places[0] == f"{aspec}/train-1.txt:1" and places[69] == f"{aspec}/train-2.txt:30"
    assert len(set(places)) == 70
    data = prepared(aspec, **ASPEC)
    assert [counts["pairs"] for counts in sizes(data).values()] == [70, 10, 10]
    assert list(zip(data.sources("dev"), data.references("dev"), strict=True)) == JAEN[70:80]


def test_order_and_number_of_files_are_of_the_fingerprint(aspec):
    paths = {
        prepared(aspec, **{**ASPEC, "train": train}).path
        for train in ("train-1.txt,train-2.txt", "train-2.txt, train-1.txt", "train-1.txt")
    }
    assert len(paths) == 3


def test_a_short_line_is_reported(aspec):
    with (aspec / "train-2.txt").open("a") as file:
        file.write("no columns\n0.1 ||| A ||| 3 ||| \u3000 ||| x\n")
    with pytest.raises(UserError, match=r"train-2\.txt:31: 1 columns where 2 are needed; .*skip"):
        read(config(aspec, **ASPEC))
    pairs, _, bad_examples = read(config(aspec, **ASPEC), policy="skip")
    assert pairs == JAEN[:70]
    assert {kind: fault["first"] for kind, fault in bad_examples.items()} == {
        "1 columns where 2 are needed": [f"{aspec}/train-2.txt:31"],
        "empty source": [f"{aspec}/train-2.txt:32"],
    }


def test_several_parallel_files_and_held_out_splits(tmp_path):
    for name, rows in (("a", JAEN[:50]), ("b", JAEN[50:])):
        for side, language in enumerate(("ja", "en")):
            text = "".join(f"{row[side]}\n" for row in rows)
            (tmp_path / f"{name}.{language}").write_text(text)
    options = dict(source_language="ja", target_language="en", train="a,b", dev="", test="")
    data = prepared(tmp_path, **options, holdout_size=5)
    by_split = [set(data.sources(split)) for split in ("dev", "test")]
    assert [len(part) for part in by_split] == [5, 5] and sizes(data)["train"]["pairs"] == 80
    assert by_split[0] | by_split[1] < {source for source, _ in JAEN}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": "0,1"}, "data.columns='0,1': name a column for each of source, target, or "),
        ({"columns": "1"}, "data.columns='1': "),
        ({"columns": "1,1"}, "data.columns='1,1': "),
        ({"columns": "1,2,3"}, "data.columns='1,2,3': "),
        ({"columns": "source=1"}, "data.columns='source=1': "),
        ({"columns": "source=1,target="}, "data.columns='source=1,target=': "),
        ({"columns": "source=1,text=2"}, "data.columns='source=1,text=2': "),
        ({"columns": "source=1,2"}, "data.columns='source=1,2': "),
        ({"separator": ""}, "data.separator"),
        ({"moses_escapes": "yes"}, "data.moses_escapes='yes': must be keep | undo"),
        ({"source": "tfds"}, "data.tfds: name the dataset"),
        ({"source": "csv"}, "data.source='csv': must be files | tfds | generated"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, words, tmp_path):
    with pytest.raises(UserError) as error:
        config(tmp_path, **options)
    assert words in str(error.value)


def read_table(folder, content, name="train.csv", **options):
    (folder / name).write_bytes(content.encode())
    return read(config(folder, train=name, **options))[0]


def test_known_headers_and_columns(tmp_path):
    for header in ("source,target", "SRC,id,Tgt", "en,de", "de,en"):
        cells = {"target": "Ein Hut.", "tgt": "Ein Hut.", "de": "Ein Hut.", "id": "7"}
        row = ",".join(cells.get(name, "A hat.") for name in header.lower().split(","))
        assert read_table(tmp_path, f"{header}\n{row}\n") == [("A hat.", "Ein Hut.")]
    content = "german;english\r\nEin Hut, rot;A hat, red\r\n"
    expected = [("A hat, red", "Ein Hut, rot")]
    assert read_table(tmp_path, content, columns="source=english,target=german") == expected
    assert read_table(tmp_path, content, columns="source=2,target=1")[1:] == expected
    assert read_table(tmp_path, content, columns="2,1", separator=";")[1:] == expected
    assert read_table(tmp_path, "A hat.\tEin Hut.\n", "t.tsv") == [("A hat.", "Ein Hut.")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "A hat.,Ein Hut.\n", "a.csv:1: no header that is known, and not surely an exa"),
        ("a.csv", "english,german\n", "a.csv:1: no header that is known, and not surely an exam"),
        ("a.tsv", "english\tgerman\n", "a.tsv:1: no header that is known, and not surely an ex"),
        ("a.tsv", "Hi.\tHallo!\tCC-BY\n", "a.tsv:1: 3 columns where 2 are needed, and no head"),
        ("a.csv", "source,en,de\n", "a.csv:1: several columns can be the source: source, en; "),
    ],
)
def test_a_table_that_may_be_misread_is_refused(tmp_path, name, content, message):
    with pytest.raises(UserError) as error:
        read_table(tmp_path, content, name)
    assert str(error.value).startswith(f"{tmp_path}/{message}")
    advice = "; set data.columns=source=NAME,target=NAME with names of the header, or by number, "
    assert str(error.value).endswith(f"{advice}source=1,target=2")
    assert len(read_table(tmp_path, content, name, columns="1,2")) == 1


def test_cells_have_one_line_and_invisible_sides_are_empty(tmp_path):
    content = 'source,target\n"A\r\nhat","Ein\nHut"\n\u200b,Hut\nhat,\u00ad \n\ufeffone,eins\n'
    (tmp_path / "t.csv").write_bytes(content.encode())
    pairs, _, bad_examples = read(config(tmp_path, train="t.csv"), policy="skip")
    assert pairs == [("A hat", "Ein Hut"), ("one", "eins")]
    assert {kind: fault["first"] for kind, fault in bad_examples.items()} == {
        "empty source": [f"{tmp_path}/t.csv:5"],
        "empty target": [f"{tmp_path}/t.csv:6"],
    }
    for language, lines in (("en", "\ufeffone\n\u2060\n"), ("de", "eins\nzwei\n")):
        (tmp_path / f"p.{language}").write_text(lines)
    pairs, _, bad_examples = read(config(tmp_path, train="p"), policy="skip")
    assert pairs == [("one", "eins")] and [*bad_examples] == ["empty source"]


def test_tables_by_number_have_the_prepared_folders_of_earlier_versions(tmp_path):
    """Their identity was the file, the columns and the separator."""
    (tmp_path / "t.tsv").write_text("A hat.\tEin Hut.\n")
    for columns, numbers in (("1,2", [1, 2]), ("2,1", [2, 1]), ("-2,-1", [-2, -1])):
        identity = source_of(config(tmp_path, train="t.tsv", columns=columns), "train").identity()
        assert identity == [file_identity(tmp_path / "t.tsv"), numbers, "\t"]
    (tmp_path / "h.tsv").write_text("source\ttarget\nA hat.\tEin Hut.\n")
    identity = source_of(config(tmp_path, train="h.tsv"), "train").identity()
    assert identity[1:] == [[1, 2], "\t", "header"]


def test_parallel_files_with_carriage_returns_only(tmp_path):
    """Their names in a cache are not those of earlier versions, which read a single pair."""
    identities = []
    for end in ("\n", "\r"):
        for language in ("en", "de"):
            (tmp_path / f"my, own.{language}").write_text(
                f"a{language}{end}b\u2028c{end}", newline=""
            )
        source = source_of(config(tmp_path, train="my, own"), "train")
        pairs = [row[1:] for row in source.read(BadExamples("error"))]
        assert pairs == [("aen", "ade"), ("b\u2028c", "b\u2028c")]
        identities.append(source.identity())
    assert [len(identity) for identity in identities] == [2, 3]


def test_quotation_marks_of_tables(tmp_path):
    """An earlier run keeps its reading."""
    (tmp_path / "t.tsv").write_text('en\tde\n"a ""b"""\tc\n')
    fields = to_mapping(config(tmp_path, train="t.tsv"))
    assert read(from_mapping(DataConfig, fields))[0] == [('a "b"', "c")]
    del fields["quotes"]
    old = from_values(Config, {"data": fields}).data
    assert read(old)[0] == [('"a ""b"""', "c")]
    assert source_of(old, "train").identity()[1:] == [[1, 2], "\t", "header"]
    assert source_of(config(tmp_path, train="t.tsv"), "train").identity()[1:] != [
        *([1, 2], "\t", "header")
    ]


def test_runs_of_earlier_versions_have_tsv_columns():
    old, new = ({"data": {"dir": "x", name: "1,2"}} for name in ("tsv_columns", "columns"))
    assert from_values(Config, old) == from_values(Config, new)
    default = from_values(Config, {"data": {"dir": "x"}})
    assert result_fields(from_values(Config, old)) == result_fields(default)
    with pytest.raises(UserError, match=r"'data\.tsv_columns' is now 'data\.columns'"):
        parse("configs/csan/tatoeba_deen.py", ["--config.data.tsv_columns=1,2"])
    swapped = parse("configs/csan/tatoeba_deen.py", ["--config.data.columns=source=de,target=en"])
    assert swapped.data.columns_by_field == {"source": "de", "target": "en"}


@needs_real_data
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("separator", [",", ";"])
def test_multi30k_as_csv(tmp_path, quoting, separator):
    folder = real_data("multi30k")
    expected, _, _ = read(config(folder, dev="val"), "dev")
    assert len(expected) == 1014
    with (tmp_path / "val.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=separator, quoting=quoting)
        writer.writerows([("", "en", "de"), *((n, *pair) for n, pair in enumerate(expected))])
    assert read(config(tmp_path, dev="val.csv"), "dev")[0] == expected
    columns = "source=en,target=de"
    assert read(config(tmp_path, dev="val.csv", columns=columns), "dev")[0] == expected


TFDS = dict(
    source="tfds",
    tfds="phrasebook/de-en",
    source_language="de",
    target_language="en",
    train="train",
    dev="validation",
    test="test",
)


@pytest.fixture(scope="module")
def tfds(tmp_path_factory):
    phrasebook.register()
    return tmp_path_factory.mktemp("tfds")


def test_tensorflow_datasets(tfds):
    data = prepared(tfds, **TFDS)
    assert {split: counts["pairs"] for split, counts in sizes(data).items()} == {
        "train": 80,
        "dev": 15,
        "test": 25,
    }
    actual = set(zip(data.sources("test"), data.references("test"), strict=True))
    assert actual == set(phrasebook.PAIRS[95:120])
    pairs, places, _ = read(config(tfds, **TFDS))
    assert set(pairs) == set(phrasebook.PAIRS[:80])
    assert places == [f"phrasebook/de-en train:{n}" for n in range(1, 81)]
    assert prepared(tfds, **TFDS).path == data.path
    for changed in ({"tfds": "phrasebook/de-en:2.0.0"}, {"train": "train[:60]"}):
        assert prepared(tfds, **TFDS | changed).path != data.path


def test_the_other_direction_and_held_out_splits(tfds):
    other = {"source_language": "en", "target_language": "de", "dev": "", "holdout_size": 6}
    data = prepared(tfds, **TFDS | other)
    assert [counts["pairs"] for counts in sizes(data).values()] == [74, 6, 25]
    held_out = set(zip(data.references("dev"), data.sources("dev"), strict=True))
    assert held_out < set(phrasebook.PAIRS[:80])


def test_bad_records_are_reported(tfds):
    broken = TFDS | {"tfds": "phrasebook/broken"}
    with pytest.raises(UserError, match=r"phrasebook/broken (train|test):\d+: .*on_bad_example"):
        prepared(tfds, **broken)
    pairs, _, bad_examples = read(config(tfds, **broken), policy="skip")
    assert ("zwei Zeilen", "two lines") in pairs and len(pairs) == 77
    assert {kind: fault["count"] for kind, fault in bad_examples.items()} == {
        "not UTF-8": 1,
        "empty source": 2,
    }
    data = prepared(tfds, **broken, on_bad_example="skip")
    assert sizes(data)["test"]["dropped"] == {"empty target": 1}
    assert len(data.sources("test")) == len(data.references("test")) == 24


def test_what_a_dataset_does_not_have(tfds):
    def fails(**changes):
        with pytest.raises(UserError) as error:
            prepared(tfds, **TFDS | changes)
        return str(error.value)

    assert "data.dev='dev': phrasebook/de-en has the splits train, valid" in fails(dev="dev")
    assert "data.source_language=fr: phrasebook/de-en has the texts de, en" in fails(
        source_language="fr"
    )
    assert "data.target_language=zh: " in fails(target_language="zh")
    assert "data.source_language=en: also data.target_language" in fails(source_language="en")
    assert "data.target_language: name both" in fails(source_language="")
    assert "data.tfds=phrasebok/x: TensorFlow Datasets has no" in fails(tfds="phrasebok/x")


ESCAPED = [
    ("it &apos;s &quot; R &amp; D &quot;", "es ist &#91; F &#124; E &#93; &lt; &gt;"),
    ("&amp;lt; &eacute;", "&#39; & co"),
]


def test_moses_escapes(tmp_path):
    for split in ("train", "dev", "test"):
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{row[side]}\n" for row in ESCAPED * 20)
            (tmp_path / f"{split}.{language}").write_text(text)
    undo = MosesDetokenizer().unescape_xml
    plain = [(undo(source), undo(target)) for source, target in ESCAPED * 20]
    for split in ("train", "dev", "test"):
        assert read(config(tmp_path), split)[0] == ESCAPED * 20
        assert read(config(tmp_path, moses_escapes="undo"), split)[0] == plain
    escaped, undone = (
        prepared(tmp_path, moses_escapes=m, vocab_size=300) for m in ("keep", "undo")
    )
    assert escaped.path != undone.path
    assert escaped.references("dev") == [target for _, target in ESCAPED * 20]
    assert undone.references("dev") == [target for _, target in plain]
    undone_places = read(config(tmp_path, moses_escapes="undo"))[1]
    assert undone_places == read(config(tmp_path))[1]


@needs_real_data
def test_wmt_has_no_remaining_escapes():
    folder = real_data("wmt_ende")
    options = dict(train="train.10k", dev="newstest2013", test="newstest2013")
    pairs, _, bad_examples = read(config(folder, **options, moses_escapes="undo"), "dev")
    undo = MosesDetokenizer().unescape_xml
    for side, language in enumerate(("en", "de")):
        lines = list(read_lines(folder / f"newstest2013.{language}.gz"))
        assert [pair[side] for pair in pairs] == list(map(undo, lines)) and not bad_examples
        assert any(pair[side] != line for pair, line in zip(pairs, lines, strict=True))
