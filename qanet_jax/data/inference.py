"""Fields that files of questions decide."""

from typing import TYPE_CHECKING

from common_jax.bad_examples import BadExamples
from common_jax.data.holdout import ShuffledGroups
from common_jax.data.inference import (
    Inference,
    infer_columns,
    infer_folder,
    infer_size,
    paths_of,
)
from common_jax.data.questions import QuestionTable
from common_jax.text.squad import is_squad
from qanet_jax.data.sources import HeldOut, source_of

if TYPE_CHECKING:
    from qanet_jax.config import Config

_COLUMNS = {
    "context": ("context", "passage", "paragraph"),
    "question": ("question", "query"),
    "answers": ("answers", "answer"),
}


def infer(config: "Config") -> Inference:
    """The folder, the columns by their names, and the number of held-out questions."""
    inference = Inference(config.data)
    infer_folder(inference)
    if inference.problems:
        return inference
    if inference.wants("columns"):
        path = paths_of(inference.data, "train")[0]
        if not is_squad(path) and not QuestionTable(path, quotes=inference.data.quotes).is_known:
            infer_columns(inference, path, _COLUMNS)

    # The questions, which are held out with their passages.
    if inference.wants("holdout_size") and inference.data.holds_out_dev and not inference.problems:
        data = inference.data
        source = source_of(data, "train", config.words.rule)
        assert isinstance(source, HeldOut)
        squad = source.source.read(BadExamples("skip")).squad
        groups = ((squad.contexts[question.context],) for question in squad.questions)
        held_out = ShuffledGroups(["dev"], data.holdout_size, data.seed, "passages")
        infer_size(inference, held_out, groups, source.place)
    return inference
