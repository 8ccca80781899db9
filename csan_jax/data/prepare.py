"""Builds the prepared folder of a translation corpus, in two streaming passes.

The first chooses what is held out and a sample to train subwords on; the second encodes. Memory
grows with the sample and by eight bytes a pair, not with the text.
"""

import array
import contextlib
import hashlib
import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common_jax.bad_examples import BadExamples, summary
from common_jax.data.corpus import Writer
from common_jax.errors import UserError
from common_jax.text.subwords import END, Subwords, reservoir
from csan_jax.data import JOINT, SEPARATE
from csan_jax.data.sources import Generated, Numbered, Source, Split, held_out_splits, source_of

if TYPE_CHECKING:
    from csan_jax.config import DataConfig

COLUMNS = ("source", "target")
EVALUATED: tuple[Split, ...] = ("dev", "test")
SUBWORD_PAIRS = 500_000  # pairs of a larger corpus that subwords are trained on

_FORMAT = 1  # of the folder; another one prepares everything anew
_CHUNK = 4096  # pairs encoded at once


def model_names(config: "DataConfig") -> tuple[str, ...]:
    """The files of the subword models: one for both sides, or the source's and the target's."""
    return JOINT if config.joint_vocabulary else SEPARATE


class Builder:
    """What `common_jax.data.corpus.prepare` wants: a fingerprint, and the building itself.

    The folder gets the subword models and for each split a corpus (train, dev, test), whose `meta`
    says what was left out; dev and test also get `sources.txt` and `references.txt`, raw.

    Attributes:
      seconds: that `build` took; None where it was not needed.
    """

    def __init__(self, config: "DataConfig", workers: int | None = None):
        """Finds the files, and downloads a dataset of TensorFlow Datasets.

        Args:
          workers: threads that encode, None for as many as there are cores. The threads are
            SentencePiece's own, outside Python's lock, which is where preparing spends its time;
            what they write does not depend on how many they are.

        Raises:
          UserError: if one is missing.
        """
        self._config, self._workers = config, workers
        self.seconds: float | None = None
        self._train = source_of(config, "train")
        self._held_out = _HeldOut(config, held_out_splits(config))
        own = [split for split in EVALUATED if split not in self._held_out.splits]
        self._own = {split: source_of(config, split) for split in own}

    def fingerprint(self) -> dict[str, Any]:
        """All that decides the folder's content; reads every file once."""
        config, held_out = self._config, self._held_out.splits
        own = {split: source.identity() for split, source in self._own.items()}
        return {
            "translation": _FORMAT,
            "sources": {"train": self._train.identity(), **own},
            "held_out": [held_out, config.holdout_size, config.seed] if held_out else [],
            "vocabulary": [config.joint_vocabulary, *dict.fromkeys(config.vocab_sizes)],
            "max_length": config.max_length,
            "on_bad_example": config.on_bad_example,
        }

    def build(self, folder: Path) -> None:
        """Fills the empty folder.

        Raises:
          UserError: whatever is wrong with the text.
        """
        began = time.monotonic()
        subwords = self._train_subwords()
        for name, model in zip(model_names(self._config), subwords, strict=False):
            model.save(folder / name)
        self._encode(folder, subwords, self._train, ["train", *self._held_out.splits])
        for split, source in self._own.items():
            self._encode(folder, subwords, source, [split])
        self.seconds = time.monotonic() - began

    def _train_subwords(self) -> tuple[Subwords, Subwords]:
        """The source's and the target's subwords; held-out sentences take no part."""
        pairs = self._train.read(BadExamples(self._config.on_bad_example))
        if isinstance(self._train, Generated):  # in random order: its head is a fair sample
            pairs = itertools.islice(pairs, SUBWORD_PAIRS)
        surveyed = self._held_out.survey(_progress(pairs, "reading"))
        sample = reservoir(surveyed, SUBWORD_PAIRS)
        self._held_out.choose(self._train)
        sample = [pair for pair in sample if self._held_out.split(pair[0]) == "train"]
        if not sample:
            raise UserError(f"{self._train.place(1)}: no pairs to train on")
        config, most = self._config, 2 * SUBWORD_PAIRS
        keys = [f"{column}_vocab_size" for column in COLUMNS]
        keys = [f"data.{key if getattr(config, key) else 'vocab_size'}" for key in keys]
        sizes = config.vocab_sizes
        if config.joint_vocabulary:
            texts = itertools.chain.from_iterable(sample)
            both = Subwords.train(texts, sizes[0], max_sentences=most, key=keys[0])
            return both, both
        sides = zip(zip(*sample, strict=True), sizes, keys, strict=True)
        source, target = (Subwords.train(side, size, key=key) for side, size, key in sides)
        return source, target

    def _encode(
        self,
        folder: Path,
        subwords: tuple[Subwords, Subwords],
        source: Source,
        splits: list[Split],
    ) -> None:
        """Writes the corpora of the splits that one source holds; the first counts its bad ones."""
        bad_examples = {split: BadExamples(self._config.on_bad_example) for split in splits}
        with contextlib.ExitStack() as stack:
            writers: dict[str, _SplitWriter] = {}
            for split in splits:
                limit = self._config.max_length if split == "train" else None
                writer = _SplitWriter(
                    folder / split, subwords, source, bad_examples[split], limit, self._workers
                )
                writers[split] = stack.enter_context(writer)
            for pair in _progress(source.read(bad_examples[splits[0]]), f"encoding {splits[0]}"):
                split = self._held_out.split(pair[1]) if len(splits) > 1 else splits[0]
                writers[split].add(pair)


class _SplitWriter(contextlib.AbstractContextManager):
    """Encodes and writes the pairs of one split, some thousands at a time."""

    def __init__(
        self,
        folder: Path,
        subwords: tuple[Subwords, Subwords],
        source: Source,
        bad_examples: BadExamples,
        max_length: int | None,
        workers: int | None,
    ):
        """A limit of pieces (end symbol included) drops pairs; without one, text is kept too."""
        self._source, self._bad_examples, self._limit = source, bad_examples, max_length
        self._workers = workers
        self._subwords = subwords
        self._split, self._rows, self._pending = folder.name, 0, list[Numbered]()
        self._stack = contextlib.ExitStack()
        self._corpus = self._stack.enter_context(Writer(folder, COLUMNS))
        self._texts = []
        if max_length is None:
            for name in ("sources.txt", "references.txt"):
                file = (folder / name).open("w", encoding="utf-8", newline="")
                self._texts.append(self._stack.enter_context(file))

    def add(self, pair: Numbered) -> None:
        self._pending.append(pair)
        if len(self._pending) == _CHUNK:
            self._flush()

    def __exit__(self, kind, error, traceback) -> None:
        if kind is None:
            self._flush()
            if not self._rows:
                raise UserError(f"{self._source.place(1)}: {self._empty()}")
            self._corpus.meta["dropped"] = self._bad_examples.counts
        self._stack.__exit__(kind, error, traceback)

    def _flush(self) -> None:
        numbers, *texts = zip(*self._pending, strict=True) if self._pending else ((), (), ())
        sides = [
            [[*row, END] for row in model.encode([t.strip() for t in side], workers=self._workers)]
            for model, side in zip(self._subwords, texts, strict=True)
        ]
        if self._limit is not None:
            longest = [max(map(len, pair)) for pair in zip(*sides, strict=True)]
            for number, length in zip(numbers, longest, strict=True):
                if length > self._limit:
                    kind = f"over data.max_length={self._limit} pieces"
                    self._bad_examples.skip(kind, self._source.place(number))
            sides = [
                [row for row, length in zip(side, longest, strict=True) if length <= self._limit]
                for side in sides
            ]
        self._corpus.extend(dict(zip(COLUMNS, sides, strict=True)))
        for file, side in zip(self._texts, texts, strict=False):
            file.writelines(f"{text}\n" for text in side)
        self._rows += len(sides[0])
        self._pending.clear()

    def _empty(self) -> str:
        dropped = summary(self._bad_examples.counts)
        return f"no pairs left for {self._split}" + (f": {dropped}" if dropped else "")


class _HeldOut:
    """Chooses the source sentences of dev or test out of train, with all their translations.

    A sentence's hash, salted with data.seed, decides: the smallest `data.holdout_size` of them are
    the first split's, the next the second's. So no sentence is in two splits.
    """

    def __init__(self, config: "DataConfig", splits: list[Split]):
        self.splits, self._count = splits, config.holdout_size
        self._salt = str(config.seed).encode()
        self._hashes = array.array("Q")
        self._bounds: list[int] = []

    def survey(self, pairs: Iterable[Numbered]) -> Iterator[tuple[str, str]]:
        """Passes the texts on and remembers the source sentences."""
        for _, source, target in pairs:
            if self.splits:
                self._hashes.append(self._hash(source))
            yield source, target

    def choose(self, source: Source) -> None:
        """Fixes the choice, after `survey`.

        Raises:
          UserError: if nothing would be left to train on.
        """
        distinct = np.unique(np.frombuffer(self._hashes, np.uint64))
        wanted = self._count * len(self.splits)
        if self.splits and wanted >= len(distinct):
            raise UserError(
                f"data.holdout_size={self._count}: {source.place(len(self._hashes))}: train has "
                f"{len(distinct)} distinct source sentences, too few to hold out {wanted}; "
                f"at most {max(0, len(distinct) - 1) // len(self.splits)} would do"
            )
        self._bounds = [int(distinct[n * self._count]) for n in range(1, len(self.splits) + 1)]
        self._hashes = array.array("Q")

    def split(self, source: str) -> Split:
        """The split of a source sentence, after `choose`."""
        if self._bounds:
            place = self._hash(source)
            for split, bound in zip(self.splits, self._bounds, strict=True):
                if place < bound:
                    return split
        return "train"

    def _hash(self, source: str) -> int:
        digest = hashlib.blake2b(source.strip().encode(), digest_size=8, key=self._salt)
        return int.from_bytes(digest.digest(), "little")


def _progress(pairs: Iterable[Numbered], doing: str) -> Iterator[Numbered]:
    from tqdm import tqdm

    bar = tqdm(pairs, desc=doing, unit=" pairs", leave=False, disable=None, file=sys.stderr)
    return iter(bar)
