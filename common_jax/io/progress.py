"""Progress of long loops: a bar on a terminal, elsewhere a line a minute in the log."""

import datetime
import logging
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS = 60.0  # between two lines

_log = logging.getLogger(__name__)


def is_quiet() -> bool:
    """Whether this process shows no messages below warnings: `logging.disable(logging.INFO)`."""
    return logging.root.manager.disable >= logging.INFO


def progress(
    items: Iterable[T], description: str, unit: str, total: int | None = None
) -> Iterator[T]:
    """Iterates over the items and shows their number, and with a total the time left.

    Args:
      total: the number of items; None if it is unknown.
    """
    from tqdm import tqdm

    class Lines(tqdm):  # type: ignore[type-arg]
        monitor_interval = 0  # else a thread for this class, which does not end

        def display(self, msg: str | None = None, pos: int | None = None) -> None:
            if msg is None and self.n:  # else it begins, or clears a bar
                _log.info("%s", _log_line(self.format_dict, unit))

    bar = dict(desc=description, unit=f" {unit}", total=total, file=sys.stderr)
    if is_quiet() or sys.stderr.isatty():
        return iter(tqdm(items, **bar, leave=False, disable=is_quiet()))
    lines = dict(delay=SECONDS, mininterval=SECONDS, miniters=1, leave=False)
    return iter(Lines(items, **bar, **lines))


def _log_line(state: dict[str, Any], unit: str) -> str:
    """A line of the log from the state of tqdm."""
    count = state["n"]
    total = state["total"]
    rate = count / max(state["elapsed"], 1e-9)
    line = f"{state['prefix']}: {count:,} {unit}, {rate:,.0f} a second"
    if not total:
        return line
    left = datetime.timedelta(seconds=round(max(0, total - count) / max(rate, 1e-9)))
    return f"{line}, {100 * count / total:.0f} % of {total:,}, {left} left"
