"""Fields of `data` that one's own files decide: their folder, columns, and held-out splits.

What can be meant in two ways is refused with the flags of each meaning, never guessed.
"""

import contextlib
import dataclasses
import filecmp
import itertools
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.bad_examples import BadExamples
from common_jax.config import inferred_key
from common_jax.data.holdout import HoldOut
from common_jax.data.object_rows import ObjectTable, read_scalar
from common_jax.data.prepared import SPLITS
from common_jax.data.table_format import format_of
from common_jax.data.text_rows import TextFile
from common_jax.errors import UserError
from common_jax.io.files import exists, file_endings, find_files, find_folder, names_in
from common_jax.io.json_files import Node
from common_jax.io.paths import expand_user

_MOST_CLASSES = 20  # values of a column of labels without a known name
_ROWS = 3  # least rows of each, and
_SHARE = 0.01  # least share of the rows
_TEXT = 2  # a column is the text if it is this many times as long as the next
MANY = 20_000  # examples, of which no usual vocabulary is too large
_SHOWN = 4  # meanings of a problem that are listed


class Inference:
    """What the files of a config decide.

    Attributes:
      data: the config's section, with the values inferred until now.
      values: these, by field.
      problems: what is refused.
      notes: sentences on values of the config that are not taken.
      bad_examples: of all files that are read.
    """

    def __init__(self, data: Any):
        self.data = data
        self.values: dict[str, Any] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.bad_examples = BadExamples("skip")

    def wants(self, *names: str) -> bool:
        """Whether the files decide these fields."""
        return {*names} <= {*self.data.to_infer}

    def set(self, **values: Any) -> None:
        """Takes values of fields."""
        self.data = dataclasses.replace(self.data, **values)
        self.values |= values

    def refuse(self, problem: str, *meanings: Mapping[str, Any]) -> None:
        """Adds a problem, with the fields of each of its meanings."""
        commands = ", or ".join(dict.fromkeys(map(flags, meanings[:_SHOWN])))
        self.problems.append(f"{problem}; {commands}" if commands else problem)

    def require_none(self) -> None:
        """Raises UserError with all problems, first the row that is invalid."""
        fault = self.bad_examples.fault
        if fault and fault not in self.problems and self.data.on_bad_example == "error":
            self.problems.insert(0, fault)
        if self.problems:
            raise UserError("; also ".join(self.problems))


def flags(values: Mapping[str, Any]) -> str:
    """Fields of `data.inferred` as flags for a shell."""
    return " ".join(shlex.quote(f"--config.{inferred_key(k)}={v}") for k, v in values.items())


def paths_of(data: Any, split: str) -> list[Path]:
    """The files of a split; raises UserError if one is missing."""
    folder = find_folder(data.dir, "data.dir")
    key = f"data.{split}"
    return [path for name in data.names_of(split) for path in find_files(folder, name, key)]


def inference_of(data: Any, infer_columns: Callable[[Inference], None]) -> Inference:
    """The folder, and the columns by `infer_columns`; nothing further can be inferred if one of
    these is refused."""
    inference = Inference(data)
    infer_folder(inference)
    if inference.wants("columns") and not inference.problems:
        infer_columns(inference)
    if inference.problems:
        inference.data = dataclasses.replace(inference.data, inferred="")
    return inference


def infer_folder(inference: Inference) -> None:
    """Sets `dir` to the current folder if it has the named files, and `data.dir` does not."""
    data = inference.data
    folders = [Path(expand_user(data.dir)), Path.cwd()]
    is_url = "://" in data.dir  # which has the files, or nothing has
    if not inference.wants("dir") or is_url or folders[0].absolute() == folders[1]:
        return
    named = {split: getattr(data, split) for split in SPLITS if getattr(data, split)}
    listed = " ".join(f"data.{split}={names}" for split, names in named.items())
    existing = [folder for folder in folders if all(_has(folder, *n) for n in named.items())]
    equal = filecmp.cmpfiles(folders[0], folders[1], [*named.values()], shallow=False)[0]
    if not existing:
        problem = f"{listed}: no such files, neither in data.dir={data.dir} nor in {folders[1]}"
        inference.refuse(problem)
    elif existing == folders and len(equal) < len(named):
        meanings = [{"dir": folder} for folder in folders]
        inference.refuse(f"{listed}: the files in {data.dir} and {folders[1]} differ", *meanings)
    elif existing == folders[1:]:
        inference.set(dir=str(folders[1]))


def _has(folder: Path, split: str, value: str) -> bool:
    """Whether there is a folder, and all files that a split names in it."""
    names = names_in(value, f"data.{split}", folder)
    found = [exists(folder, name) or file_endings(folder / name) for name in names]
    return folder.is_dir() and all(found)


class Column:
    """A column of a table, by its values.

    Attributes:
      values: how often each occurs, of the first `_MOST_CLASSES` and one more that are not blank.
    """

    def __init__(self, name: str):
        self.name = name
        self.values = Counter[str]()
        self.length = 0  # of all texts
        self.rows = 0

    def add(self, text: str) -> None:
        """Adds the value of the next row."""
        self.rows += 1
        self.length += len(text)
        text = text.strip()
        if text and (text in self.values or len(self.values) <= _MOST_CLASSES):
            self.values[text] += 1

    @property
    def has_classes(self) -> bool:
        """Whether the values may be labels."""
        least = max(_ROWS, _SHARE * self.rows)
        return 2 <= len(self.values) <= _MOST_CLASSES and min(self.values.values()) >= least

    def __str__(self) -> str:
        counts = ", ".join(f"{value} {count}" for value, count in self.values.most_common())
        return f"{self.name} ({counts})" if self.has_classes else self.name


def read_columns(
    inference: Inference, path: Path, known: Iterable[str] = ()
) -> tuple[list[Column], list[list[str]], bool]:
    """The columns of a table, which are named by row 1 if it is not surely a header; the first two
    rows of texts; and whether the names are surely names.

    Args:
      known: names in lower case, of which a header has one. Without, row 1 is a header only if none
        of its cells occurs again in its column.

    Raises:
      UserError: if the file cannot be read.
    """
    data = inference.data
    bad_examples = inference.bad_examples
    separator = getattr(data, "separator", "\t")
    format = format_of(path, separator)
    has_objects = format in ("parquet", "jsonl", "json")
    rows: Iterator[list[str]]
    if has_objects:
        table = ObjectTable(path, format)
        first = table.paths
        rows = ([_scalar(node, name) for name in first] for node in table.rows(bad_examples))
    else:
        file = TextFile(path, format == "csv", separator, data.quotes)
        rows = (cells for _, cells in file.filled(bad_examples))
        first = [cell.strip() for cell in next(rows, [])]

    # The values of each column, and whether the first row may be one of them.
    columns = [Column(name) for name in first]
    head = [] if has_objects else [first]
    recurs = False
    for cells in rows:
        head += [cells] if len(head) == 1 else []
        for column, cell in zip(columns, cells, strict=False):
            column.add(cell)
            recurs |= bool(cell) and cell.strip() == column.name
    is_known = has_objects or not {name.lower() for name in first}.isdisjoint(known)
    return columns, head, is_known or not recurs


def _scalar(node: Node, path: str) -> str:
    """The text or number at a path, as text; "" for others."""
    with contextlib.suppress(UserError):
        return read_scalar(node, (path,) if path in node.value else tuple(path.split(".")))
    return ""


def infer_columns(inference: Inference, path: Path, usual: Mapping[str, Sequence[str]]) -> None:
    """Sets `columns` of a table that has no known layout.

    The fields "text" and "label" are also found by their content: a text at least `_TEXT` times as
    long as the next, and the only other column with few values.

    Args:
      usual: names of each field's column, in lower case.
    """
    known = itertools.chain(*usual.values())
    columns, head, is_named = read_columns(inference, path, known)
    candidates = {
        field: [column for column in columns if column.name.lower() in names]
        for field, names in usual.items()
    }

    # Fields without a usual name, by their content.
    taken = {column.name for named in candidates.values() for column in named}
    unnamed = [column for column in columns if column.name not in taken]
    if candidates.get("text") == []:
        unnamed.sort(key=lambda column: -column.length)
        longest = unnamed[0].length if unnamed else 0
        candidates["text"] = [column for column in unnamed if _TEXT * column.length > longest]
    if candidates.get("label") == []:
        texts = {column.name for column in candidates.get("text", [])}
        candidates["label"] = [c for c in unnamed if c.has_classes and c.name not in texts]

    # One column for each field; else it is refused.
    chosen = {field: named[0].name if named else "NAME" for field, named in candidates.items()}
    if not is_named:
        numbers = {column.name: str(number) for number, column in enumerate(columns, start=1)}
        by_number = {field: numbers.get(name, "NUMBER") for field, name in chosen.items()}
        problem = f"{path}: row 1 may be a header or an example: {first_rows(head)}"
        inference.refuse(problem, _columns(chosen), _columns(by_number))
        return
    for field, named in candidates.items():
        if len(named) != 1:
            possible = named or [c for c in unnamed if c.name not in chosen.values()]
            names = [column.name for column in possible]
            meanings = [_columns({**chosen, field: name}) for name in names or ["NAME"]]
            listed = ", ".join(map(str, possible or columns))[:300]
            if len({*names}) < len(names):  # no flag tells them apart
                meanings = []
                listed += ", of which one must be renamed"
            inference.refuse(f"{path}: the column of the {field} may be one of {listed}", *meanings)
    if all(len(named) == 1 for named in candidates.values()):
        inference.set(**_columns(chosen))


def first_rows(head: Sequence[Sequence[str]]) -> str:
    """The first rows of a table, for messages."""
    listed = " and ".join(repr("  ".join(cells)[:80]) for cells in head)
    return f"the first rows are {listed}"


def _columns(chosen: Mapping[str, str]) -> dict[str, str]:
    """`data.columns`, as fields of a meaning."""
    return {"columns": ",".join(f"{field}={column}" for field, column in chosen.items())}


def infer_size(
    inference: Inference, held_out: HoldOut, examples: Iterable[tuple[str, ...]], source: str
) -> None:
    """Sets `holdout_size`.

    Args:
      held_out: the rule, with the largest size.
      examples: what it adds.
      source: of the examples, for messages.
    """
    for example in examples:
        held_out.add(*example)
    try:
        size = held_out.fit_size(source)
    except UserError as error:
        inference.refuse(str(error), {"holdout_size": max(1, held_out.groups // 10)})
    else:
        inference.set(holdout_size=size)


def infer_rows(
    inference: Inference, words: Any, examples: Iterable[Iterable[Sequence[str]]], shared: int = 0
) -> None:
    """Lowers "words.rows" to the words of a small text.

    Args:
      words: the config's section.
      examples: the words of each text of each.
      shared: rows of no single word, beside padding and unknown words.
    """
    distinct = set[str]()
    for number, texts in enumerate(examples, start=1):
        distinct.update(*texts)
        if number == MANY:
            return
    rows = len(distinct) + 2 + shared
    if rows < words.rows:
        inference.values["words.rows"] = rows
