"""Progress bars on standard error, shown on terminals alone."""

import logging
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def is_quiet() -> bool:
    """Whether this process shows no messages below warnings: `logging.disable(logging.INFO)`."""
    return logging.root.manager.disable >= logging.INFO


def progress(items: Iterable[T], description: str, unit: str) -> Iterator[T]:
    """Passes the items on while a bar counts them."""
    from tqdm import tqdm

    bar = tqdm(
        items,
        desc=description,
        unit=f" {unit}",
        leave=False,
        disable=is_quiet() or None,
        file=sys.stderr,
    )
    return iter(bar)
