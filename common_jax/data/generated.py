"""Helpers for generators of corpora: data files, splits by value, alternating labels."""

import importlib.resources
import itertools
import tomllib
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar

from common_jax.data.prepared import Split

BUCKETS = 10  # hash buckets of values, one of them for dev and one for test
_HELD_OUT: dict[int, Split] = {0: "dev", 1: "test"}

Label = TypeVar("Label")
Example = TypeVar("Example", bound=Hashable)


def read_data(module: str) -> dict[str, Any]:
    """The content of the TOML file beside a module and with its name.

    Args:
      module: its `__name__`.
    """
    package, _, name = module.rpartition(".")
    return tomllib.loads((importlib.resources.files(package) / f"{name}.toml").read_text("utf-8"))


def bucket_split(number: int) -> Split:
    """The split of values with this hash."""
    return _HELD_OUT.get(number % BUCKETS, "train")


def capitalized(text: str) -> str:
    """The text with its first letter in upper case, the rest unchanged."""
    return text[0].upper() + text[1:]


def alternate(
    labels: Sequence[Label], sample: Callable[[Label], Example]
) -> Iterator[tuple[Example, Label]]:
    """Endless distinct examples with their labels, which alternate.

    Args:
      sample: a random example of a label.
    """
    examples: set[Example] = set()
    for label in itertools.cycle(labels):
        while (example := sample(label)) in examples:
            pass
        examples.add(example)
        yield example, label
