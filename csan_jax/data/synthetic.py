"""A generated English-German corpus: sentences with numbers, dates, clock times and prices.

For quick runs with meaningful scores. Every sentence has at least five words on each side and
contains one phrase with a value. The German is a function of the English, so that a perfect score
is possible. The split is a function of the phrase's value: held-out phrases never occur in training
and must be composed.
"""

import dataclasses
import functools
import itertools
import math
import random
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from common_jax.data.generated import BUCKETS, bucket_split
from common_jax.data.prepared import Split
from csan_jax.data.synthetic_phrases import MONTHS
from csan_jax.data.synthetic_templates import RANGES, TEMPLATES, WEIGHTS, Kind, Pair, Template


def split_of(kind: Kind, values: Sequence[int] | np.ndarray) -> np.ndarray:
    """The split of each phrase, as an array of str.

    Numbers of one word ("seventeen", "forty") are always in train, as they are not composed. The
    value of a date has no year, so that a held-out day is held out in every year.

    Args:
      kind: of the values, as in `Template`.
      values: [N], at least 0.
    """
    bucket = _mix(np.asarray(values, np.uint32), zlib.crc32(kind.encode())) % BUCKETS
    names = np.array([bucket_split(b) for b in range(BUCKETS)])
    split = names[bucket]
    if kind == "number":
        value = np.asarray(values)
        split[(value < 20) | ((value < 100) & (value % 10 == 0))] = "train"
    return split


def _mix(x: np.ndarray, salt: int) -> np.ndarray:
    """A stable hash of uint32, the finalizer of MurmurHash3 (Appleby, public domain)."""
    x = x ^ np.uint32(salt)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def _values(kind: Kind, low: int, high: int) -> np.ndarray:
    """All values of a kind; `low` and `high` bound the numbers."""
    if kind == "number":
        return np.arange(low, high)
    if kind == "date":
        return np.array(
            [32 * (m + 1) + day for m in range(12) for day in range(1, MONTHS[m][2] + 1)]
        )
    if kind == "time":
        return np.arange(60, 13 * 60, 5)
    euros = np.array([n for n in range(1, 1_000) if n == 1 or n % 100 != 1])
    with_cents = [100 * n + c for n in range(1, 100) for c in range(10, 100, 5)]
    return np.concatenate([100 * euros, with_cents])


@functools.cache
def _phrases(kind: Kind, low: int, high: int, counts: bool, split: Split) -> memoryview:
    """The values of a template's phrases in a split, four bytes each."""
    values = _values(kind, low, high)
    if counts:
        values = values[(values == 1) | (values % 100 != 1)]
    return memoryview(values[split_of(kind, values) == split].astype(np.int32))


@dataclasses.dataclass(frozen=True)
class _TemplateStream:
    """All sentences of a template with a set of phrases, in random order."""

    template: Template
    phrases: memoryview
    weight: float

    @property
    def size(self) -> int:
        return len(self.phrases) * math.prod(len(f) for f in self.template.fillers)

    def sentences(self, rng: random.Random) -> Iterator[Pair]:
        """Each sentence once, in constant memory: index -> (index + step) mod size.

        A step coprime to the size visits every index; near the golden section of the size it
        spreads the first sentences over all indices.
        """
        size = self.size
        fillers = self.template.fillers
        step = int(size * rng.uniform(0.60, 0.64)) + 1
        while math.gcd(step, size) != 1:
            step += 1
        index = rng.randrange(size)
        for _ in range(size):
            index = (index + step) % size
            rest = index
            chosen = []
            for words in fillers:
                rest, word = divmod(rest, len(words))
                chosen.append(words[word])
            yield self.template.render(self.phrases[rest], *chosen)


def _template_streams(split: Split) -> list[_TemplateStream]:
    sources = []
    for template in TEMPLATES:
        weight = WEIGHTS[template.kind]
        weight /= sum(t.kind == template.kind for t in TEMPLATES)
        ranges = [r for r in RANGES if r[1] <= template.limit]
        for low, high, share in ranges if template.kind == "number" else [(0, 0, 1.0)]:
            phrases = _phrases(template.kind, low, high, bool(template.count), split)
            sources.append(_TemplateStream(template, phrases, weight * share))
    return sources


def generate(count: int, seed: int, split: Split) -> Iterator[Pair]:
    """Streams `count` distinct (English, German) sentences of a split.

    Deterministic on all platforms, in constant memory. When a template is exhausted, the others
    continue.

    Args:
      seed: of the choice and order of sentences; the splits are the same for every seed.

    Raises:
      ValueError: at the call, for more sentences than exist.
    """
    sources = _template_streams(split)
    most = sum(source.size for source in sources)
    if count > most:
        raise ValueError(f"at most {most}, the number of distinct sentences in {split}")
    return itertools.islice(_interleave(sources, random.Random(f"{seed} {split}")), count)


def _interleave(sources: list[_TemplateStream], rng: random.Random) -> Iterator[Pair]:
    streams = [source.sentences(rng) for source in sources]
    bounds = list(itertools.accumulate(source.weight for source in sources))
    while streams:
        (stream,) = rng.choices(streams, cum_weights=bounds)
        pair = next(stream, None)
        if pair is not None:
            yield pair
            continue
        at = streams.index(stream)
        del sources[at], streams[at]
        bounds = list(itertools.accumulate(source.weight for source in sources))
