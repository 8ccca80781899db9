"""Corpora in published formats: tables, several files, TensorFlow Datasets."""

from pathlib import Path

import pytest
from sacremoses import MosesDetokenizer

from common_jax.bad_examples import BadExamples
from common_jax.errors import UserError
from common_jax.fields import from_mapping
from common_jax.io.files import read_lines
from csan_jax.config import DataConfig
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
    tsv_columns="-2,-1",
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
    with pytest.raises(UserError, match=r"train-2\.txt:31: fewer than 2 columns; .*skip"):
        read(config(aspec, **ASPEC))
    pairs, _, bad_examples = read(config(aspec, **ASPEC), policy="skip")
    assert pairs == JAEN[:70]
    assert {kind: fault["first"] for kind, fault in bad_examples.items()} == {
        "fewer than 2 columns": [f"{aspec}/train-2.txt:31"],
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
        ({"tsv_columns": "0,1"}, "data.tsv_columns='0,1': two 1-based columns"),
        ({"tsv_columns": "1"}, "data.tsv_columns"),
        ({"tsv_columns": "a,b"}, "data.tsv_columns"),
        ({"separator": ""}, "data.separator"),
        ({"moses_escapes": "yes"}, "data.moses_escapes='yes': must be keep | undo"),
        ({"source": "tfds"}, "data.tfds: name the dataset"),
        ({"source": "csv"}, "data.source='csv': must be files | tfds | generated"),
    ],
)
def test_what_cannot_be(options, words, tmp_path):
    with pytest.raises(UserError) as error:
        config(tmp_path, **options)
    assert words in str(error.value)


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
