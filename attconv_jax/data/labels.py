"""Maps the labels of tables, names or numbers, to those of `data.labels`."""

import logging
import re
from collections.abc import Sequence

from common_jax.errors import UserError

UNLABELLED = "-"  # SNLI's label if annotators disagreed; -1 in datasets

_log = logging.getLogger(__name__)


class LabelReader:
    """Reads the labels of one table.

    A number, from 0, is replaced by the label at this position: of the table's own label names, or
    else of `data.labels`. It is unchanged if `data.labels` has numbers, or if the table had a label
    of `data.labels` before.
    """

    def __init__(
        self,
        names: Sequence[str],
        ignored: Sequence[str],
        place: str,
        table_names: Sequence[str] = (),
    ):
        """
        Args:
          names, ignored: `data.labels` and `data.ignored_labels`.
          place: the table, for the log.
          table_names: the table's names of its numbers, if it has them.
        """
        self._names, self._ignored, self._place = set(names), set(ignored), place
        self._has_names = self._logged = False
        if table_names:
            differ = not self._names & {*table_names} and len(table_names) == len(names)
            self._numbered = list(names if differ else table_names)
        else:
            with_numbers = any(re.fullmatch("-?[0-9]+", name) for name in names)
            self._numbered = [] if with_numbers else list(names)
        self._has_table_names = bool(table_names)
        self._numbers = set[int]()

    def __call__(self, label: str) -> str:
        """The name of a label, or the label unchanged; "" if it is blank."""
        if not label.strip():
            return ""
        number = re.fullmatch(r"(-?[0-9]+)(\.0+)?", label)
        if number and self._has_table_names:
            return UNLABELLED if number[1] == "-1" else self._name(number[1])
        if label in self._names | self._ignored:
            self._has_names |= label in self._names
            return label
        if not number or number[1] in self._names | self._ignored:
            return number[1] if number else label
        return UNLABELLED if number[1] == "-1" else self._name(number[1])

    def require_numbers_from_zero(self) -> None:
        """Raises UserError if the numbers of the table seem to be counted from 1."""
        last = len(self._numbered)
        if last and last in self._numbers and 0 not in self._numbers:
            listed = ",".join(map(str, range(1, last + 1)))
            raise UserError(
                f"{self._place}: labels by number, with {last} and without 0, where 0 to "
                f"{last - 1} are the positions in data.labels; if they count from 1, set "
                f"data.labels={listed}"
            )

    def _name(self, number: str) -> str:
        """The name of a number; the number if it has none."""
        if self._has_names or number.startswith("-"):
            return number
        self._numbers.add(int(number))
        if int(number) >= len(self._numbered):
            return number
        if not self._logged:
            pairs = ", ".join(f"{n} = {name}" for n, name in enumerate(self._numbered))
            _log.info("%s: labels by number: %s", self._place, pairs)
            self._logged = True
        return self._numbered[int(number)]
