"""Maps the labels of tables, names or numbers, to those of `data.labels`."""

import logging
import re
import shlex
from collections.abc import Mapping, Sequence

from common_jax.errors import UserError
from common_jax.fields import join_list, require

UNLABELLED = "-"  # SNLI's label if annotators disagreed; -1 in datasets

_BOOLS = {"false": ("false", "no", "0"), "true": ("true", "yes", "1")}
NUMBER = re.compile(r"(-?[0-9]+)(\.0+)?")  # a whole one, as a label

_log = logging.getLogger(__name__)


class LabelReader:
    """Reads the labels of one table.

    A number, from 0, is replaced by the label at this position: of the table's own label names, or
    else of `data.labels`. It is unchanged if `data.labels` has numbers, or if the table had a label
    of `data.labels` before. False is "false", "no" or "0", or the first of two labels.
    """

    def __init__(
        self,
        names: Sequence[str],
        ignored: Sequence[str],
        place: str,
        file_names: Sequence[str] = (),
        *,
        fixed: bool = False,
        inferred: bool = False,
    ):
        """
        Args:
          names, ignored: `data.labels` and `data.ignored_labels`.
          fixed: whether `data.labels` cannot be changed, for messages.
          inferred: whether `data.labels` is inferred, of names in alphabetical order.
          place: the table, for messages.
          file_names: the table's names of its numbers, if it has them. They are equal to labels, or
            else equal without case and blanks.

        Raises:
          UserError: for a name of the table that is no label, or names of the same label.
        """
        self._names = [*names]
        self._ignored = [*ignored]
        self._place = place
        self._fixed = fixed
        self._has_names = False
        self._logged = False
        self._numbers = set[int]()
        self._has_file_names = [*file_names] != [*map(str, range(len(file_names)))]
        if self._has_file_names:
            self._numbered = self._labels_of(file_names)
        else:
            with_numbers = any(re.fullmatch("-?[0-9]+", name) for name in names)
            self._numbered = [] if with_numbers else [*names]
        is_bool = (*map(str.lower, names),) in zip(*_BOOLS.values(), strict=True)
        by_name = self._names == sorted(names, key=str.casefold)
        self._unordered = inferred and by_name and not (is_bool or self._has_file_names)

    def identity(self, file_names: Sequence[str]) -> list[list[str]]:
        """Identifies the labels of a table's names; empty if versions that compared names exactly,
        or else used the order of `data.labels`, read the same ones."""
        by_order = not {*self._names} & {*file_names} and len(file_names) == len(self._names)
        former = self._names if by_order else [*file_names]
        return [] if not self._has_file_names or self._numbered == former else [self._numbered]

    def may_be(self, label: str) -> bool:
        """Whether a text may be a label: one of the config's, a number, a bool, or blank."""
        label = label.strip()
        is_value = NUMBER.fullmatch(label) or label.lower() in _BOOLS
        return not label or bool(is_value) or label in self._names + self._ignored

    def __call__(self, label: str) -> str:
        """The name of a label, or the label unchanged; "" if it is blank."""
        label = self._of_bool(label.strip())
        number = NUMBER.fullmatch(label)
        if number and self._has_file_names:
            return self._name(number[1])
        if label in self._names or label in self._ignored:
            self._has_names |= label in self._names
            return label
        if not number or number[1] in self._names or number[1] in self._ignored:
            return number[1] if number else label
        return self._name(number[1])

    def require_positions(self) -> None:
        """Raises UserError if the table's numbers may not be positions in `data.labels`."""
        numbers = self._numbers
        last = len(self._numbered) - 1
        fault = ""
        if self._unordered and numbers - {-1}:
            labels = f"data.labels={join_list(self._names)}"
            fault = f"where {labels} was inferred from names, in alphabetical order; write names, "
            fault += f"or set {labels} if they are 0 to {last}"
        elif last + 1 in numbers and 0 not in numbers:
            counted = map(str, range(1, last + 2))
            fault = f"with {last + 1} and without 0, where 0 to {last} are the positions in "
            fault += f"data.labels; if they count from 1, set data.labels={join_list(counted)}"
        elif numbers > {-1} and not (self._has_file_names or {0, last} <= numbers):
            fault = f"with -1, which is no label, and without 0 or {last}; if it is one, "
            signed = join_list(map(str, sorted(numbers)))
            fault += "write no and yes" if self._fixed else f"set data.labels={signed}"
            fault += f", else set data.ignored_labels={join_list([*self._ignored, '-1'])}"
        require(last < 0 or not fault, f"{self._place}: labels by number, {fault}")

    def _labels_of(self, file_names: Sequence[str]) -> list[str]:
        """The label of each of a table's names."""
        matches = {name: self._matching(name) for name in file_names}
        labels = [match[0] for match in matches.values() if len(match) == 1]
        unknown = [name for name, match in matches.items() if len(match) != 1]
        settings = {"labels": self._names, "ignored_labels": self._ignored}
        listed = " and ".join(f"data.{key}={join_list(known)}" for key, known in settings.items())
        names = f"{self._place}: its labels are {join_list(file_names)}"
        if unknown:
            raise UserError(
                f"{names}, and {join_list(unknown)} not in {listed}; "
                f"{self._accepting(matches, unknown)}"
            )
        several = f"{names}, several of which are the same of {listed}; rename one"
        require(len({*labels}) == len(file_names), several)
        return labels

    def _accepting(self, matches: Mapping[str, Sequence[str]], unknown: Sequence[str]) -> str:
        """The advice about a table's names that are no labels."""
        if {*self._names} <= {match[0] for match in matches.values() if match}:
            key = "ignored_labels"
            accepted = [*self._ignored, *unknown]
        elif self._fixed:
            return f"rename them to {join_list(self._names)}"
        else:
            key = "labels"
            accepted = [name for name, match in matches.items() if not {*match} & {*self._ignored}]
        return f"{shlex.quote(f'--config.data.{key}={join_list(accepted)}')} accepts them"

    def _matching(self, name: str) -> list[str]:
        """The labels that a name may be."""
        known = [*self._names, *self._ignored]
        if name in known:
            return [name]
        return [label for label in known if _folded(label) == _folded(name)]

    def _of_bool(self, label: str) -> str:
        """The label of true or false, or its number if there are two labels; others unchanged."""
        forms = _BOOLS.get(label.lower(), ())
        if not forms or label in self._names or label in self._ignored:
            return label
        if named := [name for name in self._names if name.lower() in forms]:
            return named[0]
        self._unordered = False
        return str([*_BOOLS].index(label.lower())) if len(self._numbered) == 2 else label

    def _name(self, number: str) -> str:
        """The name of a number; the number if it has none."""
        if number != "-1" and (self._has_names or number.startswith("-")):
            return number
        self._numbers.add(int(number))
        if number == "-1":
            return UNLABELLED
        if int(number) >= len(self._numbered):
            return number
        if not self._logged:
            pairs = ", ".join(f"{n} = {name}" for n, name in enumerate(self._numbered))
            _log.info("%s: labels by number: %s", self._place, pairs)
            self._logged = True
        return self._numbered[int(number)]


def _folded(name: str) -> str:
    """A name without case and blanks."""
    return "".join(name.split()).casefold()
