"""Official SQuAD and TriviaQA scores of predictions and of prediction files."""

import collections
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from common_jax.bad_examples import BadExamples
from common_jax.data.questions import QuestionTable, is_squad, read_tables
from common_jax.errors import UserError
from common_jax.io.files import uncompressed_name
from common_jax.io.json_files import read_json
from common_jax.text.squad import IMPOSSIBLE, is_impossible, question_id
from qanet_jax import metrics as spans
from qanet_jax import triviaqa_metrics
from qanet_jax.answer_files import read_predictions

# The published files of adversarial SQuAD: AddSent and AddOneSent.
_ADVERSARIAL = ("sample1k-HCVerifyAll.json", "sample1k-HCVerifySample.json")

_log = logging.getLogger(__name__)


def score_squad(
    answers: Mapping[str, str], golds: Mapping[str, Sequence[str]], adversarial: bool = False
) -> dict[str, float]:
    """Exact match and F1 in percent over all questions.

    Args:
      answers, golds: by question id.
      adversarial: scores variants of questions (ids "original-variant") by
        `spans.score_adversarial`.
    """
    if adversarial:
        return spans.score_adversarial(answers, golds)
    if variants := sum(key != (of := spans.original(key)) and of in golds for key in golds):
        _log.info(
            "%d ids are those of other questions and a suffix; if these are adversarial variants, "
            "score them by data.adversarial=True or --adversarial",
            variants,
        )
    return spans.score(answers, golds)


def is_adversarial(file: str | Path) -> bool:
    """Whether a file has the name of a published one of adversarial SQuAD, plain or compressed."""
    return uncompressed_name(file) in _ADVERSARIAL


def example_results(
    scores: Mapping[str, tuple[bool, float]], lengths: Mapping[str, int], attacked: bool
) -> dict[str, Float[np.ndarray, "n"]]:
    """`length`, `exact_match` and `f1` (0 to 1) of each question; their means are the metrics.

    Args:
      scores: exact match and F1 by question id.
      lengths: by question id.
      attacked: whether questions have variants; then results are by original question.
    """
    scored = spans.under_attack(scores) if attacked else scores
    by_original = {spans.original(key): length for key, length in lengths.items()}
    rows = [(*pair, (by_original if attacked else lengths)[key]) for key, pair in scored.items()]
    columns = np.array(rows, float).T
    return dict(zip(("exact_match", "f1", "length"), columns, strict=True))


def by_question(answers: Mapping[str, tuple[str, float]]) -> dict[str, str]:
    """One answer to each question of TriviaQA, selected from those of its documents.

    Args:
      answers: text and confidence for each "question--document".
    """
    votes = collections.defaultdict(list)
    for name, vote in answers.items():
        votes[name.partition("--")[0]].append(vote)
    return {name: triviaqa_metrics.aggregate(candidates) for name, candidates in votes.items()}


def score_files(
    predictions: str | Path, data: str | Path, adversarial: bool = False
) -> dict[str, float]:
    """Scores a file of predictions (`read_predictions`) on a file of SQuAD's format, or a table.

    Returns the scores and the numbers of `questions`, of `unanswered` ones, and of `impossible`
    ones if there are any, which are left out. Only the texts of answers are used, as in the
    official scorer.

    Args:
      adversarial: whether `data` has variants of questions; files of adversarial SQuAD always do.

    Raises:
      UserError: if a file cannot be read or is malformed, or no question is answered.
    """
    answers = read_predictions(predictions)
    golds, impossible = _read_golds(data)
    unanswered = sum(key not in answers for key in golds)
    if unanswered == len(golds):
        raise UserError(f"{predictions}: no answer to any question of {data}")
    metrics = score_squad(answers, golds, adversarial or is_adversarial(data))
    counts = {"questions": len(golds), "unanswered": unanswered}
    return metrics | counts | ({"impossible": impossible} if impossible else {})


def _read_golds(path: str | Path) -> tuple[dict[str, list[str]], int]:
    """The texts of the answers by question id, and the number of impossible questions."""
    if not is_squad(Path(path)):
        bad_examples = BadExamples("error", option="")
        squad = read_tables([QuestionTable(Path(path))], bad_examples)
        golds = {q.id: [answer.text for answer in q.answers] for q in squad.questions}
        impossible = bad_examples.counts.get(IMPOSSIBLE, {"count": 0})["count"]
    else:
        golds, impossible = _read_squad_golds(path)
    if not golds:
        raise UserError(f"{path}: no question in it")
    return golds, impossible


def _read_squad_golds(path: str | Path) -> tuple[dict[str, list[str]], int]:
    golds = dict[str, list[str]]()
    impossible = 0
    for number, article in enumerate(read_json(path).nodes("data")):
        for paragraph_number, paragraph in enumerate(article.nodes("paragraphs")):
            for question_number, question in enumerate(paragraph.nodes("qas")):
                if is_impossible(question):
                    impossible += 1
                    continue
                key = question_id(question, f"{number}.{paragraph_number}.{question_number}")
                if key in golds:
                    raise UserError(f"{question.place}: repeats the id {key!r}")
                golds[key] = [answer.get("text", str) for answer in question.nodes("answers")]
                if not golds[key]:
                    raise UserError(f"{question.place}: no answers to score by")
    return golds, impossible
