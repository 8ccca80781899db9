"""Fields of `data` that one's own files decide: their folder, columns, and held-out splits.

What can be meant in two ways is refused with the flags of each meaning, never guessed.
"""

import dataclasses
import filecmp
import itertools
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.bad_examples import BadExamples
from common_jax.data.holdout import HoldOut
from common_jax.data.object_rows import ObjectTable, read_scalar
from common_jax.data.prepared import SPLITS
from common_jax.data.table_format import format_of
from common_jax.data.text_rows import TextFile
from common_jax.errors import UserError
from common_jax.io.files import exists, file_endings, find_files, find_folder, names_in
from common_jax.io.json_files import Node
from common_jax.io.paths import expand_user, in_bucket

_MOST_CLASSES = 20  # values of a column of labels without a known name
_ROWS = 3  # least rows of each, and
_SHARE = 0.01  # least share of the rows
_TEXT = 2  # a column is the text if it is this many times as long as the next
_SHOWN = 4  # meanings of a problem that are listed


class Inference:
    """What the files of a config decide.

    Attributes:
      data: the config's section, with the values inferred until now.
      values: these, by field.
      notes, problems: lines for the log; what is refused.
    """

    def __init__(self, data: Any):
        self.data = data
        self.values: dict[str, Any] = {}
        self.notes: list[str] = []
        self.problems: list[str] = []

    def wants(self, *names: str) -> bool:
        """Whether the files decide these fields."""
        return {*names} <= {*self.data.to_infer}

    def set(self, **values: Any) -> None:
        """Takes values of fields."""
        self.data = dataclasses.replace(self.data, **values)
        self.values |= values

    def refuse(self, problem: str, *meanings: Mapping[str, Any]) -> None:
        """Adds a problem, with the fields of each of its meanings."""
        commands = ", or ".join(map(flags, meanings[:_SHOWN]))
        self.problems.append(f"{problem}; {commands}" if commands else problem)

    def require_none(self) -> None:
        """Raises UserError with all problems."""
        if len(self.problems) == 1:
            raise UserError(self.problems[0])
        if self.problems:
            numbered = (f"({n}) {text}" for n, text in enumerate(self.problems, start=1))
            raise UserError(" ".join(numbered))


def flags(values: Mapping[str, Any]) -> str:
    """Fields of `data` as flags for a shell."""
    return " ".join(shlex.quote(f"--config.data.{key}={v}") for key, v in values.items())


def paths_of(data: Any, split: str) -> list[Path]:
    """The files of a split; raises UserError if one is missing."""
    folder = find_folder(data.dir, "data.dir")
    key = f"data.{split}"
    return [path for name in data.names_of(split) for path in find_files(folder, name, key)]


def infer_folder(inference: Inference) -> None:
    """Sets `dir` to the current folder if it has the named files, and `data.dir` does not."""
    data = inference.data
    if not inference.wants("dir") or in_bucket(data.dir):
        return
    named = [(split, getattr(data, split)) for split in SPLITS if getattr(data, split)]
    folders = Path(expand_user(data.dir)), Path.cwd()

    # Which of the two folders have each name.
    split_folder: dict[str, Path] = {}
    for split, value in named:
        at = [folder for folder in folders if _has(folder, value, f"data.{split}")]
        if len(at) == 2 and _differ(*(folder / value for folder in at)):
            problem = f"data.{split}={value}: {folders[0] / value} and {folders[1] / value} differ"
            inference.refuse(problem, *({"dir": folder} for folder in folders))
        elif not at:
            where = f"neither in data.dir={data.dir} nor in {folders[1]}"
            inference.refuse(f"data.{split}={value}: no such file, {where}")
        else:
            split_folder[split] = at[0]

    # One folder for all.
    if len({*split_folder.values()}) > 1:
        listed = ", ".join(f"data.{split} in {folder}" for split, folder in split_folder.items())
        inference.refuse(f"files of two folders: {listed}; give their full paths")
    elif split_folder.get("train") == folders[1] and not inference.problems:
        inference.set(dir=str(folders[1]))


def _has(folder: Path, value: str, key: str) -> bool:
    """Whether a folder has all files that a field names."""
    names = names_in(value, key, folder)
    return all(exists(folder, name) or file_endings(folder / name) for name in names)


def _differ(first: Path, second: Path) -> bool:
    """Whether two paths are of different files; True for several files."""
    if first.absolute() == second.absolute() or first.parent.absolute() == second.parent.absolute():
        return False
    both = first.is_file() and second.is_file()
    return not (both and filecmp.cmp(first, second, shallow=False))


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
        counts = ", ".join(f"{value} {count}" for value, count in self.values.most_common(3))
        return f"{self.name} ({counts}, ...)" if len(self.values) > 3 else f"{self.name} ({counts})"


@dataclasses.dataclass
class Columns:
    """The columns of a table, from all of its rows.

    Attributes:
      columns: by name; by number if row 1 is not surely a header.
      head: the first two rows of texts.
      is_named: whether the names are surely names.
    """

    columns: list[Column]
    head: list[list[str]]
    is_named: bool


def read_columns(data: Any, path: Path, known: Iterable[str]) -> Columns:
    """Reads a table.

    Args:
      known: names in lower case, of which a header has one. Without, row 1 is a header only if none
        of its cells occurs again in its column.

    Raises:
      UserError: if the file cannot be read.
    """
    separator = getattr(data, "separator", "\t")
    format = format_of(path, separator)
    bad_examples = BadExamples("skip")
    if format in ("parquet", "jsonl", "json"):
        table = ObjectTable(path, format)
        columns = [Column(name) for name in table.names]
        for node in table.rows(bad_examples):
            for column, value in zip(columns, _scalars(node, table.names), strict=True):
                column.add(value)
        return Columns(columns, [], True)

    # Rows of texts, the first of which may be the header.
    file = TextFile(path, format == "csv", separator, data.quotes)
    rows = (cells for _, cells in file.filled(bad_examples))
    first = [cell.strip() for cell in next(rows, [])]
    columns = [Column(name) for name in first]
    head = [first]
    recurs = False
    for cells in rows:
        head += [cells] if len(head) == 1 else []
        recurs |= any(a == b.strip() for a, b in zip(first, cells, strict=False) if a)
        for column, cell in zip(columns, cells, strict=False):
            column.add(cell)
    is_known = any(name.lower() in {*known} for name in first)
    return Columns(columns, head, is_known or not recurs)


def _scalars(node: Node, names: Sequence[str]) -> Iterator[str]:
    """The texts and numbers of a row, as texts; "" for others."""
    for name in names:
        value = node.value.get(name) if isinstance(node.value, dict) else None
        yield read_scalar(node, (name,)) if isinstance(value, str | int | float) else ""


def infer_columns(
    inference: Inference,
    path: Path,
    usual: Mapping[str, Sequence[str]],
    by_content: Sequence[str] = (),
) -> None:
    """Sets `columns` of a table that has no known layout.

    Args:
      usual: names of each field's column, in lower case.
      by_content: of "text" and "label", the fields that are also found by their content: a text at
        least `_TEXT` times as long as the next, and the only other column with few values.
    """
    table = read_columns(inference.data, path, itertools.chain(*usual.values()))
    columns = table.columns
    candidates = {
        field: [column for column in columns if column.name.lower() in names]
        for field, names in usual.items()
    }

    # Fields without a usual name, by their content.
    taken = {column.name for named in candidates.values() for column in named}
    others = [column for column in columns if column.name not in taken]
    if "text" in by_content and not candidates["text"]:
        others.sort(key=lambda column: -column.length)
        longest = others[0].length if others else 0
        candidates["text"] = [column for column in others if _TEXT * column.length > longest]
    if "label" in by_content and not candidates["label"]:
        texts = {column.name for column in candidates["text"]}
        candidates["label"] = [c for c in others if c.has_classes and c.name not in texts]

    # One column for each field, whose names can be written.
    chosen = {field: named[0].name if named else "NAME" for field, named in candidates.items()}
    listed = ", ".join(column.name for column in columns)[:300]
    numbers = {column.name: str(number) for number, column in enumerate(columns, start=1)}
    if not table.is_named:
        shown = " and ".join(repr("  ".join(cells)[:80]) for cells in table.head)
        by_number = {field: numbers.get(name, "NUMBER") for field, name in chosen.items()}
        problem = f"{path}: row 1 may be a header or an example: the first rows are {shown}"
        inference.refuse(problem, _columns(chosen), _columns(by_number))
        return
    for field, named in candidates.items():
        if not named:
            problem = f"{path}: no column is surely the {field}: {listed}"
            inference.refuse(problem, _columns(chosen))
        elif len(named) > 1:
            several = ", ".join(map(str, named) if field == "label" else (c.name for c in named))
            meanings = [_columns({**chosen, field: column.name}) for column in named]
            inference.refuse(f"{path}: several columns can be the {field}: {several}", *meanings)
    if any(len(named) != 1 for named in candidates.values()):
        return
    if unwritten := [name for name in chosen.values() if "," in name]:
        inference.refuse(f"{path}: rename the column {unwritten[0]!r}, whose name has a comma")
        return
    inference.set(**_columns(chosen))


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
    try:
        for example in examples:
            held_out.add(*example)
        size = held_out.fit_size(source)
    except UserError as error:
        inference.refuse(str(error), {"holdout_size": max(1, held_out.groups // 10)})
    else:
        splits = " and ".join(held_out.splits)
        counted = f"{size} of each of {splits}, of {held_out.groups} distinct {held_out.unit}"
        inference.notes.append(f"held out of train: {counted}")
        inference.set(holdout_size=size)
