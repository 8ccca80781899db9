"""Accuracy and precision at 1 from predicted probabilities (NumPy)."""

import logging
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Shaped

from attconv_jax.data.dataset import YES
from attconv_jax.data.text import TEXTS
from common_jax.data.corpus import Corpus
from common_jax.metrics import classification

_log = logging.getLogger(__name__)

Notes = dict[str, object]
Results = dict[str, Shaped[np.ndarray, "m"]]  # "length" and "right" of each example


def score_labels(
    corpus: Corpus, likely: Float[np.ndarray, "n labels"], names: Sequence[str]
) -> tuple[dict[str, float], Notes, Results]:
    """Accuracy; as notes its interval, the share of the most frequent label, the F1 of each label
    and their mean, the confusion matrix, and the accuracy by length in words (Figure 2).

    A label that is neither gold nor predicted has no F1.
    """
    gold, predicted = corpus.column("label"), likely.argmax(axis=1)
    right = predicted == gold
    lengths = corpus.lengths(*(c for c in corpus.columns if c in TEXTS)).sum(axis=1)
    counts = classification.confusion(gold, predicted, len(names))
    length_buckets = classification.by_length(right, lengths)
    scores = classification.f1_by_label(counts)
    notes: Notes = {
        **_counted("accuracy", right),
        "majority_rate": _percent(float(counts.sum(axis=1).max() / len(gold))),
        "macro_f1": _percent(float(np.nanmean(scores))),
        "f1_by_label": {
            name: _percent(float(f1))
            for name, f1 in zip(names, scores, strict=True)
            if not np.isnan(f1)
        },
        "confusion": {
            name: dict(zip(names, row, strict=True))
            for name, row in zip(names, counts.tolist(), strict=True)
        },
        "by_length": [[low, high, _percent(rate)] for low, high, rate in length_buckets],
    }
    return {"accuracy": 100 * float(right.mean())}, notes, {"length": lengths, "right": right}


def score_ranking(
    corpus: Corpus, likely: Float[np.ndarray, "n labels"]
) -> tuple[dict[str, float], Notes, Results]:
    """Precision at 1, the share of questions whose most probable sentence answers them.

    The notes have its interval, the precision of two counts of common words (WordC1 and WordC2,
    section 4.2), and the shares of questions whose passage is a single sentence, and of those
    without a right sentence, which count as errors. The results are of questions, with their
    lengths in words.
    """
    questions, right = corpus.column("question"), corpus.column("label") == YES
    first = classification.first_ranked(likely[:, YES], questions)
    chosen = right[first]
    precision = lambda scores: (
        100 * float(right[classification.first_ranked(scores, questions)].mean())
    )
    common, question_words, sentence_words = corpus.gather(np.arange(len(corpus)), "overlap", 3).T
    _, counts = np.unique(questions, return_counts=True)
    unanswerable = len(counts) - len(np.unique(questions[right]))
    if unanswerable:
        _log.info(
            "%d of %d questions have no right sentence: they count as errors",
            *(unanswerable, len(counts)),
        )
    notes: Notes = {
        **_counted("precision_at_1", chosen),
        "WordC1": round(precision(common / sentence_words), 2),
        "WordC2": round(precision(common / question_words), 2),
        "pairs": len(corpus),
        "one_sentence": _percent(float((counts == 1).mean())),
        "no_right_sentence": _percent(unanswerable / len(counts)),
    }
    results = {"length": corpus.lengths("first")[first, 0], "right": chosen}
    return {"precision_at_1": 100 * float(chosen.mean())}, notes, results


def _counted(metric: str, right: Bool[np.ndarray, "n"]) -> Notes:
    correct, total = int(right.sum()), len(right)
    interval = [_percent(end) for end in classification.wilson_interval(correct, total)]
    return {"correct": correct, "examples": total, "intervals": {metric: interval}}


def _percent(rate: float) -> float:
    return round(100 * rate, 2)
