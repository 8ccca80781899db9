"""Accuracy and precision at 1 from logits, in which a tie counts as its chance (NumPy)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from attconv_jax.data.dataset import YES
from attconv_jax.data.text import TEXTS
from common_jax.data.corpus import Corpus
from common_jax.metrics import classification

_log = logging.getLogger(__name__)

Notes = dict[str, object]
Results = dict[str, Shaped[np.ndarray, "m"]]  # "length" and "right" (0 to 1) of each example


def score_labels(
    corpus: Corpus, logits: Float[np.ndarray, "n labels"], names: Sequence[str]
) -> tuple[dict[str, float], Notes, Results]:
    """Accuracy, and "nll", the mean cross-entropy in nats.

    The notes are the accuracy's interval, the share that ties decide, the share of the most
    frequent label, the F1 of each label and their mean, the confusion matrix, the accuracy by
    length in words (Figure 2), and `calibration` of the most probable labels.

    A label that is neither gold nor predicted has no F1.

    Args:
      logits: log-probabilities up to a constant of each row.
    """
    # The chance of each answer to be right, which is below 1 where labels tie.
    gold = corpus.column("label")
    chances = classification.best_labels(logits)
    right = chances[np.arange(len(gold)), gold]
    lengths = corpus.lengths(*(c for c in corpus.columns if c in TEXTS)).sum(axis=1)
    counts = classification.confusion(gold, chances)
    length_buckets = classification.by_length(right, lengths)
    scores = classification.f1_by_label(counts)

    confidences = classification.probabilities(logits).max(axis=1)

    notes: Notes = {
        **_counted({"accuracy": right}, "accuracy"),
        **classification.calibration_notes(confidences, right),
        "majority_rate": _percent(float(counts.sum(axis=1).max() / len(gold))),
        "macro_f1": _percent(float(np.nanmean(scores))),
        "f1_by_label": {
            name: _percent(float(f1))
            for name, f1 in zip(names, scores, strict=True)
            if not np.isnan(f1)
        },
        "confusion": {
            name: dict(zip(names, map(classification.count_of, row), strict=True))
            for name, row in zip(names, counts.tolist(), strict=True)
        },
        "by_length": [[low, high, _percent(rate)] for low, high, rate in length_buckets],
    }
    metrics = {"accuracy": 100 * float(right.mean()), "nll": classification.nll(logits, gold)}
    return metrics, notes, {"length": lengths, "right": right}


def score_ranking(
    corpus: Corpus, logits: Float[np.ndarray, "n labels"]
) -> tuple[dict[str, float], Notes, Results]:
    """Precision at 1, the share of questions whose most probable sentence answers them; and "nll",
    the mean cross-entropy of the sentences in nats.

    Sentences are ranked by the log-odds of "yes". The notes have its interval, the precision of two
    counts of common words (WordC1 and WordC2, section 4.2), the shares that ties decide of all
    three, and the shares of questions whose passage is a single sentence, and of those without a
    right sentence, which count as errors. The results are of questions, with their lengths in
    words.

    Args:
      logits: as of `score_labels`.
    """
    # The model's ranking, and those by counts of common words.
    questions = corpus.column("question")
    answers = corpus.column("label") == YES
    common, question_words, sentence_words = corpus.gather(np.arange(len(corpus)), "overlap", 3).T
    scores = {
        "precision_at_1": classification.log_odds(logits, YES),
        "WordC1": common / sentence_words,
        "WordC2": common / question_words,
    }
    right = {
        name: classification.right_ranked(ranked_by, answers, questions)
        for name, ranked_by in scores.items()
    }

    # Questions without a right sentence count as errors.
    model = right["precision_at_1"]
    _, first, counts = np.unique(questions, return_index=True, return_counts=True)
    unanswerable = len(counts) - len(np.unique(questions[answers]))
    if unanswerable:
        _log.info(
            "%d of %d questions have no right sentence: they count as errors",
            unanswerable,
            len(counts),
        )

    notes: Notes = {
        **_counted(right, "precision_at_1"),
        "WordC1": _percent(float(right["WordC1"].mean())),
        "WordC2": _percent(float(right["WordC2"].mean())),
        "pairs": len(corpus),
        "one_sentence": _percent(float((counts == 1).mean())),
        "no_right_sentence": _percent(unanswerable / len(counts)),
    }
    results = {"length": corpus.lengths("first")[first, 0], "right": model}
    metrics = {
        "precision_at_1": 100 * float(model.mean()),
        "nll": classification.nll(logits, corpus.column("label")),
    }
    return metrics, notes, results


def label_errors(
    texts: Sequence[Sequence[str]],
    gold: Int[np.ndarray, "n"],
    logits: Float[np.ndarray, "n labels"],
    names: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """The wrong labels, as `common_jax.training.task.Scores.errors`."""
    probabilities = classification.probabilities(logits)
    predicted = logits.argmax(axis=1)
    for at in np.flatnonzero(predicted != gold).tolist():
        label = int(predicted[at])
        keys = ("text",) if len(texts[at]) == 1 else ("first", "second")
        yield {
            "row": at + 1,
            **dict(zip(keys, texts[at], strict=True)),
            "gold": names[gold[at]],
            "predicted": names[label],
            "probability": round(float(probabilities[at, label]), 6),
        }


def ranking_errors(
    texts: Sequence[Sequence[str]], corpus: Corpus, logits: Float[np.ndarray, "n labels"]
) -> Iterator[dict[str, Any]]:
    """The questions whose most probable sentence does not answer them, as `label_errors`."""
    odds = classification.log_odds(logits, YES)
    answers = corpus.column("label") == YES
    questions = corpus.column("question")
    probabilities = classification.probabilities(logits)[:, YES]
    for question in np.unique(questions):
        candidates = np.flatnonzero(questions == question)
        best = int(candidates[np.argmax(odds[candidates])])
        if answers[best]:
            continue
        right = [texts[at][1] for at in candidates[answers[candidates]].tolist()]
        yield {
            "row": best + 1,
            "text": texts[best][0],
            "gold": " | ".join(right),
            "predicted": texts[best][1],
            "probability": round(float(probabilities[best]), 6),
        }


def _counted(right: Mapping[str, Float[np.ndarray, "n"]], metric: str) -> Notes:
    """The notes on right answers: counts and the interval of a metric, the ties of all."""
    correct = classification.count_of(float(right[metric].sum()))
    total = len(right[metric])
    interval = [_percent(end) for end in classification.wilson_interval(correct, total)]
    ties = {name: _percent(classification.decided_by_ties(of)) for name, of in right.items()}
    return {"correct": correct, "examples": total, "intervals": {metric: interval}, "ties": ties}


def _percent(rate: float) -> float:
    return round(100 * rate, 2)
