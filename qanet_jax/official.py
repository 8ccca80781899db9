"""Scores of a file of predictions, {id: text}, whoever made it."""

import collections
from collections.abc import Mapping
from pathlib import Path

from common_jax.data.faults import Faults
from common_jax.errors import UserError
from common_jax.metrics import spans, triviaqa
from common_jax.text.json_files import read_json
from common_jax.text.squad import Squad, read_squad
from qanet_jax.sources import Golds


def score_squad(squad: Squad, answers: Mapping[str, str]) -> dict[str, float]:
    """Exact match and F1 in percent over all questions, and where questions have variants (ids
    "original-variant") those under attack: see `spans.score_adversarial`."""
    golds = {q.id: [answer.text for answer in q.answers] for q in squad.questions}
    attacked = any(name.rpartition("-")[0] in golds for name in golds)
    return (spans.score_adversarial if attacked else spans.score)(answers, golds)


def score_trivia(golds: Golds, answers: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    """TriviaQA's scores in percent, a question's documents having voted on its answer.

    Args:
      golds: the questions.
      answers: text and confidence for each "question--document".
    """
    votes = collections.defaultdict(list)
    for name, vote in answers.items():
        votes[name.partition("--")[0]].append(vote)
    return triviaqa.score({name: triviaqa.aggregate(v) for name, v in votes.items()}, golds)


def score_files(predictions: str | Path, data: str | Path) -> dict[str, float]:
    """The scores of a file of predictions on a file of SQuAD's form.

    Raises:
      UserError: if one cannot be read or is not of its form.
    """
    squad = read_squad(data, Faults("error"))
    return score_squad(squad, _read_predictions(predictions)) | {
        "questions": float(len(squad.questions))
    }


def _read_predictions(path: str | Path) -> dict[str, str]:
    node = read_json(path)
    if type(node.value) is not dict:
        raise UserError(f"{path}: needs one object, {{id: answer, ...}}")
    wrong = next((key for key, text in node.value.items() if type(text) is not str), None)
    if wrong is not None:
        raise UserError(f"{path}: the answer of {wrong!r} is not a string")
    return node.value
