"""Random samples of streams."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def reservoir(items: Iterable[T], size: int, draw: Callable[[int], int]) -> list[T]:
    """A uniform random sample of `size` items, or all if they are fewer, in no particular order.

    Stores at most `size` items: algorithm R of Vitter (1985), Random Sampling with a Reservoir.

    Args:
      draw: returns a uniform integer in [0, argument).
    """
    sample: list[T] = []
    for index, item in enumerate(items):
        if index < size:
            sample.append(item)
        elif (replaced := draw(index + 1)) < size:
            sample[replaced] = item
    return sample
