"""Fields that files of labelled texts decide."""

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attconv_jax.data.sources import LAYOUTS, Table, source_of
from common_jax.bad_examples import BadExamples
from common_jax.data import tables
from common_jax.data.holdout import ShuffledGroups
from common_jax.data.inference import (
    Inference,
    infer_columns,
    infer_folder,
    infer_size,
    paths_of,
)
from common_jax.data.object_rows import ObjectTable
from common_jax.data.prepared import SPLITS
from common_jax.data.sources import held_out_splits
from common_jax.errors import UserError
from common_jax.fields import join_list

if TYPE_CHECKING:
    from attconv_jax.config import Config, DataConfig

_LABEL = ("category", "verdict")  # further names of columns
_TEXT = ("comment", "message")
_NUMBER = re.compile(r"(-?[0-9]+)(\.0+)?")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_MOST = 1000  # labels
_SHOWN = 20


def infer(config: "Config") -> Inference:
    """The folder, the columns and labels, and the number of held-out examples."""
    inference = Inference(config.data)
    infer_folder(inference)
    if inference.problems:
        return inference
    if inference.wants("columns"):
        _infer_columns(inference)
    has_columns = not inference.problems
    if has_columns and inference.wants("labels"):
        _infer_labels(inference)

    # The held-out examples: of single texts as many of each label as in train.
    data: DataConfig = inference.data
    splits = held_out_splits(data)
    if has_columns and inference.wants("holdout_size") and splits and not data.examples:
        if inference.wants("stratified") and data.format == "texts":
            inference.set(stratified=True)
        held_out = ShuffledGroups(splits, data.holdout_size, data.seed, "examples")
        examples = _groups(inference.data, config.words.rule)
        infer_size(inference, held_out, examples, data.train)
    return inference


def _groups(data: "DataConfig", rule: Any) -> Iterator[tuple[str, str]]:
    """The group and the stratum of each example."""
    for example in source_of(data, "train", rule=rule).read(BadExamples("skip")):
        if example.label not in data.ignored_names:
            yield example.group, example.label if data.stratified else ""


def _infer_columns(inference: Inference) -> None:
    """Sets the columns of a table that is not read without."""
    data: DataConfig = inference.data
    layouts = LAYOUTS[data.format]
    path = paths_of(data, "train")[0]
    options: Any = {"quotes": data.quotes, "format_name": data.format}
    options |= {"labels": data.names, "ignored": data.ignored_names}
    table = Table(path, layouts, {}, **options)
    with contextlib.suppress(UserError):
        if not {*_LABEL} & {name.lower() for name in table.content.table.names}:
            return
    usual = dict(layouts[0].columns)
    usual["label"] = (*usual["label"], *_LABEL)
    if "text" in usual and not table.is_known:
        usual["text"] = (*usual["text"], *_TEXT)
    infer_columns(inference, path, usual, [field for field in ("text", "label") if field in usual])


def _infer_labels(inference: Inference) -> None:
    """Sets the labels to those of the files, if each has one form."""
    data: DataConfig = inference.data
    named = [split for split in SPLITS if getattr(data, split)]
    try:
        counts = {split: _counts(data, split) for split in named}
        names = _names_in_metadata(data)
    except UserError as error:
        inference.refuse(str(error))
        return
    if names:
        inference.set(labels=join_list(names))
        return

    # The forms of each label; the most frequent is its name.
    before = len(inference.problems)
    forms: dict[str, Counter[str]] = {}
    for value, count in sum(counts.values(), Counter[str]()).items():
        if value.strip():
            forms.setdefault(_folded(value), Counter())[value] += count
    trained = {_folded(value) for value in counts["train"]}
    name_of = {key: _name(values.most_common(1)[0][0]) for key, values in forms.items()}
    labels = {"labels": join_list(_ordered(name_of.values()))}
    column = f"{data.train}: labels"

    # What can be meant in two ways.
    if several := {key: values for key, values in forms.items() if len(values) > 1}:
        _refuse_forms(inference, column, several, name_of)
    for key in forms.keys() - trained:
        count = forms[key].total()
        split = next(split for split in named if {*forms[key]} & {*counts[split]})
        what = f"{name_of[key]!r} of data.{split} ({count} rows) is not in data.train"
        inference.refuse(f"{column}: {what}", labels, {"ignored_labels": f"-,{name_of[key]}"})
    if {"-1", "0"} <= {*forms}:
        rest = {"labels": join_list(_ordered({*name_of.values()} - {"-1"}))}
        inference.refuse(f"{column}: -1 may be a label, or mean none", labels, rest)
    blank = sum(count for values in counts.values() for v, count in values.items() if not v.strip())
    if blank and data.on_bad_example == "error":
        inference.refuse(f"{column}: {blank} rows have none", {"on_bad_example": "skip"})
    if not 2 <= len(forms) <= _MOST:
        what = f"{len(forms)} different ones, where 2 to {_MOST} are possible"
        inference.refuse(f"{column}: {what}", {"columns": "label=NAME,..."})
    if len(inference.problems) == before:
        totals = {name: forms[key].total() for key, name in name_of.items()}
        listed = [f"{name} ({totals[name]} rows)" for name in _ordered(totals)]
        inference.notes.append(f"{column}: {', '.join(listed[:_SHOWN])}")
        inference.set(**labels)


def _refuse_forms(
    inference: Inference,
    column: str,
    several: Mapping[str, Counter[str]],
    name_of: Mapping[str, str],
) -> None:
    """Refuses labels of several forms, with the flags that read them as one, or as several."""
    counted = (values.most_common() for values in several.values())
    listed = ", ".join("/".join(f"{v!r} ({count} rows)" for v, count in c) for c in counted)
    forms = {_name(value) for values in several.values() for value in values}
    rest = _ordered(forms - {*name_of.values()})
    first = {"labels": join_list(_ordered(name_of.values()))}
    meanings: list[dict[str, str]] = [first]
    if rest:
        every = {"labels": join_list(_ordered({*name_of.values(), *rest}))}
        meanings = [every, {**first, "ignored_labels": join_list(["-", *rest])}]
    inference.refuse(f"{column}: {listed} may be the same", *meanings)


def _tables(data: "DataConfig", split: str) -> list[tables.Table]:
    layouts = LAYOUTS[data.format]
    options: Any = {"skips_blank": True, "quotes": data.quotes}
    columns = data.columns_by_field
    return [tables.Table(path, layouts, columns, **options) for path in paths_of(data, split)]


def _counts(data: "DataConfig", split: str) -> Counter[str]:
    """How often each text of the label's column occurs."""
    bad_examples = BadExamples("skip")
    rows = (row for table in _tables(data, split) for row in table.rows(bad_examples))
    counts = Counter(row.fields["label"] for row in rows)
    ignored = {*data.ignored_names}
    return Counter({value: n for value, n in counts.items() if value.strip() not in ignored})


def _names_in_metadata(data: "DataConfig") -> list[str]:
    """The names of the labels' numbers, if a parquet file has them."""
    table = _tables(data, "train")[0]
    if not table.has_objects:
        return []
    names = ObjectTable(table.path, table.format).label_names(table.content.fields["label"])
    return [] if names == [*map(str, range(len(names)))] else names


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
