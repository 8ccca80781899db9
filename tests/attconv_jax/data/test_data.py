"""LabelledData: batches of labelled texts, and of questions with right and wrong sentences."""

import collections
import itertools
import json

import numpy as np
import pytest

from attconv_jax.config import DataConfig, WordsConfig
from attconv_jax.data.dataset import YES, LabelledData
from attconv_jax.data.text import tokenize
from common_jax.errors import UserError
from common_jax.text.vocabulary import UNKNOWN, Vocabulary
from tests.attconv_jax import anss

WORDS = WordsConfig(dim=3, rows=400, rule="english")
NAMES = ("entailment", "neutral", "contradiction")
PAIRS = [
    (NAMES[n % 3], "Some " * (n % 5) + f"premise {n}.", f"Hypothesis {n}" + " more" * (n % 7))
    for n in range(30)
]


def table(folder, name, rows):
    path = folder / name
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture
def folder(tmp_path):
    for name, rows in (("train", PAIRS), ("dev", PAIRS[:8]), ("test", PAIRS[20:])):
        table(tmp_path, f"{name}.tsv", rows)
    return tmp_path


def data(folder, words=WORDS, **changes):
    files = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
    fields = {"dir": str(folder), "cache_dir": str(folder / "cache"), "batch_size": 4, **files}
    return LabelledData(DataConfig(**(fields | changes)), words)


def prepared(folder, words=WORDS, **changes):
    made = data(folder, words, **changes)
    made.prepare()
    return made


def plain(value):
    return int(value) if value.ndim == 0 else value[value > 0].tolist()


def rows_of(batches, epoch=0):
    """The rows of an epoch by example index, without padding."""
    rows = {}
    for batch in batches.epoch(epoch):
        for row, index in enumerate(batch["index"].tolist()):
            if index >= 0:
                assert index not in rows
                rows[index] = {name: plain(values[row]) for name, values in batch.items()}
    return [rows[index] for index in sorted(rows)]


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_batch_has_the_texts_and_the_label(folder, split):
    made = prepared(folder)
    texts = {"train": PAIRS, "dev": PAIRS[:8], "test": PAIRS[20:]}[split]
    batches = made.train_batches(0) if split == "train" else made.split_batches(split)
    rows = rows_of(batches)
    assert len(rows) == len(texts)
    for row, (label, premise, hypothesis) in zip(rows, texts, strict=True):
        assert row["first"] == made.vocabulary.word_ids(tokenize(premise, "english"))
        assert row["second"] == made.vocabulary.word_ids(tokenize(hypothesis, "english"))
        assert NAMES[row["label"]] == label
    if split != "train":
        assert made.texts(split) == [list(pair) for _, *pair in texts]


def test_training_batches_have_the_configured_size_and_are_shuffled(folder):
    batches = prepared(folder).train_batches(1)
    orders = []
    for epoch in range(3):
        read = list(batches.epoch(epoch))
        assert all(len(batch["index"]) == 4 for batch in read)
        index = np.concatenate([batch["index"] for batch in read])
        orders.append(index[index >= 0].tolist())
        assert sorted(orders[-1]) == list(range(30))
    assert orders[0] != orders[1] != orders[2]


def test_single_texts(folder):
    for name in ("train.tsv", "dev.tsv"):
        table(folder, name, [("5", "Good soup."), ("1", "Bad.")])
    files = {"dev": "dev.tsv", "test": "dev.tsv"}
    made = prepared(folder, format="texts", labels="1,2,3,4,5", **files)
    for batches in (made.train_batches(0), made.split_batches("dev")):
        rows = rows_of(batches)
        assert [row.keys() for row in rows] == [{"index", "first", "label"}] * 2
        assert [row["label"] for row in rows] == [4, 0]
        assert rows[0]["first"] == made.vocabulary.word_ids(["good", "soup", "."])


def test_prepared_corpora_are_reused(folder, caplog):
    table(folder, "train.tsv", [*PAIRS, ("-", "a", "b")])
    with caplog.at_level("INFO"):
        for _ in range(2):
            made = prepared(folder)
            made.report()
    messages = [record.getMessage() for record in caplog.records]
    assert (
        messages[0].startswith("in 0 s prepared 48 examples in") and str(made.path) in messages[0]
    )
    assert (
        messages[1] == f"train: kept 30 examples, left out 1 labelled '-' ({folder}/train.tsv:31)"
    )
    assert messages[2:4] == [
        "8 of 8 examples of dev are also in train",
        "10 of 10 examples of test are also in train",
    ]
    assert messages[4] == "words.rule=english splits the texts into words"
    assert messages[5] == "no data.vectors: word vectors are trained from scratch"
    assert messages[6:9] == [
        "train: 30 examples (10 entailment, 10 neutral, 10 contradiction)",
        "dev: 8 examples (3 entailment, 3 neutral, 2 contradiction)",
        "test: 10 examples (3 entailment, 3 neutral, 4 contradiction)",
    ]
    assert messages[9].startswith("found 48 examples in")
    assert made.prepared and not data(folder).prepared
    for attribute in ("path", "vocabulary"):
        with pytest.raises(RuntimeError, match=r"LabelledData: call prepare\(\)"):
            getattr(data(folder), attribute)


def test_absent_labels_are_named(folder, caplog):
    table(folder, "dev.tsv", [row for row in PAIRS if row[0] == "neutral"])
    table(folder, "test.tsv", [row for row in PAIRS if row[0] != "neutral"])
    with caplog.at_level("WARNING"):  # commands of other tests have set another
        prepared(folder).report()
    messages = [record.getMessage() for record in caplog.records]
    assert [message for message in messages if "labelled" in message] == [
        "dev: no example labelled 'entailment', 'contradiction': all examples have one label",
        "test: no example labelled 'neutral'",
    ]


def test_coverage_of_vectors_is_reported(folder, caplog):
    (folder / "glove.txt").write_text("premise 1 2 3\nHypothesis 4 5 6\nbad 1\n")
    with pytest.raises(UserError, match=r"^data\.vectors: .*glove\.txt:3: 1 numbers after a word"):
        prepared(folder, vectors=str(folder / "glove.txt"))
    made = prepared(folder, vectors=str(folder / "glove.txt"), on_bad_example="skip")
    with caplog.at_level("INFO"):
        made.report()
    distinct = {word for _, *pair in PAIRS for text in pair for word in tokenize(text, "english")}
    share = f"{200 / len(distinct):.1f}% of {len(distinct)} distinct words have a vector"
    assert share in caplog.text and "left out 1 1 numbers after a word, not 3" in caplog.text
    numbers, vectors = made.vectors()
    expected = {"premise": [1, 2, 3], "hypothesis": [4, 5, 6]}
    for word, vector in expected.items():
        (row,) = np.flatnonzero(numbers == made.vocabulary.word_ids([word])[0])
        assert vectors[row].tolist() == vector
    assert prepared(folder).vectors() is None


@pytest.mark.parametrize("vectors", ["", "zebra 1 2 3\nokapi 4 5 6\npremise 7 8 9\n"])
def test_other_texts_are_read_in_the_words_of_the_run(folder, vectors):
    """A run has the words with vectors of its own test split, but not those of another file."""
    if vectors:
        (folder / "glove.txt").write_text(vectors)
    files = {"vectors": str(folder / "glove.txt") if vectors else ""}
    table(folder, "test.tsv", [("neutral", "A zebra premise.", "Hypothesis 1")])
    run = folder / "run"
    run.mkdir()
    trained = prepared(folder, **files)
    trained.vocabulary.save(run)
    table(folder, "more.tsv", [("neutral", "An okapi premise.", "Hypothesis 2 zebra")] * 3)
    other = data(folder, **files, test="more.tsv")
    other.read_vocabulary(run)
    other.prepare()
    assert other.vocabulary.word_ids(["zebra"]) == trained.vocabulary.word_ids(["zebra"])
    for row in rows_of(other.split_batches("test")):
        assert row["first"] == trained.vocabulary.word_ids(["an", "okapi", "premise", "."])
        assert row["second"] == trained.vocabulary.word_ids(["hypothesis", "2", "zebra"])
        assert row["first"][1] == UNKNOWN
        assert (row["second"][2] == UNKNOWN) == (not vectors)
    if vectors:  # the other corpus numbers words differently
        assert Vocabulary.load(other.path).word_ids(["okapi"]) != [UNKNOWN]
        with pytest.raises(UserError, match="other words than the run was trained on"):
            other.train_batches(0)
    else:
        assert len(rows_of(other.train_batches(0))) == 30


RANKING = anss.FORM | {"batch_size": 5}


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranked")
    anss.write(folder)
    return prepared(folder, **RANKING, **anss.FILES)


def sentences(article, number):
    context, questions = anss.passage(article, number)
    return [f"{part}." for part in context.removesuffix(".").split(". ")], questions


def test_training_has_a_right_and_a_wrong_sentence_of_each_question(ranked):
    words = lambda text: tuple(ranked.vocabulary.word_ids(tokenize(text, "english")))
    expected = {}
    for article in range(12):
        for number in range(2):
            parts, questions = sentences(article, number)
            for question, place in questions.items():
                if len(parts) > 1:
                    right = {words(part) for part in parts if place in part}
                    expected[words(question)] = right, {words(part) for part in parts} - right
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


def test_right_sentences_are_sampled_uniformly(tmp_path):
    anss.write(tmp_path)
    squad = json.loads((tmp_path / "train.json").read_text())
    for article, number in itertools.product(range(12), range(2)):
        paragraph = squad["data"][article]["paragraphs"][number]
        answers = [a for qa in paragraph["qas"] for a in qa["answers"]]
        questions = [{**paragraph["qas"][0], "answers": answers[:2]}]
        paragraph["qas"] = (
            questions if article == 2 else []
        )  # right sentences among three and among four
    (tmp_path / "train.json").write_text(json.dumps(squad))
    batches = prepared(tmp_path, **RANKING, **anss.FILES).train_batches(0)
    counts = collections.defaultdict(collections.Counter)
    for epoch in range(60):
        for at, row in enumerate(rows_of(batches, epoch)):
            for name in ("second", "other"):
                counts[at, name][tuple(row[name])] += 1
    assert [len(counts[key]) for key in sorted(counts)] == [1, 2, 2, 2]
    assert min(counts[0, "second"].values()) > 15 and min(counts[1, "other"].values()) > 15


def test_evaluation_has_every_sentence(ranked):
    rows = rows_of(ranked.split_batches("dev"))
    expected = []
    for article in range(20, 23):
        for number in range(2):
            parts, questions = sentences(article, number)
            expected += [(q, p, int(place in p)) for q, place in questions.items() for p in parts]
    assert ranked.texts("dev") == [[question, part] for question, part, _ in expected]
    assert [row["label"] == YES for row in rows] == [bool(label) for *_, label in expected]
    for row, (question, part, _) in zip(rows, expected, strict=True):
        assert row["first"] == ranked.vocabulary.word_ids(tokenize(question, "english"))
        assert row["second"] == ranked.vocabulary.word_ids(tokenize(part, "english"))


def test_nothing_to_learn_ranking_from_is_one_line(tmp_path):
    anss.write(tmp_path)
    squad = json.loads((tmp_path / "train.json").read_text())
    squad["data"] = [{"title": "One", "paragraphs": squad["data"][0]["paragraphs"][:1]}]
    (tmp_path / "train.json").write_text(json.dumps(squad))
    made = prepared(tmp_path, **RANKING, **anss.FILES)
    with pytest.raises(UserError, match=r"^data\.train: no passage has both a sentence"):
        made.train_batches(0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"examples": -1}, "data.examples=-1: at least 0"),
        ({**RANKING, "examples": 5}, "data.examples=5: rankings are not sampled"),
        ({**RANKING, "balanced": True}, "data.balanced: not for data.format=ranking"),
        ({"negatives": 5}, "data.negatives=5: only for data.format=ranking"),
        (
            {"ignored_labels": "-,neutral"},
            "data.ignored_labels='-,neutral': some are in data.labels",
        ),
        ({**RANKING, "labels": "yes,no"}, "data.labels='yes,no': must be no,yes"),
    ],
)
def test_configs_that_cannot_be(folder, changes, message):
    with pytest.raises(UserError, match=message):
        data(folder, **changes)
