"""What the families' prepared corpora have in common: what is prepared anew, batches, reports and
refused configs."""

import dataclasses
import json
import logging
import re

import numpy as np
import pytest

import qanet_jax.models.base
from attconv_jax.data import selection
from attconv_jax.data.synthetic import generate
from common_jax.data import word_level
from common_jax.data.corpus import recorded_identity
from common_jax.data.sources import held_out_splits
from common_jax.errors import UserError
from qanet_jax.data import prepare
from tests.attconv_jax import anss
from tests.families.data import corpora
from tests.families.data.corpora import PAIRS, PREPARED, QUESTIONS, fails
from tests.refusals import refusal

FAMILIES = tuple(PREPARED)
COUNTS = {"csan": (200, 250), "qanet": (5, 10), "attconv": (9, 27)}  # of train, of all splits


@pytest.fixture
def folder(family, tmp_path):
    """With the family's own files."""
    corpora.write_own(family, tmp_path)
    return tmp_path


def fingerprint(family, folder, **options):
    return PREPARED[family](folder, prepare=False, **options).builder().fingerprint()


RANKING = {"format": "ranking", **anss.FILES}
CHANGES = {
    "csan": [
        *({"max_length": 30}, {"vocab_size": 320}, {"joint_vocabulary": False}, {"dev": ""}),
        *({"dev": "", "seed": 1}, {"dev": "", "holdout_size": 7}, {"white_space": "keep"}),
        *({"train": "train,other"}, {"train": "other,train"}, {"train": "other"}),
        *({"moses_escapes": "undo"}, {"on_bad_example": "skip"}),
        *({"source": "generated", "examples": 9}, {"source": "generated", "examples": 8}),
        {"source": "generated", "examples": 9, "seed": 1},
    ],
    "qanet": [
        *({"words": dataclasses.replace(corpora.TRAINED, rows=299)}, {"word_length": 7}),
        *({"context_length": 9}, {"question_length": 9}, {"answer_length": 2}, {"window": 55}),
        *({"stride": 19}, {"dev": ""}, {"dev": "", "seed": 1}, {"dev": "", "holdout_size": 7}),
        {"vectors": "glove.txt", "words": dataclasses.replace(corpora.TRAINED, dim=2, rows=0)},
    ],
    "attconv": [
        *({"dev": "", "seed": 1}, {"dev": ""}, {"dev": "", "holdout_size": 7}, {"examples": 3}),
        *({"max_length": 9}, {"labels": "neutral,entailment,contradiction"}),
        *({"ignored_labels": "-,hidden"}, {"balanced": True}, {"on_bad_example": "skip"}),
        *({"vectors": "glove.txt"}, {"words": dataclasses.replace(corpora.WORDS, rows=99)}),
        *({"train": "train.tsv,other.tsv"}, {"train": "other.tsv,train.tsv"}),
        {"train": "other.tsv"},
    ],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_all_that_decides_the_content_is_in_the_fingerprint(family, folder, monkeypatch):
    monkeypatch.chdir(folder)  # for vectors
    (folder / "glove.txt").write_text("a 1 2\n")
    corpora.write_rows(folder, "other.tsv", [("neutral", "a", "b")])
    corpora.write_pairs(folder, "other", PAIRS[:9])
    changes = [{}, *CHANGES[family]]
    fingerprints = [fingerprint(family, folder, **changed) for changed in changes]
    assert json.loads(json.dumps(fingerprints)) == fingerprints
    assert len({json.dumps(each, sort_keys=True) for each in fingerprints}) == len(fingerprints)


@pytest.mark.parametrize(
    ("family", "target", "options"),
    [
        ("qanet", "importlib.metadata.version", {}),
        ("qanet", f"{prepare.__name__}.TRIVIAQA", {}),
        ("attconv", f"{selection.__name__}.IDENTITY", RANKING),
        *((family, f"{word_level.__name__}.TOKENISER", {}) for family in ("qanet", "attconv")),
    ],
)
def test_another_rule_prepares_anew(family, target, options, folder, monkeypatch):
    anss.write(folder)
    before = fingerprint(family, folder, **options)
    other = (lambda name: "0.0") if target.endswith("version") else recorded_identity(1, "another")
    monkeypatch.setattr(target, other)
    assert fingerprint(family, folder, **options) != before


@pytest.mark.parametrize("family", FAMILIES)
def test_a_corpus_is_prepared_once_and_found(family, folder, caplog):
    caplog.set_level(logging.INFO)
    count = COUNTS[family][1]
    for word in ("prepared", "found"):
        data = PREPARED[family](folder)
        data.prepare()
        line = next(m for m in caplog.messages if str(data.path) in m)
        assert re.match(rf"(in \d+ s )?{word} {count} ", line)
        if family == "csan":
            speed = re.search(r"pairs in \d+ s \(([\d,]+) pairs/s\), ([\d,]+) tokens", line)
            assert bool(speed) == (word == "prepared")
        assert data.prepared
        caplog.clear()
    data = PREPARED[family](folder, prepare=False)
    assert not data.prepared
    for read in (lambda: data.path, lambda: data.train_batches(0)):
        with pytest.raises(RuntimeError, match=r"call prepare\(\)"):
            read()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_epoch_has_every_example_once_in_an_order_of_the_seed(family, folder):
    data = PREPARED[family](folder)

    def order(seed, epoch):
        indices = [batch["index"] for batch in data.train_batches(seed).epoch(epoch)]
        if family != "csan":  # rows of subwords depend on the shape
            assert {len(index) for index in indices} == {data.config.batch_size}
        index = np.concatenate(indices)
        index = index[index >= 0].tolist()
        assert sorted(index) == list(range(COUNTS[family][0]))
        return index

    orders = [order(1, epoch) for epoch in range(3)]
    assert orders[0] != orders[1] != orders[2]
    assert order(1, 2) == orders[2] != order(2, 2)


def overlapping_pairs(folder):
    corpora.write_pairs(folder, "dev", [*PAIRS[190:210], PAIRS[190]])
    corpora.write_pairs(folder, "test", [*PAIRS[205:220], (PAIRS[0][0], PAIRS[1][1])])


def overlapping_questions(folder):
    others = [*QUESTIONS[:2], ("One word.", "x", "How many?", ["One"])]
    corpora.write_squad(folder, "dev.json", questions=others)


def overlapping_texts(folder):
    rows = [("neutral", "a b", "c"), ("entailment", "A b", "c"), ("neutral", "a b", "c")]
    rows += [("neutral", "same", "same"), ("neutral", "a", "b c")]
    corpora.write_rows(folder, "train.tsv", rows)
    corpora.write_rows(folder, "dev.tsv", [rows[0], ("neutral", "b a", "c"), *rows[3:]])
    corpora.write_rows(folder, "test.tsv", [("neutral", "d", "d"), rows[0]])


OVERLAPS = {
    "csan": (
        overlapping_pairs,
        {
            "11 of 21 pairs of dev are also in train",
            "5 of 16 pairs of test are also in dev",
        },
    ),
    "qanet": (overlapping_questions, {"2 of 3 questions of dev are also in train"}),
    "attconv": (
        overlapping_texts,
        {
            "3 of 4 examples of dev are also in train",
            "1 of 2 examples of test are also in train",
            "1 of 2 examples of test are also in dev",
        },
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_examples_in_several_splits_are_counted(family, folder, caplog):
    overlap, messages = OVERLAPS[family]
    overlap(folder)
    assert PREPARED[family](folder).warnings == []
    assert {line for line in caplog.messages if "also in" in line} == messages


@pytest.mark.parametrize("family", ["csan", "attconv"])
def test_equal_dev_and_test_are_a_warning(family, folder, caplog):
    (warning,) = PREPARED[family](folder, test="dev" if family == "csan" else "dev.tsv").warnings
    assert warning.startswith("dev and test have the same examples")
    if family == "csan":
        assert PREPARED[family](folder).warnings == []
        corpora.write_pairs(folder, "dev", PAIRS[190:200])
        corpora.write_pairs(folder, "test", PAIRS[195:200])
        (warning,) = PREPARED[family](folder).warnings
    assert warning in caplog.text


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        ("csan", "dev", "train"),
        ("csan", "test", "dev,./train"),
        ("qanet", "dev", "train.json"),
        ("attconv", "test", "train.tsv"),
    ],
)
def test_the_same_file_as_train_and_another_split_is_refused(family, key, value, folder):
    message = fails(family, folder, **{key: value})
    assert message.startswith(f"data.{key}={value}: ") and "is also in data.train" in message


# The family, options, and the key or file that the message must name.
MISSING = [
    ("csan", {"dir": "none"}, "data.dir=none: no such folder"),
    ("csan", {"train": "trian"}, "trian.en: no such file"),
    ("csan", {"train": "all.tsv"}, "all.tsv: no such file"),
    ("csan", {"train": ""}, "data.train: name"),
    ("csan", {"vocab_size": 100_000}, "data.vocab_size=100000: this text has pieces for"),
    ("attconv", {"dir": "none"}, "data.dir=none: no such folder"),
    ("attconv", {"train": "train.tsv,c.tsv"}, "c.tsv: no such file"),
    ("attconv", {"train": "train.tsv,"}, "data.train: name its files"),
]


@pytest.mark.parametrize(("family", "options", "message"), MISSING)
def test_what_is_missing_is_named(family, options, message, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert message in fails(family, folder, **options)


TRIVIAQA = {"source": "tfds", "tfds": "trivia_qa/rc", "format": "triviaqa_lines"}
PACKED = {"batching": "packed", "max_length": 64, "batch_tokens": 256}
NO_DEV = "data.dev: name the file; it is held out of a single"
REFUSED = [
    *(
        ("csan", {"columns": columns}, f"data.columns='{columns}': ")
        for columns in (
            *("0,1", "1", "1,1", "2,2", "1,2,3", "source=1", "source=1,target="),
            *("source=1,text=2", "source=1,2"),
        )
    ),
    ("csan", {"separator": ""}, "data.separator"),
    ("csan", {"moses_escapes": "yes"}, "data.moses_escapes='yes': must be keep | undo"),
    ("csan", {"source": "tfds"}, "data.tfds: name the dataset"),
    ("csan", {"source": "csv"}, "data.source='csv': must be files | tfds | generated"),
    ("csan", PACKED | {"max_length": 129}, "data.row_tokens=128: "),
    ("csan", PACKED | {"row_tokens": 63}, "data.row_tokens=63: "),
    ("csan", PACKED | {"row_tokens": 300}, "data.row_tokens=300: "),
    ("csan", PACKED | {"batching": "rows"}, "data.batching='rows': "),
    ("qanet", {"dev": "", "train": "a.json,b.json"}, NO_DEV),
    ("qanet", {"dev": "", "format": "triviaqa"}, NO_DEV),
    ("qanet", {"train": ""}, "data.train: name the file"),
    ("qanet", TRIVIAQA, "data.format=triviaqa_lines: a dataset has the format squad or triviaqa"),
    *(
        ("qanet", {"format": format, "columns": "1,2"}, "data.columns=1,2: this data.format has no")
        for format in ("triviaqa", "triviaqa_lines")
    ),
    ("attconv", {"examples": -1}, "data.examples=-1: at least 0"),
    ("attconv", RANKING | {"examples": 5}, "data.examples=5: rankings are not sampled"),
    ("attconv", RANKING | {"balanced": True}, "data.balanced: not for data.format=ranking"),
    ("attconv", {"negatives": 5}, "data.negatives=5: only for data.format=ranking"),
    ("attconv", {"ignored_labels": "-,neutral"}, "data.ignored_labels='-,neutral': "),
    ("attconv", RANKING | {"labels": "yes,no"}, "data.labels='yes,no': must be no,yes"),
    ("attconv", RANKING | {"columns": "1,2"}, "data.columns='1,2': name a column for each of que"),
    ("attconv", {"labels": "Food, Drink,Rooms,Food"}, "data.labels="),
]
CONFIGS = {
    "csan": corpora.translation_config,
    "qanet": corpora.reading_config,
    "attconv": corpora.labelled_config,
}


@pytest.mark.parametrize(("family", "options", "message"), REFUSED)
def test_configs_that_cannot_be_are_refused(family, options, message, tmp_path):
    assert refusal(CONFIGS[family], tmp_path, **options).startswith(message)


def test_packed_rows_are_no_limit_of_other_batches(tmp_path):
    for options in ({"max_length": 129}, {"row_tokens": 63}, {"row_tokens": 300}):
        fields = PACKED | options | {"batching": "buckets"}
        assert corpora.translation_config(tmp_path, **fields).batching == "buckets"


@pytest.mark.parametrize("rows", [-1, 1, 2])
def test_a_table_of_words_has_one_for_a_word(rows):
    with pytest.raises(UserError, match=f"words.rows={rows}: 0, or at least 3"):
        qanet_jax.models.base.WordsConfig(rows=rows)


def test_generated_pairs_have_splits_of_their_own(tmp_path):
    options = {"source": "generated", "examples": 9, "holdout_size": 6}
    data = corpora.labelled(tmp_path, **options)
    assert [count for count, _ in data.split_sizes().values()] == [9, 6, 6]
    assert data.texts("dev") == [[p, h] for p, h, _ in generate(6, 0, "dev")]
    assert held_out_splits(data.config) == []
    assert held_out_splits(corpora.labelled_config(tmp_path, test="")) == ["test"]
