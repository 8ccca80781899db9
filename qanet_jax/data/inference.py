"""Fields that files of questions decide."""

import itertools
from typing import TYPE_CHECKING

from common_jax.data.holdout import ShuffledGroups
from common_jax.data.inference import (
    Inference,
    infer_columns,
    infer_rows,
    infer_size,
    inference_of,
    paths_of,
)
from common_jax.data.questions import QuestionTable
from common_jax.text.squad import is_squad
from qanet_jax.data.sources import HeldOut, source_of
from qanet_jax.data.text import TokenizedText

if TYPE_CHECKING:
    from qanet_jax.config import Config, DataConfig

_COLUMNS = {
    "context": ("context", "passage", "paragraph"),
    "question": ("question", "query"),
    "answers": ("answers", "answer"),
}


def infer(config: "Config") -> Inference:
    """The folder, the columns by their names, and the number of held-out questions."""
    inference = inference_of(config.data, _infer_columns)

    # The questions, which are held out with their passages.
    data: DataConfig = inference.data
    rule = config.words.rule
    if inference.wants("holdout_size") and data.holds_out_dev:
        source = source_of(data, "train", rule)
        assert isinstance(source, HeldOut)
        squad = source.source.read(inference.bad_examples).squad
        groups = ((squad.contexts[question.context],) for question in squad.questions)
        held_out = ShuffledGroups(["dev"], data.holdout_size, data.seed, "passages")
        infer_size(inference, held_out, groups, source.place)

    # The words, each passage's once.
    if inference.wants("words.rows") and not (inference.problems or data.vocabulary_from):
        squad = source_of(inference.data, "train", rule).read(inference.bad_examples).squad
        texts = itertools.chain(squad.contexts, (question.text for question in squad.questions))
        infer_rows(inference, config.words, ([TokenizedText.of(t, rule).words] for t in texts))
    return inference


def _infer_columns(inference: Inference) -> None:
    """Sets the columns of a table that is not known."""
    path = paths_of(inference.data, "train")[0]
    if not is_squad(path) and not QuestionTable(path, quotes=inference.data.quotes).is_known:
        infer_columns(inference, path, _COLUMNS)
