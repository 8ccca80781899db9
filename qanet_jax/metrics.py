"""Exact match and F1 of answers, as SQuAD v1.1 scores them (Rajpurkar et al. 2016, section 6.1).

Also under the adversaries of Jia & Liang (2017, Adversarial Examples for Evaluating Reading
Comprehension Systems), where a question has variants named "original-variant".
"""

import collections
import itertools
import math
import re
import string
from collections.abc import Callable, Collection, Mapping, Sequence

from common_jax.metrics.classification import wilson_interval

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_QUESTION_WORD = re.compile(
    r"\b(?:(how (?:many|much))|what|who|whom|whose|when|where|which|why|how)\b"
)
_CANONICAL = {"whom": "who", "whose": "who"}
_LENGTHS = {"1": 1, "2": 2, "3": 3, "4-5": 5, "6-9": 9, "10+": math.inf}  # at most
ANSWER_LENGTHS = tuple(_LENGTHS)

Normalize = Callable[[str], str]


def normalize_answer(text: str) -> str:
    """Lower-cases, removes ASCII punctuation, then articles, and joins words by single spaces."""
    return remove_articles(text.lower().translate(_PUNCTUATION))


def remove_articles(text: str) -> str:
    """Removes articles from a lower-case text and joins the words by single spaces."""
    return " ".join(_ARTICLE.sub(" ", text).split())


def exact_match(
    prediction: str, golds: Sequence[str], normalize: Normalize = normalize_answer
) -> bool:
    """Whether the prediction is one of the gold answers, all normalised."""
    return normalize(prediction) in map(normalize, golds)


def f1(prediction: str, golds: Sequence[str], normalize: Normalize = normalize_answer) -> float:
    """The largest F1, 0 to 1, between the words of the prediction and those of a gold answer.

    Words count as often as they occur. Without a common word F1 is 0, even if both sides normalise
    to "" and are an exact match.

    Raises:
      ValueError: for no gold answers.
    """
    words = normalize(prediction).split()
    return max(_overlap(words, normalize(gold).split()) for gold in golds)


def _overlap(words: list[str], gold: list[str]) -> float:
    common = (collections.Counter(words) & collections.Counter(gold)).total()
    return 2 * common / (len(words) + len(gold)) if common else 0.0


def score(
    predictions: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
    normalize: Normalize = normalize_answer,
) -> dict[str, float]:
    """`exact_match` and `f1` in percent, the mean over all questions in `golds`.

    A question without a prediction counts as 0 in both; a prediction of another id is ignored.

    Raises:
      ValueError: for no questions, or one without gold answers.
    """
    return _mean([*scores(predictions, golds, normalize).values()])


def scores(
    predictions: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
    normalize: Normalize = normalize_answer,
) -> dict[str, tuple[bool, float]]:
    """Exact match and F1, 0 to 1, of each question in `golds`, as `score` counts them."""
    return {key: _scores(predictions.get(key), golds[key], normalize) for key in golds}


def intervals(scores: Sequence[tuple[bool, float]]) -> dict[str, list[float]]:
    """The 95 % interval of the means of `exact_match` and `f1` over questions, in percent.

    Wilson's interval of a rate; for F1 scaled by the ratio of its standard deviation to that of a
    rate with its mean.

    Raises:
      ValueError: for no questions.
    """
    intervals_by_name = {}
    for (name, mean), values in zip(_mean(scores).items(), zip(*scores, strict=True), strict=True):
        rate = mean / 100
        count = len(values)
        low, high = wilson_interval(count * rate, count)
        variance = math.fsum((value - rate) ** 2 for value in values) / count
        share = math.sqrt(variance / (rate * (1 - rate))) if variance else 1.0
        ends = (rate - share * (rate - low), rate + share * (high - rate))
        intervals_by_name[name] = [round(100 * min(max(end, 0.0), 1.0), 2) for end in ends]
    return intervals_by_name


def by_kind(
    scores: Mapping[str, tuple[bool, float]], kinds: Mapping[str, str]
) -> dict[str, list[int | float]]:
    """The number of questions, exact match and F1 in percent of each kind, most frequent first."""
    members: dict[str, list[tuple[bool, float]]] = {}
    for key, pair in scores.items():
        members.setdefault(kinds[key], []).append(pair)
    order = sorted(members, key=lambda name: -len(members[name]))
    return {
        name: [len(members[name]), *(round(m, 2) for m in _mean(members[name]).values())]
        for name in order
    }


def question_type(question: str) -> str:
    """The first question word of a question: what, who, when, where, which, why, how, "how many"
    (also for "how much"); "other" without one."""
    match = _QUESTION_WORD.search(question.lower())
    if match is None:
        return "other"
    return "how many" if match[1] else _CANONICAL.get(match[0], match[0])


def answer_length(golds: Sequence[str]) -> str:
    """The number of words of the shortest gold answer, as one of `ANSWER_LENGTHS`."""
    words = min(len(gold.split()) for gold in golds)
    return next(name for name, most in _LENGTHS.items() if words <= most)


def score_adversarial(
    predictions: Mapping[str, str], golds: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Scores under attack, in percent, by both rules in use; the mean over original questions.

    An id is that of an original question, or "original-variant" (`originals`). A question is
    scored by its variant with the smallest F1 (the first of several), exact match included.

    - `exact_match`, `f1`: among the variants, or the original if there are none, as in the
      published evaluation.
    - `exact_match_worst`, `f1_worst`: among the variants and the original, as its author describes.

    As in `score`, an id without a prediction counts as 0. (The published evaluation documents this
    too, but takes the minimum over the predicted ids.)

    Raises:
      ValueError: as `score`.
    """
    question_scores = scores(predictions, golds)
    worst = [
        _worst(originals + variants)
        for originals, variants in _by_original(question_scores).values()
    ]
    return _mean([*under_attack(question_scores).values()]) | {
        f"{name}_worst": value for name, value in _mean(worst).items()
    }


def under_attack(scores: Mapping[str, tuple[bool, float]]) -> dict[str, tuple[bool, float]]:
    """Exact match and F1 of each original question by the published rule of `score_adversarial`.

    Args:
      scores: of originals and variants by id, from the function `scores`.
    """
    by_original = _by_original(scores)
    return {
        key: _worst(variants or originals) for key, (originals, variants) in by_original.items()
    }


def _by_original(
    scores: Mapping[str, tuple[bool, float]],
) -> dict[str, tuple[list[tuple[bool, float]], list[tuple[bool, float]]]]:
    """The scores of each original question, and of its variants."""
    groups: dict[str, tuple[list[tuple[bool, float]], list[tuple[bool, float]]]] = {}
    for key, of in originals(scores).items():
        groups.setdefault(of, ([], []))[key != of].append(scores[key])
    return groups


def originals(keys: Collection[str]) -> dict[str, str]:
    """By id, that of the question that it is, or is a variant of: its shortest part before a hyphen
    that is an id. If no original has a hyphen, as in the published files, what precedes the first
    hyphen, also where that is no id.
    """
    found = dict[str, str]()
    for key in keys:
        starts = itertools.accumulate(key.split("-"), "{}-{}".format)
        found[key] = next(start for start in starts if start in keys)
    if any("-" in of for key, of in found.items() if of != key):
        return found
    return {key: key.partition("-")[0] for key in found}


def _worst(scores: Sequence[tuple[bool, float]]) -> tuple[bool, float]:
    return min(scores, key=lambda pair: pair[1])


def _scores(
    prediction: str | None, golds: Sequence[str], normalize: Normalize
) -> tuple[bool, float]:
    if prediction is None:
        return False, 0.0
    return exact_match(prediction, golds, normalize), f1(prediction, golds, normalize)


def _mean(scores: Sequence[tuple[bool, float]]) -> dict[str, float]:
    if not scores:
        raise ValueError("no questions to score")
    sums = [sum(column) for column in zip(*scores, strict=True)]
    return {"exact_match": 100 * sums[0] / len(scores), "f1": 100 * sums[1] / len(scores)}
