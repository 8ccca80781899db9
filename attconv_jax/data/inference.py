"""Fields that files of labelled texts decide."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attconv_jax.data.label_inference import infer_labels, tables_of
from attconv_jax.data.sources import LAYOUTS, source_of
from attconv_jax.data.text import tokenize
from common_jax.data.holdout import ShuffledGroups
from common_jax.data.inference import (
    Inference,
    infer_columns,
    infer_rows,
    infer_size,
    inference_of,
)
from common_jax.data.sources import held_out_splits
from common_jax.errors import UserError
from common_jax.text.word_tokenizer import Rule

if TYPE_CHECKING:
    from attconv_jax.config import Config, DataConfig

_LABEL = ("category", "verdict")  # further names of columns


def infer(config: "Config") -> Inference:
    """The folder, the columns and labels, and the number of held-out examples."""
    inference = inference_of(config.data, _infer_columns)
    if inference.wants("labels"):
        infer_labels(inference)

    # The held-out examples: of single texts as many of each label as in train.
    data: DataConfig = inference.data
    splits = held_out_splits(data)
    if inference.wants("holdout_size") and splits and not data.examples:
        if inference.wants("stratified") and data.format == "texts":
            inference.set(stratified=True)
        held_out = ShuffledGroups(splits, data.holdout_size, data.seed, "examples")
        examples = _groups(inference, config.words.rule)
        infer_size(inference, held_out, examples, data.train)

    # The words of all examples.
    words = config.words
    if inference.wants("words.rows") and not (inference.problems or data.vocabulary_from):
        source = source_of(inference.data, "train", rule=words.rule)
        texts = (example.texts for example in source.read(inference.bad_examples))
        tokenized = ([tokenize(text, words.rule) for text in example] for example in texts)
        infer_rows(inference, words, tokenized, words.unknown_rows)
    return inference


def _groups(inference: Inference, rule: Rule) -> Iterator[tuple[str, str]]:
    """The group and the stratum of each example."""
    data: DataConfig = inference.data
    for example in source_of(data, "train", rule=rule).read(inference.bad_examples):
        if example.label not in data.ignored_names:
            yield example.group, example.label if data.stratified else ""


def _infer_columns(inference: Inference) -> None:
    """Sets the columns of a table that is not read without."""
    data: DataConfig = inference.data
    layouts = LAYOUTS[data.format]
    table = tables_of(data, "train")[0]
    with contextlib.suppress(UserError):
        if not {*_LABEL} & {name.lower() for name in table.content.table.names}:
            return
    usual = dict(layouts[0].columns)
    usual["label"] = (*usual["label"], *_LABEL)
    infer_columns(inference, table.path, usual)
