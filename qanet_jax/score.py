"""Scores of answers by the official rules, whoever gave them."""

import collections
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from common_jax.errors import UserError
from common_jax.io.json_files import read_json
from common_jax.metrics import spans
from qanet_jax import triviaqa_metrics


def score_squad(answers: Mapping[str, str], golds: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Exact match and F1 in percent over all questions, and where questions have variants (ids
    "original-variant") those under attack: see `spans.score_adversarial`.

    Args:
      answers, golds: by the questions' ids.
    """
    originals = ((key, spans.original(key)) for key in golds)
    attacked = any(key != original and original in golds for key, original in originals)
    return (spans.score_adversarial if attacked else spans.score)(answers, golds)


def example_results(
    each: Mapping[str, tuple[bool, float]], lengths: Mapping[str, int], attacked: bool
) -> dict[str, Float[np.ndarray, "n"]]:
    """`length`, `exact_match` and `f1` (0 to 1) of each question that the metrics are means of.

    Args:
      each: exact match and F1 by the questions' ids.
      lengths: by these ids.
      attacked: whether questions have variants; then the original questions are what is counted.
    """
    scored = spans.under_attack(each) if attacked else each
    by_original = {spans.original(key): length for key, length in lengths.items()}
    found = [(*pair, (by_original if attacked else lengths)[key]) for key, pair in scored.items()]
    columns = np.array(found, float).T
    return dict(zip(("exact_match", "f1", "length"), columns, strict=True))


def by_question(answers: Mapping[str, tuple[str, float]]) -> dict[str, str]:
    """One answer to each question of TriviaQA, its documents having voted on it.

    Args:
      answers: text and confidence for each "question--document".
    """
    votes = collections.defaultdict(list)
    for name, vote in answers.items():
        votes[name.partition("--")[0]].append(vote)
    return {name: triviaqa_metrics.aggregate(given) for name, given in votes.items()}


def score_files(predictions: str | Path, data: str | Path) -> dict[str, float]:
    """The scores of a file of predictions, {id: text}, on a file of SQuAD's form; and how many
    `questions` that has, and how many of them are `unanswered`.

    Of the answers only the texts are read, as by the official scorer.

    Raises:
      UserError: if one cannot be read or is not of its form, or no question is answered.
    """
    answers, golds = _read_predictions(predictions), _read_golds(data)
    unanswered = sum(key not in answers for key in golds)
    if unanswered == len(golds):
        raise UserError(f"{predictions}: no answer to any question of {data}")
    return score_squad(answers, golds) | {"questions": len(golds), "unanswered": unanswered}


def _read_golds(path: str | Path) -> dict[str, list[str]]:
    golds: dict[str, list[str]] = {}
    for article in read_json(path).nodes("data"):
        for paragraph in article.nodes("paragraphs"):
            for question in paragraph.nodes("qas"):
                key = question.get("id", str)
                if key in golds:
                    raise UserError(f"{question.place}: the id {key!r} a second time")
                golds[key] = [answer.get("text", str) for answer in question.nodes("answers")]
                if not golds[key]:
                    raise UserError(f"{question.place}: no answers to score by")
    if not golds:
        raise UserError(f"{path}: no question in it")
    return golds


def _read_predictions(path: str | Path) -> dict[str, str]:
    node = read_json(path)
    if type(node.value) is not dict:
        raise UserError(f"{path}: needs one object, {{id: answer, ...}}")
    wrong = next((key for key, text in node.value.items() if type(text) is not str), None)
    if wrong is not None:
        raise UserError(f"{path}: the answer of {wrong!r} is not a string")
    return node.value
