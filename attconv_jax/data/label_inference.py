"""Labels that files decide: those that occur, if each has one form and one meaning."""

import dataclasses
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attconv_jax.data.labels import NUMBER
from attconv_jax.data.sources import file_sources
from common_jax.data.inference import Inference, paths_of
from common_jax.data.prepared import SPLITS
from common_jax.fields import join_list
from common_jax.text.word_tokenizer import ENGLISH

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig

_KINDS = ("numbers", "bools", "names")  # of labels
_FEW = 10  # labels at least, and
_NEARLY_ALL = 0.9  # the share of them that occur once, in a column of no labels
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def infer_labels(inference: Inference) -> None:
    """Sets the labels to those of the files; refuses those with several forms or meanings."""
    data: DataConfig = inference.data
    if file_names := tables_of(data, "train")[0].file_labels:
        inference.set(labels=join_list(file_names))
        return
    labels = _Labels(inference)
    labels.refuse_headers()
    if labels.may_be_ids():
        labels.refuse_ids()
    else:
        labels.refuse_several_forms()
        labels.refuse_untrained()
        labels.refuse_blank()
        labels.refuse_kinds()
    if len(labels.names) > 1:  # with a problem, too: the held-out examples are read with them
        inference.set(**labels.meaning(labels.names))


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


class _Labels:
    """The labels of the files of all splits.

    Attributes:
      names: the most frequent form of each.
    """

    def __init__(self, inference: Inference):
        self._inference = inference
        self._data: DataConfig = inference.data
        self._problem = f"{self._data.train}: labels"
        of_split = {
            split: [_column(inference, table) for table in tables_of(self._data, split)]
            for split in SPLITS
            if getattr(self._data, split)
        }
        self._columns = [column for columns in of_split.values() for column in columns]
        self._trained = {_folded(value) for column in of_split["train"] for value in column.counts}

        # How often each value occurs, without those that are ignored or may be of headers.
        counts = sum((column.counts for column in self._columns), Counter[str]())
        ignored = self._data.ignored_names
        self._ignored = {_name(value) for value in counts if _name(value) in ignored}
        values = Counter({value: n for value, n in counts.items() if _name(value) not in ignored})
        self._headers = _headers(values, self._columns)
        self._values = values - self._headers

        # The forms of each label; the most frequent is its name.
        self._forms: dict[str, Counter[str]] = {}
        for value, count in self._values.items():
            if value.strip():
                self._forms.setdefault(_folded(value), Counter())[value] += count
        self._name_of = {key: _name(f.most_common(1)[0][0]) for key, f in self._forms.items()}
        self.names = {*self._name_of.values()}

    def may_be_ids(self) -> bool:
        """Whether nearly all of many labels occur once, as ids or texts do."""
        return len(self.names) >= _FEW and self._single >= _NEARLY_ALL * len(self.names)

    @property
    def _single(self) -> int:
        """The number of labels that occur once."""
        return sum(forms.total() == 1 for forms in self._forms.values())

    def refuse_ids(self) -> None:
        """Refuses a column of ids or texts."""
        fields = tables_of(self._data, "train")[0].content.fields
        columns = [f"{key}={'NAME' if key == 'label' else name}" for key, name in fields.items()]
        labels = [*_ordered(self.names)[:3], "..."]
        problem = f"{self._single} of {len(self.names)} occur once ({', '.join(labels)})"
        meanings = [{"columns": ",".join(columns)}, {"labels": join_list(labels)}]
        self._refuse(f"{problem} and may be no labels", *meanings)

    def refuse_headers(self) -> None:
        """Refuses values that may be of a header."""
        if self._headers:
            headers = {_name(value) for value in self._headers}
            meanings = [self.meaning(self.names, headers), self.meaning(self.names | headers)]
            self._refuse(f"{_listed(self._headers)} may be of a header", *meanings)

    def refuse_several_forms(self) -> None:
        """Refuses labels that differ in case, blanks or characters that are not seen."""
        if several := [forms for forms in self._forms.values() if len(forms) > 1]:
            all_names = {_name(value) for value in self._values if value.strip()}
            meanings = [self.meaning(all_names)]
            if all_names > self.names:
                meanings.append(self.meaning(self.names, all_names - self.names))
            self._refuse(f"{', '.join(map(_listed, several))} may be the same", *meanings)

    def refuse_untrained(self) -> None:
        """Refuses labels of dev or test that train lacks."""
        if untrained := [key for key in self._forms if key not in self._trained]:
            listed = ", ".join(_listed(self._forms[key]) for key in untrained)
            ignoring = self.meaning(self.names, [self._name_of[key] for key in untrained])
            meanings = [self.meaning(self.names), {"ignored_labels": ignoring["ignored_labels"]}]
            self._refuse(f"{listed} of dev or test, which train lacks", *meanings)

    def refuse_blank(self) -> None:
        """Refuses rows without a label."""
        blank = sum(count for value, count in self._values.items() if not value.strip())
        if blank and self._data.on_bad_example == "error":
            self._refuse(f"{blank} rows have none", {"on_bad_example": "skip"})

    def refuse_kinds(self) -> None:
        """Refuses fewer than two labels, those of several kinds, and a sign or -1 that may be the
        lack of a label."""
        signs = self.names & {"+", "=", "0"}
        if len(self.names) < 2:
            self._refuse(f"{', '.join(self.names) or 'none'}; there must be two")
        elif signs and "-" in self._ignored:
            rest = join_list(name for name in self._data.ignored_names if name != "-")
            signed = {**self.meaning({*self.names, "-"}), "ignored_labels": rest}
            reason = f"'-' beside {join_list(_ordered(signs))} may be a label or the lack of one"
            self._refuse(reason, signed, self.meaning(self.names))
        else:
            self._require_one_kind()

    def _require_one_kind(self) -> None:
        """Refuses numbers beside others, bools beside names of other files, and -1 as a number."""
        kinds = {kind: {name for name in self.names if _kind(name) == kind} for kind in _KINDS}
        kinds = {kind: names for kind, names in kinds.items() if names}
        numbers = kinds.get("numbers", set[str]())
        names_of_files = [{_name(value) for value in column.counts} for column in self._columns]
        in_files = [{_kind(name) for name in names & self.names} for names in names_of_files]
        bools_are_names = any({"bools", "names"} <= in_file for in_file in in_files)

        # -1 is a label beside other negative numbers, and if without it only one label is left.
        negative = {name for name in numbers if name.startswith("-")}
        if len(kinds) == 1 and negative == {"-1"} and len(numbers) > 2:
            meanings = [self.meaning(self.names), self.meaning(self.names - {"-1"}, ["-1"])]
            self._refuse("-1 may be a label or the lack of one", *meanings)
        if len(kinds) == 1 or (bools_are_names and not numbers):
            return

        # Names may be those of numbers, or of bools, in other files.
        others = kinds.get("names") or kinds["bools"]
        rest = self.names - others
        meanings = []
        is_numbered = rest in ({*map(str, range(len(others)))}, kinds.get("bools"))
        has_one_kind = all(len(in_file) < 2 for in_file in in_files)
        if is_numbered and has_one_kind and len(others) == len(rest) > 1:
            meanings.append(self.meaning(others))
        most = max(kinds.values(), key=len)
        if len(most) > 1:
            meanings.append(self.meaning(most, self.names - most))
        meanings.append(self.meaning(self.names))
        listed = " and ".join(f"{kind} ({', '.join(_ordered(kinds[kind]))})" for kind in kinds)
        self._refuse(
            f"{listed}; names of numbers or bools must be in the order of these", *meanings
        )

    def meaning(self, names: Iterable[str], ignored: Iterable[str] = ()) -> dict[str, str]:
        """The fields of labels, without those that are ignored."""
        labels = {"labels": join_list(_ordered({*names} - {*ignored}))}
        if not ignored:
            return labels
        all_ignored = [*self._data.ignored_names, *_ordered(ignored)]
        return {**labels, "ignored_labels": join_list(all_ignored)}

    def _refuse(self, problem: str, *meanings: Mapping[str, str]) -> None:
        """Adds a problem of the labels."""
        self._inference.refuse(f"{self._problem}: {problem}", *meanings)


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


def _listed(values: Counter[str]) -> str:
    """The forms of a label, with their counts."""
    shown = {value: unicodedata.is_normalized("NFKC", value) for value in values}
    texts = {value: repr(value) if plain else ascii(value) for value, plain in shown.items()}
    return "/".join(f"{texts[value]} ({count} rows)" for value, count in values.most_common())


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
    number = NUMBER.fullmatch(value.strip())
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


def tables_of(data: "DataConfig", split: str) -> list[Any]:
    """The tables of a split."""
    return file_sources(data, paths_of(data, split), annotated=False, rule=ENGLISH)
