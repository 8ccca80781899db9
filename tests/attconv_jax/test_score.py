"""Scores of labels and of rankings against brute force."""

import json

import numpy as np
import pytest
from scipy.special import log_softmax

from attconv_jax.data.prepare import columns
from attconv_jax.score import label_errors, ranking_errors, score_labels, score_ranking
from common_jax.data.corpus import Corpus, Writer
from common_jax.metrics.classification import wilson_interval

NAMES = ("low", "middle", "high")
RANDOM = np.random.default_rng(0)


def corpus(folder, format, rows):
    with Writer(folder, columns(format)) as writer:
        for row in rows:
            writer.append(dict(zip(columns(format), row, strict=True)))
    return Corpus.open(folder)


def cross_entropy(logits, labels):
    return -log_softmax(logits, axis=1)[range(len(labels)), labels].mean()


@pytest.mark.parametrize("format", ["texts", "pairs"])
def test_accuracy_its_interval_the_confusion_and_the_lengths(tmp_path, format):
    texts = 1 if format == "texts" else 2
    rows = [
        (*([5] * RANDOM.integers(1, 9) for _ in range(texts)), [RANDOM.integers(3)])
        for _ in range(57)
    ]
    likely = RANDOM.dirichlet([1, 1, 1], 57)
    metrics, notes, results = score_labels(corpus(tmp_path, format, rows), likely, NAMES)
    gold = np.array([row[-1][0] for row in rows])
    predicted = likely.argmax(1)
    right = gold == predicted
    assert metrics["accuracy"] == pytest.approx(100 * right.mean())
    assert metrics["nll"] == pytest.approx(cross_entropy(likely, gold), abs=1e-12)
    assert (notes["correct"], notes["examples"]) == (right.sum(), 57)
    interval = [round(100 * end, 2) for end in wilson_interval(int(right.sum()), 57)]
    assert notes["intervals"]["accuracy"] == interval
    confusion = np.zeros((3, 3), int)
    np.add.at(confusion, (gold, predicted), 1)
    counts = [dict(zip(NAMES, row, strict=True)) for row in confusion.tolist()]
    assert notes["confusion"] == dict(zip(NAMES, counts, strict=True))
    assert notes["majority_rate"] == round(100 * np.bincount(gold).max() / 57, 2)
    f1 = 100 * 2 * confusion.diagonal() / (confusion.sum(0) + confusion.sum(1))
    assert notes["f1_by_label"] == pytest.approx(dict(zip(NAMES, f1, strict=True)), abs=0.006)
    assert notes["macro_f1"] == pytest.approx(f1.mean(), abs=0.006)
    lengths = np.array([sum(map(len, row[:-1])) for row in rows])
    assert results["length"].tolist() == lengths.tolist()
    assert results["right"].tolist() == right.tolist() and len(results) == 2
    tenths = np.array_split(np.argsort(lengths, kind="stable"), 10)
    for (low, high, rate), members in zip(notes["by_length"], tenths, strict=True):
        assert (low, high) == (lengths[members[0]], lengths[members[-1]])
        assert rate == pytest.approx(100 * right[members].mean(), abs=0.006)
    assert json.dumps(notes)


def ranked(rows, scores):
    """The chance that one of each question's best rows is right; rows are (question, label)."""
    chances = []
    for question in sorted({question for question, _ in rows}):
        mine = [at for at, row in enumerate(rows) if row[0] == question]
        best = max(scores[at] for at in mine)
        tied = [rows[at][1] for at in mine if scores[at] == best]
        chances.append(sum(tied) / len(tied))
    return chances


def test_precision_at_1_is_of_all_questions(tmp_path):
    rows = []
    lengths = RANDOM.integers(1, 9, 40).tolist()
    for question in range(40):
        for sentence in range(RANDOM.integers(1, 6)):
            label = int(sentence == question % 7)  # some have no right sentence left
            overlap = [RANDOM.integers(0, 3), 6, RANDOM.integers(3, 9)]  # in both, and each text
            rows.append(([7] * lengths[question], [8], [label], [question], overlap))
    odds = RANDOM.integers(0, 4, len(rows)) + 100.0  # with ties; all probabilities are 1 in float32
    logits = np.stack([np.zeros(len(rows)), odds], axis=1)
    metrics, notes, results = score_ranking(corpus(tmp_path, "ranking", rows), logits)
    plain = [(row[3][0], row[2][0]) for row in rows]
    shares = lambda by: [row[4][0] / row[4][by] for row in rows]
    scores = {"precision_at_1": odds, "WordC1": shares(2), "WordC2": shares(1)}
    chances = {name: ranked(plain, score) for name, score in scores.items()}
    hits = chances["precision_at_1"]
    assert metrics["precision_at_1"] == pytest.approx(100 * sum(hits) / 40)
    labels = [row[2][0] for row in rows]
    assert metrics["nll"] == pytest.approx(cross_entropy(logits, labels), abs=1e-12)
    assert notes["examples"] == len(hits) == 40 and notes["pairs"] == len(rows)
    assert notes["correct"] == pytest.approx(sum(hits), abs=1e-6)
    assert results["right"].tolist() == hits and results["length"].tolist() == lengths
    for name in ("WordC1", "WordC2"):
        assert notes[name] == pytest.approx(2.5 * sum(chances[name]), abs=0.006)
    tied = {name: 2.5 * sum(0 < chance < 1 for chance in of) for name, of in chances.items()}
    assert notes["ties"] == tied and min(tied.values()) > 0
    alone = sum(sum(row[3] == [q] for row in rows) == 1 for q in range(40))
    assert notes["one_sentence"] == pytest.approx(100 * alone / 40)
    unanswerable = 40 - len({row[3][0] for row in rows if row[2] == [1]})
    assert unanswerable and notes["no_right_sentence"] == 100 * unanswerable / 40


def test_wrong_labels_have_texts_and_probabilities():
    logits = np.log([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]]) + 3
    gold = np.array([0, 2, 1])
    expected = [
        {"row": 2, "text": "b", "gold": "high", "predicted": "middle", "probability": 0.6},
        {"row": 3, "text": "c", "gold": "middle", "predicted": "high", "probability": 0.8},
    ]
    assert [*label_errors([["a"], ["b"], ["c"]], gold, logits, NAMES)] == expected
    pairs = [*label_errors([["a", "x"], ["b", "y"], ["c", "z"]], gold, logits, NAMES)]
    assert [(pair["first"], pair["second"]) for pair in pairs] == [("b", "y"), ("c", "z")]


def test_questions_answered_by_a_wrong_sentence(tmp_path):
    """The first is right, of the second the wrong sentence wins, the third has no right one."""
    pairs = [(0, 1, 0.9), (0, 0, 0.2), (1, 0, 0.8), (1, 1, 0.6), (2, 0, 0.5)]
    rows = [([7], [8], [label], [question], [0, 1, 1]) for question, label, _ in pairs]
    texts = [[f"q{question}", f"s{at}"] for at, (question, *_) in enumerate(pairs)]
    logits = np.log([[1 - p, p] for *_, p in pairs])
    expected = [
        {"row": 3, "text": "q1", "gold": "s3", "predicted": "s2", "probability": 0.8},
        {"row": 5, "text": "q2", "gold": "", "predicted": "s4", "probability": 0.5},
    ]
    assert [*ranking_errors(texts, corpus(tmp_path, "ranking", rows), logits)] == expected


def test_a_label_that_is_neither_gold_nor_predicted_has_no_f1(tmp_path):
    rows = [([5], [label]) for label in (0, 0, 0, 2)]
    metrics, notes, _ = score_labels(
        corpus(tmp_path, "texts", rows), np.eye(3)[[0, 0, 0, 0]], NAMES
    )
    assert metrics["accuracy"] == notes["majority_rate"] == 75
    assert notes["f1_by_label"] == {"low": 85.71, "high": 0}
    assert notes["macro_f1"] == 42.86


def test_tied_labels_count_as_their_chance(tmp_path):
    """Saturated and equal: two labels of three have the same logit in half of the texts."""
    rows = [([5], [label]) for label in (0, 1, 1, 2)]
    logits = np.array([[90.0, 90, 0], [90, 90, 0], [0, 90, 91], [0, 90, 91]])
    metrics, notes, results = score_labels(corpus(tmp_path, "texts", rows), logits, NAMES)
    assert results["right"].tolist() == [0.5, 0.5, 0, 1]
    assert (metrics["accuracy"], notes["correct"], notes["ties"]) == (50, 2, {"accuracy": 50})
    assert notes["confusion"] == {
        "low": {"low": 0.5, "middle": 0.5, "high": 0},
        "middle": {"low": 0.5, "middle": 0.5, "high": 1},
        "high": {"low": 0, "middle": 0, "high": 1},
    }
