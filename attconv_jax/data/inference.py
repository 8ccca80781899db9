"""Fields that files of labelled texts decide."""

import contextlib
import dataclasses
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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

_KINDS = ("numbers", "bools", "names")  # of labels
_FEW = 10  # labels at least, and
_NEARLY_ALL = 0.9  # the share of them that occur once, in a column of no labels
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


@dataclasses.dataclass(frozen=True)
class _Column:
    """The label column of a file.

    Attributes:
      counts: how often each text occurs.
      headers: how often in rows whose fields are all names of columns.
      first: the text of the first row, if it may be a header that is not known; else "".
    """

    counts: Counter[str]
    headers: Counter[str]
    first: str


def _infer_labels(inference: Inference) -> None:
    """Sets the labels to those of the files, if each has one form and one meaning."""
    data: DataConfig = inference.data
    if file_names := _tables(data, "train")[0].file_labels:
        inference.set(labels=join_list(file_names))
        return
    splits = [split for split in SPLITS if getattr(data, split)]
    of_split = {s: [_column(inference, table) for table in _tables(data, s)] for s in splits}
    columns = [column for split in splits for column in of_split[split]]
    counts = sum((column.counts for column in columns), Counter[str]())
    ignored = {value for value in counts if _name(value) in data.ignored_names}
    values = Counter({value: n for value, n in counts.items() if value not in ignored})
    headers = _headers(values, columns)
    values -= headers

    # The forms of each label; the most frequent is its name.
    forms: dict[str, Counter[str]] = {}
    for value, count in values.items():
        if value.strip():
            forms.setdefault(_folded(value), Counter())[value] += count
    name_of = {key: _name(counted.most_common(1)[0][0]) for key, counted in forms.items()}
    names = {*name_of.values()}
    labels = _meaning(data, names)

    # What can be meant in two ways.
    problem = f"{data.train}: labels"
    if headers:
        of_headers = {_name(value) for value in headers}
        meanings = [_meaning(data, names, of_headers), _meaning(data, names | of_headers)]
        inference.refuse(f"{problem}: {_listed(headers)} may be of a header", *meanings)
    single = [key for key, counted in forms.items() if counted.total() == 1]
    if len(names) >= _FEW and len(single) >= _NEARLY_ALL * len(names):
        _refuse_values(inference, f"{problem}: {len(single)} of {len(names)} occur once", names)
        inference.set(**labels)
        return
    if several := [counted for counted in forms.values() if len(counted) > 1]:
        all_names = {_name(value) for value in values if value.strip()}
        meanings = [_meaning(data, all_names)]
        meanings += [_meaning(data, names, all_names - names)] if all_names > names else []
        listed = ", ".join(_listed(counted) for counted in several)
        inference.refuse(f"{problem}: {listed} may be the same", *meanings)
    trained = {_folded(value) for column in of_split["train"] for value in column.counts}
    if untrained := [key for key in forms if key not in trained]:
        listed = ", ".join(_listed(forms[key]) for key in untrained)
        ignoring = _meaning(data, names, [name_of[key] for key in untrained])
        meanings = [labels, {"ignored_labels": ignoring["ignored_labels"]}]
        inference.refuse(f"{problem}: {listed} of dev or test, which train lacks", *meanings)
    blank = sum(count for value, count in values.items() if not value.strip())
    if blank and data.on_bad_example == "error":
        inference.refuse(f"{problem}: {blank} rows have none", {"on_bad_example": "skip"})
    if len(names) < 2:
        inference.refuse(f"{problem}: {', '.join(names) or 'none'}; there must be two")
        return
    signs = names & {"+", "=", "0"}
    if signs and "-" in map(_name, ignored):
        rest = join_list(name for name in data.ignored_names if name != "-")
        meanings = [{**_meaning(data, {*names, "-"}), "ignored_labels": rest}, labels]
        reason = f"'-' beside {join_list(_ordered(signs))} may be a label or the lack of one"
        inference.refuse(f"{problem}: {reason}", *meanings)
    else:
        _require_one_kind(inference, problem, names, columns)
    inference.set(**labels)  # with a problem, too: the held-out examples are read with them


def _headers(values: Counter[str], columns: Sequence[_Column]) -> Counter[str]:
    """The labels of which all rows may be headers: of names of columns, or the first row, with a
    name beside numbers or one that is rarer than all other labels."""
    repeated = sum((column.headers for column in columns), Counter[str]())
    first = Counter(column.first for column in columns if column.first)
    headers = Counter[str]()
    for value, count in (repeated + first).items():
        others = {other: n for other, n in values.items() if other != value and other.strip()}
        are_numbers = all(_kind(other) == "numbers" for other in others)
        is_name = _kind(value) == "names" and (are_numbers or min(others.values()) > count)
        if others and values[value] == count and (is_name or value in repeated):
            headers[value] = count
    return headers


def _refuse_values(inference: Inference, problem: str, names: Iterable[str]) -> None:
    """Refuses a column of ids or texts."""
    fields = _tables(inference.data, "train")[0].content.fields
    columns = [f"{field}={'NAME' if field == 'label' else name}" for field, name in fields.items()]
    labels = [*_ordered(names)[:3], "..."]
    meanings = [{"columns": ",".join(columns)}, {"labels": join_list(labels)}]
    inference.refuse(f"{problem} ({', '.join(labels)}) and may be no labels", *meanings)


def _require_one_kind(
    inference: Inference, problem: str, names: set[str], columns: Sequence[_Column]
) -> None:
    """Refuses numbers beside others, bools beside names of other files, and -1 beside numbers."""
    data: DataConfig = inference.data
    kinds = {kind: {name for name in names if _kind(name) == kind} for kind in _KINDS}
    kinds = {kind: of_kind for kind, of_kind in kinds.items() if of_kind}
    own_labels = [{_name(value) for value in column.counts} & names for column in columns]
    in_files = [{_kind(name) for name in own} for own in own_labels]
    together = any({"bools", "names"} <= in_file for in_file in in_files)
    numbers = kinds.get("numbers", set[str]())

    # -1 is a label beside other negative numbers, and if without it only one label is left.
    negative = {name for name in numbers if name.startswith("-")}
    if len(kinds) == 1 and negative == {"-1"} and len(numbers) > 2:
        meanings = [_meaning(data, names), _meaning(data, names - {"-1"}, ["-1"])]
        inference.refuse(f"{problem}: -1 may be a label or the lack of one", *meanings)
    if len(kinds) == 1 or (together and not numbers):
        return

    # Names may be those of numbers, or of bools, in other files.
    others = kinds.get("names") or kinds["bools"]
    rest = names - others
    meanings = []
    is_numbered = rest in ({*map(str, range(len(others)))}, kinds.get("bools"))
    has_one_kind = all(len(in_file) < 2 for in_file in in_files)
    if is_numbered and has_one_kind and len(others) == len(rest) > 1:
        meanings.append(_meaning(data, others))
    most = max(kinds.values(), key=len)
    if len(most) > 1:
        meanings.append(_meaning(data, most, names - most))
    listed = " and ".join(f"{kind} ({', '.join(_ordered(kinds[kind]))})" for kind in kinds)
    reason = f"{listed}; names of numbers or bools must be in the order of these"
    inference.refuse(f"{problem}: {reason}", *meanings, _meaning(data, names))


def _meaning(
    data: "DataConfig", names: Iterable[str], ignored: Iterable[str] = ()
) -> dict[str, str]:
    """The fields of labels, without those that are ignored."""
    more = _ordered(ignored)
    labels = {"labels": join_list(_ordered({*names} - {*more}))}
    return {**labels, "ignored_labels": join_list([*data.ignored_names, *more])} if more else labels


def _listed(values: Counter[str]) -> str:
    """The forms of a label, with their counts."""
    shown = {value: unicodedata.is_normalized("NFKC", value) for value in values}
    texts = {value: repr(value) if plain else ascii(value) for value, plain in shown.items()}
    return "/".join(f"{texts[value]} ({count} rows)" for value, count in values.most_common())


def _tables(data: "DataConfig", split: str) -> list[Any]:
    """The tables of a split."""
    return file_sources(data, paths_of(data, split), annotated=False, rule=ENGLISH)


def _column(inference: Inference, table: Any) -> _Column:
    """The label column of a file."""
    fields: Sequence[str] = inference.data.column_fields
    names = {*table.content.table.names} if not table.has_objects else set[str]()
    may_start = not (names or table.has_objects)
    counts = Counter[str]()
    headers = Counter[str]()
    first = ""
    for row in table.rows(inference.bad_examples):
        label = row.fields["label"]
        first = label if may_start and not counts else first
        counts[label] += 1
        if names and {row.fields[field].strip() for field in fields} <= names:
            headers[label] += 1
    return _Column(counts, headers, first)


def _name(value: str) -> str:
    """A label as it is read: a whole number without ".0", and no blanks around it."""
    number = _NUMBER.fullmatch(value.strip())
    return number[1] if number else value.strip()


def _kind(value: str) -> str:
    """The kind of a label, of `_KINDS`."""
    name = _name(value)
    if _DECIMAL.fullmatch(name):
        return "numbers"
    return "bools" if name.lower() in ("false", "true") else "names"


def _folded(value: str) -> str:
    """A label without case, blanks and what is not seen: format characters, and whether a
    letter and its marks are one character."""
    text = unicodedata.normalize("NFKC", _name(value))
    seen = (char for char in text if unicodedata.category(char) != "Cf")
    return "".join("".join(seen).split()).casefold()


def _ordered(labels: Iterable[str]) -> list[str]:
    """Numbers by value, else in alphabetical order."""

    def key(label: str) -> tuple[float, str, str]:
        number = float(label) if _DECIMAL.fullmatch(label) else math.inf
        return number, label.casefold(), label

    return sorted(labels, key=key)
