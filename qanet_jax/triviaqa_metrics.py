"""Exact match and F1 of TriviaQA (Joshi et al. 2017), in which answers have aliases.

Each document of a question has a predicted answer; in the Wikipedia domain a question is scored
once, by one of them.
"""

import collections
import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

from qanet_jax import metrics as spans

_SPACES = str.maketrans({character: " " for character in string.punctuation + "‘’´`"})


def normalize_answer(text: str) -> str:
    """Lower-cases, replaces punctuation and quotation marks by spaces, removes articles, and joins
    words by single spaces. Unlike with SQuAD's normalisation, "mid-air" is two words."""
    return spans.remove_articles(text.lower().translate(_SPACES))


def golds(answer: Mapping[str, Any]) -> list[str]:
    """The gold answers in a question's `Answer`: all aliases, and answers of annotators."""
    human = map(normalize_answer, answer.get("HumanAnswers", ()))
    return [*answer["NormalizedAliases"], *human]


def aggregate(answers: Sequence[tuple[str, float]]) -> str:
    """The text of `selected`."""
    return selected(answers)[0]


def selected(answers: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """Selects one of the answers of a question's documents, with its confidence.

    The confidences (not negative, such as probabilities) of answers with the same normalisation are
    summed; the answer with the largest sum is chosen, in the spelling with the highest confidence;
    in a tie, the first in the alphabet, so that the order of documents does not matter. Without
    answers the result is "", with 0.

    Args:
      answers: (text, confidence) pairs.
    """
    votes: dict[str, list[float]] = collections.defaultdict(list)
    for text, confidence in answers:
        votes[normalize_answer(text)].append(confidence)
    best = min(votes, key=lambda text: (-math.fsum(votes[text]), text), default="")
    spellings = [(-vote, text) for text, vote in answers if normalize_answer(text) == best]
    vote, text = min(spellings, default=(0.0, ""))
    return text, -vote


def score(
    predictions: Mapping[str, str], questions: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Scores in percent over all questions, and over those with verified evidence.

    A question without a prediction counts as 0.

    Args:
      predictions: from QuestionId to one answer.
      questions: the `Data` of a TriviaQA file.

    Returns:
      `exact_match` and `f1` (Full) and, where `QuestionPartOfVerifiedEval` is true of any
      question, `verified_exact_match` and `verified_f1`.

    Raises:
      ValueError: for no questions.
    """
    verified = [question for question in questions if question.get("QuestionPartOfVerifiedEval")]
    scores = _score(predictions, questions)
    if verified:
        verified_scores = _score(predictions, verified)
        scores |= {f"verified_{name}": value for name, value in verified_scores.items()}
    return scores


def _score(
    predictions: Mapping[str, str], questions: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    names = {question["QuestionId"]: golds(question["Answer"]) for question in questions}
    return spans.score(predictions, names, normalize_answer)
