"""Preparing labelled texts: held-out splits, samples, balance, invalid examples, fingerprints."""

import collections
import dataclasses
import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attconv_jax.config import DataConfig, WordsConfig
from attconv_jax.data import VECTORS, selection
from attconv_jax.data.dataset import LabelledData
from attconv_jax.data.prepare import Builder, balance, columns, overlap, tokenize
from common_jax.data import word_level
from common_jax.data.corpus import Corpus, prepare, recorded_identity
from common_jax.data.overlaps import read_overlaps
from common_jax.data.prepared import Preparation
from common_jax.errors import UserError
from common_jax.text.vocabulary import UNKNOWN, Vocabulary
from tests.attconv_jax import anss
from tests.common_jax.data.other_tools import copied

WORDS = WordsConfig(dim=2, rows=100, rule="english")


@given(st.text("abc", min_size=1, max_size=30), st.integers(0, 3))
def test_balanced_labels_are_as_many_as_the_rarest(labels, seed):
    least = min(labels.count(label) for label in set(labels))
    indices = balance(np.array([*map(ord, labels)]), seed).tolist()
    assert collections.Counter(labels[n] for n in indices) == dict.fromkeys(labels, least)
    assert indices == sorted(set(indices))


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
def test_overlap_counts_distinct_words(question, sentence):
    common = sum(letter in question and letter in sentence for letter in "abcd")
    assert overlap(question, sentence) == (common, *(len({*t}) for t in (question, sentence)))


def test_words_are_in_lower_case():
    assert tokenize("The U.S. can't—STOP, Zoë.", "english") == (
        *("the", "u.s.", "ca", "n't", "—", "stop", ",", "zoë", "."),
    )


ROWS = [
    ("neutral", "A man eats.", "A man sleeps."),
    ("-", "A man eats.", "Nobody agrees."),
    ("entailment", "A man eats.", "Someone eats."),
    ("contradiction", "Two cats sleep.", "No cat sleeps."),
]


OLD = [  # a file, how earlier versions identified it, and whether they read the same examples
    ("t.csv", "text,label\nin C:\\new,1\nb,2\n", ["csv", "texts", ["header"], [2, 1], ","], False),
    ("t.tsv", 'text\tlabel\n"a ""b"""\t1\nb\t2\n', ["tsv", "texts", ["header"], [2, 1]], False),
    ("t.tsv", "1\ta\r2\tb\r", ["tsv", "texts"], False),
    ("t.tsv", "text\tlabel\na\rb\t1\nb\t2\n", ["tsv", "texts", ["header"], [2, 1]], True),
    ("t.tsv", '1\ta "b"\n2\tb\n', ["tsv", "texts", "exact"], True),
]


@pytest.mark.parametrize(("name", "content", "identity", "equal"), OLD)
def test_a_corpus_of_another_reading_is_not_used(tmp_path, name, content, identity, equal):
    """With the folder in place that an earlier version prepared from the same file."""
    (tmp_path / name).write_bytes(content.encode())
    options = {"cache_dir": str(tmp_path / "cache"), "format": "texts", "labels": "1,2"}
    options |= {"train": name, **dict.fromkeys(("dev", "test"), copied(tmp_path, name))}
    columns = "1,2" if "\r2" in content else ""  # of which there may be more than are read
    data = LabelledData(config(tmp_path, columns=columns, **options), WORDS)
    fingerprint = data.builder().fingerprint()
    for split, (file, *_) in fingerprint["sources"].items():
        fingerprint["sources"][split] = [file, *identity]
    (tmp_path / "new").mkdir()
    Builder(data.config, WORDS).build(tmp_path / "new")
    old = prepare(
        tmp_path / "cache", fingerprint, lambda folder: shutil.copytree(
            tmp_path / "new", folder, dirs_exist_ok=True
        )
    )  # fmt: skip
    data.prepare()
    assert (data.path == old) == equal


def table(folder, name, rows):
    text = "".join("\t".join(row) + "\n" for row in rows)
    (folder / name).write_text(text, "utf-8")


def config(folder, **options) -> DataConfig:
    fields = {"dir": str(folder), "train": "train.tsv", "dev": "dev.tsv", "test": "dev.tsv"}
    return DataConfig(**(fields | options))


@pytest.fixture
def folder(tmp_path):
    for name in ("train.tsv", "dev.tsv"):
        table(tmp_path, name, ROWS)
    return tmp_path


def built(folder, model=WORDS, **options):
    path = folder / "built"
    path.mkdir()
    Builder(config(folder, **options), model).build(path)
    return path


def texts_of(folder):
    return [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]


def column(corpus, name):
    return corpus.gather(np.arange(len(corpus)), name, 1)[:, 0].tolist()


def test_a_corpus_has_numbers_of_words_and_labels_in_the_order_of_the_config(folder):
    path = built(folder, labels="contradiction, entailment ,neutral")
    corpus, vocabulary = Corpus.open(path / "train"), Vocabulary.load(path)
    assert corpus.columns == columns("pairs") == ("first", "second", "label")
    assert column(corpus, "label") == [2, 1, 0]
    for row, (_, *texts) in enumerate(ROWS[:1] + ROWS[2:]):
        for name, text in zip(("first", "second"), texts, strict=True):
            numbers = corpus.row(row, name).tolist()
            assert (
                numbers == vocabulary.word_ids(tokenize(text, "english")) and UNKNOWN not in numbers
            )
    dev = texts_of(path / "dev")
    assert dev == [list(texts) for label, *texts in ROWS if label != "-"]
    assert not (path / "train" / "texts.jsonl").exists()


def test_examples_without_a_label_are_dropped_and_counted(folder):
    dropped = Corpus.open(built(folder) / "dev").meta["dropped"]
    assert dropped == {"labelled '-'": {"count": 1, "first": [f"{folder}/dev.tsv:2"]}}


REVIEWS = [
    ('{"stars": 6, "text": "Good."}', "label '6': none of data.labels=1,2,3,4,5"),
    ('{"stars": 1.5, "text": "Good."}', "label '1.5': none of data.labels=1,2,3,4,5"),
    ('{"stars": 4, "text": " \\n"}', "a text without a word"),
    ('{"stars": 4, "text": ""}', "a text without a word"),
    (json.dumps({"stars": 4, "text": "good " * 5000}), "5000 words: over data.max_length=400"),
    ('{"stars": 4, "text": "Go', ":22: not JSON"),
    ('{"stars": 4}', "no 'text'; it has stars"),
]


@pytest.mark.parametrize(("line", "message"), REVIEWS)
def test_a_bad_review_is_one_line_or_skipped_and_counted(tmp_path, line, message):
    good = json.dumps({"stars": 4, "text": "Good soup."})
    (tmp_path / "train.json").write_text(f"{good}\n{line}\n")
    (tmp_path / "dev.json").write_text(f"{good}\n")
    files = {"train": "train.json", "dev": "dev.json", "test": "dev.json"}
    options = {**files, "format": "texts", "labels": "1,2,3,4,5"}
    with pytest.raises(UserError) as error:
        built(tmp_path, **options)
    actual = str(error.value)
    assert actual.startswith(f"{tmp_path}/train.json:2") and message in actual
    assert actual.endswith("; fix it, or set data.on_bad_example=skip")
    assert "\n" not in actual and len(actual) < 300
    (tmp_path / "built").rmdir()
    corpus = Corpus.open(built(tmp_path, **options, on_bad_example="skip") / "train")
    assert corpus.columns == ("first", "label") and len(corpus) == 1
    assert [fault["count"] for fault in corpus.meta["dropped"].values()] == [1]


def test_texts_of_several_labels_of_several_splits_and_equal_ones_are_counted(folder):
    rows = [("neutral", "a b", "c"), ("entailment", "A b", "c"), ("neutral", "a b", "c")]
    rows += [("neutral", "same", "same"), ("neutral", "a", "b c")]
    table(folder, "train.tsv", rows)
    table(folder, "dev.tsv", [rows[0], ("neutral", "b a", "c"), *rows[3:]])
    path = built(folder)
    meta = {split: Corpus.open(path / split).meta for split in ("train", "dev")}
    assert [meta[s]["several_labels"] for s in meta] == [1, 0]
    assert [meta[s]["equal"] for s in meta] == [1, 1]
    assert read_overlaps(path) == {"train": {}, "dev": {"train": [3, 4]}, "test": {
        "train": [3, 4], "dev": [4, 4]
    }}  # fmt: skip


def test_no_remaining_examples_is_one_line(folder):
    table(folder, "train.tsv", ROWS[1:2])
    for options in ({}, {"dev": "", "test": ""}):
        with pytest.raises(UserError) as error:
            Builder(config(folder, **options), WORDS).build(folder)
        assert str(error.value) == (
            f"{folder}/train.tsv: no examples left for train: 1 labelled '-' ({folder}/train.tsv:1)"
        )


def test_dev_and_test_are_held_out_by_premise(tmp_path):
    rows = [("neutral", f"Premise {n // 3}.", f"Hypothesis {n}.") for n in range(90)]
    table(tmp_path, "train.tsv", rows)
    path = built(tmp_path, dev="", test="", holdout_size=10)
    texts = [texts_of(path / split) for split in ("dev", "test")]
    assert [len(pairs) for pairs in texts] == [12, 12]
    premises = [{premise for premise, _ in pairs} for pairs in texts]
    assert not premises[0] & premises[1]
    assert len(Corpus.open(path / "train")) == 66


def test_lins_split_samples_what_is_trained_on(tmp_path):
    """Lin et al.'s 500,000, 2,000 and 2,000 reviews, in small."""
    rows = [(str(1 + n % 5), f"review number {n} is unlike others") for n in range(400)]
    table(tmp_path, "train.tsv", rows)
    options = {"format": "texts", "labels": "1,2,3,4,5", "dev": "", "test": "", "holdout_size": 20}
    path = built(tmp_path, **options, examples=250)
    sizes = [len(Corpus.open(path / split)) for split in ("train", "dev", "test")]
    assert sizes == [250, 20, 20]


def test_training_can_be_balanced(tmp_path):
    rows = [("neutral" if n % 4 else "entailment", f"p {n}", f"h {n}") for n in range(40)]
    table(tmp_path, "train.tsv", rows)
    path = built(tmp_path, dev="train.tsv", test="train.tsv", balanced=True)
    assert collections.Counter(column(Corpus.open(path / "train"), "label")) == {0: 10, 1: 10}
    assert len(Corpus.open(path / "dev")) == 40
    other = tmp_path / "other"  # a test set of a run with balanced training
    other.mkdir()
    options = {"dev": "train.tsv", "test": "train.tsv", "balanced": True}
    preparation = Preparation(path, splits=("test",))
    Builder(config(tmp_path, **options), WORDS, (), preparation).build(other)
    assert len(Corpus.open(other / "test")) == 40


def test_words_of_other_splits_with_vectors_are_in_the_vocabulary(folder):
    table(folder, "dev.tsv", [("neutral", "A zebra Eats zwieback.", "A yak.")])
    (folder / "glove.txt").write_text("Eats 1 2\nzebra 3 4\nYAK 5 6\nunused 7 8\nman 9 9\n")
    vectors = str(folder / "glove.txt")
    path = built(folder, vectors=vectors)
    vocabulary = Vocabulary.load(path)
    ids = {w: vocabulary.word_ids([w])[0] for w in ("zebra", "yak", "zwieback", "unused", "cats")}
    assert [w for w, number in ids.items() if number == UNKNOWN] == ["zwieback", "unused"]
    with np.load(path / VECTORS) as arrays:
        begun = dict(zip(arrays["numbers"].tolist(), arrays["vectors"].tolist(), strict=True))
    words = {"eats": [1, 2], "zebra": [3, 4], "yak": [5, 6], "man": [9, 9]}
    assert begun == {vocabulary.word_ids([word])[0]: vector for word, vector in words.items()}
    few = folder / "few"
    few.mkdir()
    Builder(config(folder, vectors=vectors), dataclasses.replace(WORDS, rows=5)).build(few)
    with np.load(few / VECTORS) as arrays:
        assert set(arrays["numbers"].tolist()) <= {2, 3, 4}
    counts = collections.Counter(
        w for _, *texts in ROWS[:1] + ROWS[2:] for t in texts for w in tokenize(t, "english")
    )
    frequent = sorted(counts, key=lambda w: (-counts[w], w))[:3]
    assert sorted(Vocabulary.load(few).word_ids(frequent)) == [2, 3, 4]


def test_what_is_ranked_has_questions_and_overlaps(tmp_path):
    anss.write(tmp_path)
    path = built(tmp_path, **anss.FORM, **anss.FILES)
    corpus = Corpus.open(path / "dev")
    assert corpus.columns == columns("ranking")
    texts = texts_of(path / "dev")
    questions = list(dict.fromkeys(question for question, _ in texts))
    assert column(corpus, "question") == [questions.index(question) for question, _ in texts]
    for row, pair in enumerate(texts):
        question, sentence = (set(tokenize(text, "english")) for text in pair)
        expected = [len(question & sentence), len(question), len(sentence)]
        assert corpus.row(row, "overlap").tolist() == expected


def test_all_that_decides_the_content_is_in_the_fingerprint(folder, monkeypatch):
    (folder / "glove.txt").write_text("a 1 2\n")
    before = Builder(config(folder), WORDS).fingerprint()
    assert json.loads(json.dumps(before)) == before
    changes = [
        *(
            {"seed": 1, "dev": ""},
            {"dev": ""},
            {"holdout_size": 7},
            {"examples": 3},
            {"max_length": 9},
        ),
        *({"labels": "neutral,entailment,contradiction"}, {"ignored_labels": "-,hidden"}),
        *({"balanced": True}, {"on_bad_example": "skip"}, {"vectors": str(folder / "glove.txt")}),
    ]
    made = lambda words=WORDS, **options: Builder(config(folder, **options), words).fingerprint()
    fingerprints = [before, made(dataclasses.replace(WORDS, rows=99))]
    fingerprints += [made(**options) for options in changes]
    table(folder, "dev.tsv", ROWS[2:])
    fingerprints.append(made())
    table(folder, "dev.tsv", ROWS)
    monkeypatch.setattr(word_level, "TOKENISER", recorded_identity(1, "another"))
    fingerprints.append(made())
    monkeypatch.undo()
    assert len({json.dumps(f, sort_keys=True) for f in fingerprints}) == len(fingerprints)
    assert made() == before


def test_another_selection_prepares_anew(tmp_path, monkeypatch):
    anss.write(tmp_path)
    ranking = config(tmp_path, **anss.FORM, **anss.FILES)
    before = Builder(ranking, WORDS).fingerprint()
    monkeypatch.setattr(selection, "IDENTITY", recorded_identity(1, "another"))
    assert Builder(ranking, WORDS).fingerprint() != before
