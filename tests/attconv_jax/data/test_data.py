"""LabelledData: held-out splits, samples, vocabulary and batches of labelled texts, and of
questions with right and wrong sentences."""

import collections
import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attconv_jax.config import WordsConfig
from attconv_jax.data.dataset import YES, LabelledData
from attconv_jax.data.prepare import balance, columns, overlap
from attconv_jax.data.text import tokenize
from common_jax.data.corpus import Corpus
from common_jax.data.prepared import Preparation
from common_jax.errors import UserError
from common_jax.text.vocabulary import UNKNOWN, Vocabulary
from tests.attconv_jax import anss
from tests.families.data import corpora
from tests.families.data.corpora import NAMES, labelled, write_rows
from tests.families.data.test_prepared import overlapping_texts

WORDS = WordsConfig(dim=2, rows=400, rule="english")
PAIRS = [
    (NAMES[n % 3], "Some " * (n % 5) + f"premise {n}.", f"Hypothesis {n}" + " more" * (n % 7))
    for n in range(30)
]
SPLITS = {"train": PAIRS, "dev": PAIRS[:8], "test": PAIRS[20:]}


@pytest.fixture
def folder(tmp_path):
    for name, rows in SPLITS.items():
        write_rows(tmp_path, f"{name}.tsv", rows)
    return tmp_path


def prepared(folder, **options) -> LabelledData:
    return labelled(folder, words=WORDS, **options)


def plain(value):
    return int(value) if value.ndim == 0 else value[value > 0].tolist()


def rows_of(batches, epoch=0):
    """The rows of an epoch by example index, without padding."""
    rows = corpora.rows_of(batches, epoch)
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def ids(data, text):
    return data.vocabulary.word_ids(tokenize(text, "english"))


@pytest.mark.parametrize("split", SPLITS)
def test_a_batch_has_the_texts_and_the_label(folder, split):
    made = prepared(folder, labels=f"{NAMES[2]}, {NAMES[0]} ,{NAMES[1]}")
    batches = made.train_batches(0) if split == "train" else made.split_batches(split)
    for row, (label, premise, hypothesis) in zip(rows_of(batches), SPLITS[split], strict=True):
        assert row["first"] == ids(made, premise) and row["second"] == ids(made, hypothesis)
        assert made.config.names[row["label"]] == label
        assert UNKNOWN not in row["first"] + row["second"]
    if split != "train":
        assert made.texts(split) == [list(pair) for _, *pair in SPLITS[split]]
    assert (made.path / split / "texts.jsonl").exists() == (split != "train")


def test_single_texts(folder):
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        write_rows(folder, name, [("5", "Good soup."), ("1", "Bad.")])
    made = prepared(folder, format="texts")
    for batches in (made.train_batches(0), made.split_batches("dev")):
        rows = rows_of(batches)
        assert [row.keys() for row in rows] == [{"index", "first", "label"}] * 2
        assert [row["label"] for row in rows] == [4, 0]
        assert rows[0]["first"] == made.vocabulary.word_ids(["good", "soup", "."])


def test_labels_are_counted_and_absent_ones_are_named(folder, caplog):
    write_rows(folder, "train.tsv", [*PAIRS, ("-", "a", "b")])
    write_rows(folder, "dev.tsv", [row for row in PAIRS if row[0] == "neutral"])
    write_rows(folder, "test.tsv", [row for row in PAIRS if row[0] != "neutral"])
    with caplog.at_level("INFO"):
        prepared(folder)
    assert [line for line in caplog.messages if "labelled '" in line or " examples (" in line] == [
        f"train: kept 30 examples, left out 1 labelled '-' ({folder}/train.tsv:31)",
        "train: 30 examples (10 entailment, 10 neutral, 10 contradiction)",
        "dev: 10 examples (0 entailment, 10 neutral, 0 contradiction)",
        "dev: no example labelled 'entailment', 'contradiction': all examples have one label",
        "test: 20 examples (10 entailment, 0 neutral, 10 contradiction)",
        "test: no example labelled 'neutral'",
    ]


@pytest.mark.parametrize("vectors", ["", "zebra 1 2\nokapi 4 5\npremise 7 8\n"])
def test_other_texts_are_read_in_the_words_of_the_run(folder, vectors):
    """A run has the words with vectors of its own test split, but not those of another file."""
    if vectors:
        (folder / "glove.txt").write_text(vectors)
    files = {"vectors": str(folder / "glove.txt") if vectors else ""}
    write_rows(folder, "test.tsv", [("neutral", "A zebra premise.", "Hypothesis 1")])
    run = folder / "run"
    run.mkdir()
    trained = prepared(folder, **files)
    trained.vocabulary.save(run)
    write_rows(folder, "more.tsv", [("neutral", "An okapi premise.", "Hypothesis 2 zebra")] * 3)
    other = prepared(folder, prepare=False, **files, test="more.tsv")
    other.read_vocabulary(run)
    other.prepare()
    assert other.vocabulary.word_ids(["zebra"]) == trained.vocabulary.word_ids(["zebra"])
    for row in rows_of(other.split_batches("test")):
        assert row["first"] == ids(trained, "an okapi premise.")
        assert row["second"] == ids(trained, "hypothesis 2 zebra")
        assert row["first"][1] == UNKNOWN
        assert (row["second"][2] == UNKNOWN) == (not vectors)
    if vectors:  # the other corpus numbers words differently
        assert Vocabulary.load(other.path).word_ids(["okapi"]) != [UNKNOWN]
        with pytest.raises(UserError, match="other words than the run was trained on"):
            other.train_batches(0)
    else:
        assert len(rows_of(other.train_batches(0))) == 30


def sizes(data):
    return [count for count, _ in data.split_sizes().values()]


def test_texts_of_several_labels_and_equal_ones_are_counted(folder):
    overlapping_texts(folder)
    meta = [Corpus.open(prepared(folder).path / split).meta for split in ("train", "dev")]
    assert [each["several_labels"] for each in meta] == [1, 0]
    assert [each["equal"] for each in meta] == [1, 1]


def test_dev_and_test_are_held_out_by_premise(tmp_path):
    rows = [("neutral", f"Premise {n // 3}.", f"Hypothesis {n}.") for n in range(90)]
    write_rows(tmp_path, "train.tsv", rows)
    made = prepared(tmp_path, dev="", test="", holdout_size=10)
    dev, test = ({premise for premise, _ in made.texts(split)} for split in ("dev", "test"))
    assert sizes(made) == [66, 12, 12] and not dev & test


def test_a_sample_of_what_is_not_held_out_is_trained_on(tmp_path):
    """Lin et al.'s split of 500,000, 2,000 and 2,000 reviews, in small."""
    rows = [(str(1 + n % 5), f"review number {n} is unlike others") for n in range(400)]
    write_rows(tmp_path, "train.tsv", rows)
    options = {"format": "texts", "dev": "", "test": "", "holdout_size": 20}
    assert sizes(prepared(tmp_path, **options, examples=250)) == [250, 20, 20]


def test_training_can_be_balanced(tmp_path):
    rows = [("neutral" if n % 4 else "entailment", f"p {n}", f"h {n}") for n in range(40)]
    write_rows(tmp_path, "train.tsv", rows)
    made = labelled(tmp_path, "train.tsv", words=WORDS, balanced=True)
    labels = Corpus.open(made.path / "train").column("label").tolist()
    assert collections.Counter(labels) == {0: 10, 1: 10} and sizes(made) == [20, 40, 40]
    run = tmp_path / "run"
    run.mkdir()
    made.vocabulary.save(run)
    other = LabelledData(made.config, WORDS)  # a test set of this run
    other.preparation = Preparation(run, splits=("test",))
    other.prepare()
    assert [*other.split_sizes()] == ["test"] and other.split_sizes()["test"][0] == 40


def initial_vectors(made):
    numbers, vectors = made.vectors()
    return dict(zip(numbers.tolist(), vectors.tolist(), strict=True))


def test_words_of_other_splits_with_vectors_are_in_the_vocabulary(folder):
    for name in ("dev.tsv", "test.tsv"):
        write_rows(folder, name, [("neutral", "A zebra Eats zwieback.", "A yak.")])
    content = "More 1 2\nzebra 3 4\nYAK 5 6\nunused 7 8\npremise 9 9\n"
    (folder / "glove.txt").write_text(content)
    vectors = str(folder / "glove.txt")
    made = prepared(folder, vectors=vectors)
    number = lambda word: made.vocabulary.word_ids([word])[0]
    words = ("zebra", "yak", "zwieback", "unused", "premise")
    assert [w for w in words if number(w) == UNKNOWN] == ["zwieback", "unused"]
    expected = {"more": [1, 2], "zebra": [3, 4], "yak": [5, 6], "premise": [9, 9]}
    assert initial_vectors(made) == {number(word): vector for word, vector in expected.items()}
    few = labelled(folder, words=dataclasses.replace(WORDS, rows=5), vectors=vectors)
    assert {*initial_vectors(few)} <= {2, 3, 4}
    texts = [text for _, *pair in PAIRS for text in pair]
    counts = collections.Counter(w for text in texts for w in tokenize(text, "english"))
    frequent = sorted(counts, key=lambda w: (-counts[w], w))[:3]
    assert sorted(few.vocabulary.word_ids(frequent)) == [2, 3, 4]


def ranking(folder, squad=None):
    """The data of train.json and dev.json; `squad` is another content of train.json."""
    anss.write(folder)
    if squad:
        (folder / "train.json").write_text(json.dumps(squad))
    return prepared(folder, **anss.FORM, **anss.FILES, batch_size=5)


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    return ranking(tmp_path_factory.mktemp("ranked"))


@pytest.fixture
def squad(tmp_path):
    anss.write(tmp_path)
    return json.loads((tmp_path / "train.json").read_text())


def sentences(article, number):
    context, questions = anss.passage(article, number)
    return [f"{part}." for part in context.removesuffix(".").split(". ")], questions


def test_training_has_a_right_and_a_wrong_sentence_of_each_question(ranked):
    expected = {}
    for article, number in itertools.product(range(12), range(2)):
        parts, questions = sentences(article, number)
        for question, place in questions.items():
            if len(parts) > 1:
                right = {tuple(ids(ranked, part)) for part in parts if place in part}
                every = {tuple(ids(ranked, part)) for part in parts}
                expected[tuple(ids(ranked, question))] = right, every - right
    batches = ranked.train_batches(3)
    counts = collections.defaultdict(collections.Counter)
    for epoch in range(40):
        rows = rows_of(batches, epoch)
        assert len(rows) == len(expected) == 60 - 6
        for row in rows:
            right, wrong = expected[tuple(row["first"])]
            assert tuple(row["second"]) in right and tuple(row["other"]) in wrong
            counts[tuple(row["first"])][tuple(row["other"])] += 1
    for question, (_, wrong) in expected.items():
        assert counts[question].keys() == wrong  # each is drawn in some epoch
    assert batches.questions.left_out == 6


def test_samples_are_a_function_of_seed_and_epoch(ranked):
    draw = lambda seed, epoch: [row["other"] for row in rows_of(ranked.train_batches(seed), epoch)]
    assert draw(3, 1) == draw(3, 1)
    assert draw(3, 1) != draw(3, 2) and draw(3, 1) != draw(4, 1)


def test_right_sentences_are_sampled_uniformly(tmp_path, squad):
    """Among right sentences among three and among four."""
    for article, number in itertools.product(range(12), range(2)):
        paragraph = squad["data"][article]["paragraphs"][number]
        answers = [a for qa in paragraph["qas"] for a in qa["answers"]]
        question = {**paragraph["qas"][0], "answers": answers[:2]}
        paragraph["qas"] = [question] if article == 2 else []
    batches = ranking(tmp_path, squad).train_batches(0)
    counts = collections.defaultdict(collections.Counter)
    for epoch in range(60):
        for at, row in enumerate(rows_of(batches, epoch)):
            for name in ("second", "other"):
                counts[at, name][tuple(row[name])] += 1
    assert [len(counts[key]) for key in sorted(counts)] == [1, 2, 2, 2]
    assert min(counts[0, "second"].values()) > 15 and min(counts[1, "other"].values()) > 15


def test_evaluation_has_every_sentence(ranked):
    expected = []
    for article, number in itertools.product(range(20, 23), range(2)):
        parts, questions = sentences(article, number)
        expected += [(q, p, place in p) for q, place in questions.items() for p in parts]
    assert ranked.texts("dev") == [[question, part] for question, part, _ in expected]
    rows = rows_of(ranked.split_batches("dev"))
    for row, (question, part, right) in zip(rows, expected, strict=True):
        assert row["first"] == ids(ranked, question) and row["second"] == ids(ranked, part)
        assert (row["label"] == YES) == right


def test_nothing_to_learn_ranking_from_is_one_line(tmp_path, squad):
    squad["data"] = [{"title": "One", "paragraphs": squad["data"][0]["paragraphs"][:1]}]
    with pytest.raises(UserError, match=r"^data\.train: no passage has both a sentence"):
        ranking(tmp_path, squad).train_batches(0)


def test_ranked_sentences_have_questions_and_overlaps(ranked):
    corpus, texts = Corpus.open(ranked.path / "dev"), ranked.texts("dev")
    assert corpus.columns == columns("ranking")
    questions = list(dict.fromkeys(question for question, _ in texts))
    expected = [questions.index(question) for question, _ in texts]
    assert corpus.column("question").tolist() == expected
    for row, pair in enumerate(texts):
        question, sentence = (set(tokenize(text, "english")) for text in pair)
        expected = [len(question & sentence), len(question), len(sentence)]
        assert corpus.row(row, "overlap").tolist() == expected


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
    expected = ("the", "u.s.", "ca", "n't", "—", "stop", ",", "zoë", ".")
    assert tokenize("The U.S. can't—STOP, Zoë.", "english") == expected
