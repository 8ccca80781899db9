"""Official SQuAD and TriviaQA scores of predictions."""

import collections
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from common_jax.errors import UserError
from common_jax.io.files import uncompressed_name
from qanet_jax import metrics as spans
from qanet_jax import triviaqa_metrics

# The published files of adversarial SQuAD: AddSent and AddOneSent.
_ADVERSARIAL = ("sample1k-HCVerifyAll.json", "sample1k-HCVerifySample.json")

_log = logging.getLogger(__name__)


def score_squad(
    answers: Mapping[str, str], golds: Mapping[str, Sequence[str]], adversarial: bool = False
) -> dict[str, float]:
    """Exact match and F1 in percent over all questions.

    Args:
      answers, golds: by question id.
      adversarial: scores variants of questions by `spans.score_adversarial`.

    Raises:
      UserError: if with `adversarial` the ids have hyphens, but none is another's and a suffix.
    """
    variants = sum(key != of and of in golds for key, of in spans.originals(golds).items())
    if adversarial and not variants and (hyphened := next((k for k in golds if "-" in k), "")):
        raise UserError(
            f"adversarial: {hyphened!r} may be a question or a variant, since no id is another's "
            "and a suffix (ID-VARIANT); add the questions themselves, or score without this"
        )
    if adversarial:
        return spans.score_adversarial(answers, golds)
    if variants:
        _log.info("%d ids are another's and a suffix; --adversarial scores variants", variants)
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
    by_original = {of: lengths[key] for key, of in spans.originals(lengths).items()}
    rows = [(*pair, (by_original if attacked else lengths)[key]) for key, pair in scored.items()]
    columns = np.array(rows, float).T
    return dict(zip(("exact_match", "f1", "length"), columns, strict=True))


def golds_sha256(golds: Mapping[str, Sequence[str]]) -> str:
    """The SHA-256 of the gold answers by question id, without their order and repetitions."""
    texts = {key: sorted({*answers}) for key, answers in golds.items()}
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def by_question(answers: Mapping[str, tuple[str, float]]) -> dict[str, tuple[str, float]]:
    """One answer to each question of TriviaQA and its confidence, selected from those of its
    documents.

    Args:
      answers: text and confidence for each "question--document".
    """
    votes = collections.defaultdict(list)
    for name, vote in answers.items():
        votes[name.partition("--")[0]].append(vote)
    return {name: triviaqa_metrics.selected(candidates) for name, candidates in votes.items()}
