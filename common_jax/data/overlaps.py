"""Examples that occur in several splits of a prepared corpus, counted by digests of their texts."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int64, Shaped, UInt64

from common_jax.data.corpus import OVERLAPS, Corpus

_CHUNK = 1 << 16  # rows read at once
_FACTORS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of SplitMix64

Overlaps = dict[str, dict[str, tuple[int, int]]]


def row_digests(corpus: Corpus, columns: Sequence[str]) -> UInt64[np.ndarray, "n"]:
    """A number for each row, equal for equal tokens of the columns."""
    starts = range(0, len(corpus), _CHUNK)
    chunks = [np.arange(start, min(start + _CHUNK, len(corpus))) for start in starts]
    digests = [_chunk_digests(corpus, columns, rows) for rows in chunks]
    return np.concatenate([np.zeros(0, np.uint64), *digests])


def _chunk_digests(
    corpus: Corpus, columns: Sequence[str], rows: Int64[np.ndarray, "n"]
) -> UInt64[np.ndarray, "n"]:
    digests = np.zeros(len(rows), np.uint64)
    for column in columns:
        # Each token is mixed with its position in the row; sums are modulo 2^64.
        tokens, lengths = corpus.flat(rows, column)
        ends = np.cumsum(lengths)
        positions = np.arange(len(tokens)) - np.repeat(ends - lengths, lengths)
        mixed = _mixed(tokens.astype(np.uint64) + positions.astype(np.uint64) * _FACTORS[1])
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        digests = _mixed(digests + sums[ends] - sums[ends - lengths])
    return digests


def _mixed(numbers: UInt64[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
    """SplitMix64's next output of each number."""
    numbers = numbers + np.uint64(_FACTORS[0])
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(_FACTORS[1])
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(_FACTORS[2])
    return numbers ^ (numbers >> np.uint64(31))


def write_overlaps(folder: Path, digests: Mapping[str, Shaped[np.ndarray, "_"]]) -> None:
    """Writes how many examples of a split are also in an earlier one, for `read_overlaps`.

    Args:
      digests: of each split's examples, train first.
    """
    overlaps: Overlaps = {split: {} for split in digests}
    for first, second in itertools.combinations(digests, 2):
        # NumPy 2.0 overflows when it considers a table of such numbers
        if shared := int(np.isin(digests[second], digests[first], kind="sort").sum()):
            overlaps[second][first] = shared, len(digests[second])
    (folder / OVERLAPS).write_text(json.dumps(overlaps) + "\n", "utf-8")


def read_overlaps(folder: Path) -> Overlaps:
    """For each split, the number of its examples that are in an earlier split, of all of its
    examples; only those above 0, and none if an earlier version prepared the corpus."""
    file = folder / OVERLAPS
    return json.loads(file.read_text("utf-8")) if file.exists() else {}
