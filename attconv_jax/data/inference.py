"""Fields that files of labelled texts decide."""

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from attconv_jax.data.sources import LAYOUTS, file_sources, source_of
from attconv_jax.data.text import tokenize
from common_jax.data.holdout import ShuffledGroups
from common_jax.data.inference import (
    Inference,
    infer_columns,
    infer_rows,
    infer_size,
    inference_of,
    paths_of,
)
from common_jax.data.prepared import SPLITS
from common_jax.data.sources import held_out_splits
from common_jax.errors import UserError
from common_jax.fields import join_list
from common_jax.text.word_tokenizer import ENGLISH, Rule

if TYPE_CHECKING:
    from attconv_jax.config import Config, DataConfig

_LABEL = ("category", "verdict")  # further names of columns
_NUMBER = re.compile(r"(-?[0-9]+)(\.0+)?")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def infer(config: "Config") -> Inference:
    """The folder, the columns and labels, and the number of held-out examples."""
    inference = inference_of(config.data, _infer_columns)
    if inference.wants("labels"):
        _infer_labels(inference)

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
    table = _tables(data, "train")[0]
    with contextlib.suppress(UserError):
        if not {*_LABEL} & {name.lower() for name in table.content.table.names}:
            return
    usual = dict(layouts[0].columns)
    usual["label"] = (*usual["label"], *_LABEL)
    infer_columns(inference, table.path, usual)


def _infer_labels(inference: Inference) -> None:
    """Sets the labels to those of the files, if each has one form."""
    data: DataConfig = inference.data
    counts = {split: _counts(inference, split) for split in SPLITS if getattr(data, split)}
    if names := _tables(data, "train")[0].file_labels:
        inference.set(labels=join_list(names))
        return

    # The forms of each label; the most frequent is its name.
    forms: dict[str, Counter[str]] = {}
    values = sum(counts.values(), Counter[str]())
    for value, count in values.items():
        if value.strip():
            forms.setdefault(_folded(value), Counter())[value] += count
    name_of = {key: _name(counted.most_common(1)[0][0]) for key, counted in forms.items()}
    labels = {"labels": join_list(_ordered(name_of.values()))}

    # What can be meant in two ways.
    before = len(inference.problems)
    column = f"{data.train}: labels"
    if several := [counted for counted in forms.values() if len(counted) > 1]:
        names = {_name(value) for value in values if value.strip()}
        further = _ordered(names - {*name_of.values()})
        meanings = [{"labels": join_list(_ordered(names))}]
        meanings += [{**labels, "ignored_labels": join_list(["-", *further])}] if further else []
        listed = ", ".join(_listed(counted) for counted in several)
        inference.refuse(f"{column}: {listed} may be the same", *meanings)
    trained = {_folded(value) for value in counts["train"]}
    if untrained := [key for key in forms if key not in trained]:
        listed = ", ".join(_listed(forms[key]) for key in untrained)
        ignored = {"ignored_labels": join_list(["-", *(name_of[key] for key in untrained)])}
        inference.refuse(f"{column}: {listed} of dev or test, which train lacks", labels, ignored)
    blank = sum(count for value, count in values.items() if not value.strip())
    if blank and data.on_bad_example == "error":
        inference.refuse(f"{column}: {blank} rows have none", {"on_bad_example": "skip"})
    if len(name_of) < 2:
        inference.refuse(f"{column}: {', '.join(name_of.values()) or 'none'}; there must be two")
    if len(inference.problems) == before:
        inference.set(**labels)


def _listed(values: Counter[str]) -> str:
    """The forms of a label, with their counts."""
    return "/".join(f"{value!r} ({count} rows)" for value, count in values.most_common())


def _tables(data: "DataConfig", split: str) -> list[Any]:
    """The tables of a split."""
    return file_sources(data, paths_of(data, split), annotated=False, rule=ENGLISH)


def _counts(inference: Inference, split: str) -> Counter[str]:
    """How often each text of the label's column occurs."""
    data: DataConfig = inference.data
    tables = _tables(data, split)
    rows = (row for table in tables for row in table.rows(inference.bad_examples))
    counts = Counter(row.fields["label"] for row in rows)
    ignored = {*data.ignored_names}
    return Counter({value: n for value, n in counts.items() if value.strip() not in ignored})


def _name(value: str) -> str:
    """A label as it is read: a whole number without ".0", and no blanks around it."""
    number = _NUMBER.fullmatch(value.strip())
    return number[1] if number else value.strip()


def _folded(value: str) -> str:
    """A label without case and blanks."""
    return "".join(_name(value).split()).casefold()


def _ordered(labels: Iterable[str]) -> list[str]:
    """Numbers by value, else in alphabetical order."""

    def key(label: str) -> tuple[float, str, str]:
        number = float(label) if _DECIMAL.fullmatch(label) else math.inf
        return number, label.casefold(), label

    return sorted(labels, key=key)
