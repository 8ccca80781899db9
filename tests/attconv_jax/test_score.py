"""Scores of labels and of rankings against brute force."""

import json

import numpy as np
import pytest

from attconv_jax.config import DataConfig, WordsConfig
from attconv_jax.data.dataset import LabelledData
from attconv_jax.data.prepare import columns
from attconv_jax.score import score_labels, score_ranking
from common_jax.data.corpus import Corpus, Writer
from common_jax.metrics.classification import wilson_interval
from tests.real import needs_real_data, real_data

NAMES = ("low", "middle", "high")
RANDOM = np.random.default_rng(0)


def corpus(folder, format, rows):
    with Writer(folder, columns(format)) as writer:
        for row in rows:
            writer.append(dict(zip(columns(format), row, strict=True)))
    return Corpus.open(folder)


@pytest.mark.parametrize("format", ["texts", "pairs"])
def test_accuracy_its_interval_the_confusion_and_the_lengths(tmp_path, format):
    texts = 1 if format == "texts" else 2
    rows = [
        (*([5] * RANDOM.integers(1, 9) for _ in range(texts)), [RANDOM.integers(3)])
        for _ in range(57)
    ]
    likely = RANDOM.dirichlet([1, 1, 1], 57)
    metrics, notes, results = score_labels(corpus(tmp_path, format, rows), likely, NAMES)
    gold = [int(row[-1][0]) for row in rows]
    predicted = [max(range(3), key=lambda label: chances[label]) for chances in likely]
    right = [a == b for a, b in zip(gold, predicted, strict=True)]
    assert metrics == {"accuracy": pytest.approx(100 * sum(right) / 57)}
    assert (notes["correct"], notes["examples"]) == (sum(right), 57)
    assert notes["intervals"]["accuracy"] == [
        round(100 * end, 2) for end in wilson_interval(sum(right), 57)
    ]
    for row, name in enumerate(NAMES):
        for column, other in enumerate(NAMES):
            count = sum(a == row and b == column for a, b in zip(gold, predicted, strict=True))
            assert notes["confusion"][name][other] == count
    assert notes["majority_rate"] == round(100 * max(map(gold.count, range(3))) / 57, 2)
    f1 = {}
    for label, name in enumerate(NAMES):
        hits = sum(a == b == label for a, b in zip(gold, predicted, strict=True))
        precision, recall = hits / predicted.count(label), hits / gold.count(label)
        f1[name] = 100 * 2 * precision * recall / (precision + recall)
    assert notes["f1_by_label"] == pytest.approx(f1, abs=0.006)
    assert notes["macro_f1"] == pytest.approx(sum(f1.values()) / 3, abs=0.006)
    lengths = [sum(map(len, row[:-1])) for row in rows]
    assert {name: column.tolist() for name, column in results.items()} == {
        "length": lengths,
        "right": right,
    }
    order = sorted(range(57), key=lambda at: lengths[at])
    assert len(notes["by_length"]) == 10
    for part, (low, high, rate) in enumerate(notes["by_length"]):
        size = 6 if part < 7 else 5
        members, order = order[:size], order[size:]
        assert (low, high) == (lengths[members[0]], lengths[members[-1]])
        assert rate == pytest.approx(100 * np.mean([right[at] for at in members]), abs=0.006)
    assert not order and json.dumps(notes)


def first(rows, scores):
    """Whether the first of each question's best rows is right; rows are (question, label)."""
    hits = []
    for question in sorted({question for question, _ in rows}):
        mine = [at for at, row in enumerate(rows) if row[0] == question]
        best = max(scores[at] for at in mine)
        hits.append(rows[next(at for at in mine if scores[at] == best)][1] == 1)
    return hits


def test_precision_at_1_is_of_all_questions(tmp_path):
    rows = []
    lengths = RANDOM.integers(1, 9, 40).tolist()
    for question in range(40):
        count = int(RANDOM.integers(1, 6))
        for sentence in range(count):
            label = int(sentence == question % 7)  # some have no right sentence left
            common, question_words, sentence_words = RANDOM.integers(0, 3), 6, RANDOM.integers(3, 9)
            rows.append(
                (
                    [7] * lengths[question],
                    [8],
                    [label],
                    [question],
                    [common, question_words, sentence_words],
                )
            )
    chances = RANDOM.integers(0, 4, len(rows)) / 4  # with ties
    likely = np.stack([1 - chances, chances], axis=1)
    ranked = corpus(tmp_path, "ranking", rows)
    metrics, notes, results = score_ranking(ranked, likely)
    plain = [(row[3][0], row[2][0]) for row in rows]
    hits = first(plain, chances)
    assert metrics == {"precision_at_1": pytest.approx(100 * sum(hits) / 40)}
    assert notes["examples"] == len(hits) == 40 and notes["pairs"] == len(rows)
    assert notes["correct"] == sum(hits)
    assert results["right"].tolist() == hits and results["length"].tolist() == lengths
    shares = lambda by: [row[4][0] / row[4][by] for row in rows]
    assert notes["WordC1"] == pytest.approx(2.5 * sum(first(plain, shares(2))), abs=0.006)
    assert notes["WordC2"] == pytest.approx(2.5 * sum(first(plain, shares(1))), abs=0.006)
    alone = sum(sum(row[3] == [q] for row in rows) == 1 for q in range(40))
    assert notes["one_sentence"] == pytest.approx(100 * alone / 40)
    unanswerable = 40 - len({row[3][0] for row in rows if row[2] == [1]})
    assert unanswerable and notes["no_right_sentence"] == 100 * unanswerable / 40


@pytest.mark.slow
@needs_real_data
def test_word_overlap_on_squad(tmp_path):
    """The paper has 68.87 and 79.59, on a test of twice as many pairs."""
    files = {"train": "dev-v1.1.json", "test": "dev-v1.1.json"}
    config = DataConfig(
        format="ranking", labels="no,yes", ignored_labels="", dir=str(real_data("squad")), **files,
        cache_dir=str(tmp_path),
    )  # fmt: skip
    data = LabelledData(config, WordsConfig())
    data.prepare()
    corpus = data.corpus("test")
    _, notes, _ = score_ranking(corpus, np.zeros((len(corpus), 2)))
    assert (notes["examples"], notes["pairs"]) == (10_570, 53_658)
    assert (notes["WordC1"], notes["WordC2"]) == (69.1, 79.47)


def test_a_label_that_is_neither_gold_nor_predicted_has_no_f1(tmp_path):
    rows = [([5], [label]) for label in (0, 0, 0, 2)]
    likely = np.eye(3)[[0, 0, 0, 0]]
    metrics, notes, _ = score_labels(corpus(tmp_path, "texts", rows), likely, NAMES)
    assert metrics["accuracy"] == notes["majority_rate"] == 75
    assert notes["f1_by_label"] == {"low": 85.71, "high": 0}
    assert notes["macro_f1"] == 42.86
