"""Progress bars on standard error, shown on terminals alone."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def progress(items: Iterable[T], description: str, unit: str) -> Iterator[T]:
    """Passes the items on while a bar counts them."""
    from tqdm import tqdm

    bar = tqdm(items, desc=description, unit=f" {unit}", leave=False, disable=None, file=sys.stderr)
    return iter(bar)
