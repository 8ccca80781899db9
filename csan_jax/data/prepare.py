"""Builds the prepared folder of a translation corpus, in two streaming passes.

The first pass selects the held-out pairs and a sample on which subwords are trained; the second
encodes. Memory is that of the sample and eight bytes for each pair. The folder has the subword
models and for each split a corpus; dev and test also have the raw `sources.txt` and
`references.txt`.
"""

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common_jax.bad_examples import BadExamples
from common_jax.data.corpus import Writer
from common_jax.data.holdout import SmallestHashes
from common_jax.data.prepared import OWN_VOCABULARY, SPLITS, Preparation, Split, finish_split
from common_jax.data.sampling import reservoir
from common_jax.data.sources import held_out_splits
from common_jax.errors import UserError
from common_jax.io.progress import progress
from csan_jax.data import COLUMNS, JOINT, SEPARATE, TEXT_FILES
from csan_jax.data.sources import Pair, Source, source_of
from csan_jax.data.subwords import END, Subwords

if TYPE_CHECKING:
    from csan_jax.config import DataConfig

SUBWORD_PAIRS = 500_000  # largest sample on which subwords are trained

_FORMAT = 1  # of the folder; to be incremented to invalidate prepared folders
_CHUNK = 4096  # pairs encoded at once


class Builder:
    """Builds the folder."""

    def __init__(
        self,
        config: "DataConfig",
        workers: int | None = None,
        preparation: Preparation = OWN_VOCABULARY,
    ):
        """
        Args:
          workers: number of SentencePiece's encoding threads, None for the number of cores; it does
            not change the result.
        """
        self._config, self._workers, self._preparation = config, workers, preparation
        self._splits = preparation.splits or SPLITS
        held_out = [split for split in held_out_splits(config) if split in self._splits]
        self._held_out = SmallestHashes(
            held_out, config.holdout_size, config.seed, "source sentences"
        )

    @functools.cached_property
    def _sources(self) -> dict[Split, Source]:
        """By split; opens the files, or downloads a dataset of TensorFlow Datasets."""
        held_out = self._held_out.splits
        return {
            s: source_of(self._config, s) for s in SPLITS if s in self._splits and s not in held_out
        }

    def fingerprint(self) -> dict[str, Any]:
        """Identifies the folder's content."""
        sources = {split: source.identity() for split, source in self._sources.items()}
        return {**self.settings(), "sources": sources, **self._preparation.identity()}

    def settings(self) -> dict[str, Any]:
        """As `fingerprint`, without files."""
        config, held_out = self._config, self._held_out.splits
        return {
            "translation": _FORMAT,
            "held_out": [held_out, config.holdout_size, config.seed] if held_out else [],
            "vocabulary": [config.joint_vocabulary, *dict.fromkeys(config.vocab_sizes)],
            "max_length": config.max_length,
            "on_bad_example": config.on_bad_example,
        }

    def build(self, folder: Path) -> None:
        """Fills the empty folder."""
        vocabulary = self._preparation.vocabulary
        assigned: Iterable[Any] = itertools.repeat(0)
        if vocabulary is None or self._held_out.splits:
            sample, assigned = self._survey(self._sources["train"])
        subwords = self._train_subwords(sample) if vocabulary is None else self._load(vocabulary)
        names = JOINT if self._config.joint_vocabulary else SEPARATE
        for name, model in zip(names, subwords, strict=False):
            model.save(folder / name)
        for split, source in self._sources.items():
            held_out = self._held_out.splits if split == "train" else ()
            self._encode(folder, subwords, source, [split, *held_out], assigned)

    def _load(self, vocabulary: Path) -> tuple[Subwords, Subwords]:
        """The subword models of another run."""
        config = self._config
        names = JOINT if config.joint_vocabulary else SEPARATE
        if not all((vocabulary / name).exists() for name in names):
            raise UserError(
                f"data.joint_vocabulary={config.joint_vocabulary}: {vocabulary} has "
                f"{', '.join(sorted(path.name for path in vocabulary.iterdir()))}"
            )
        models = [Subwords.load(vocabulary / name) for name in names]
        sizes = models[0].size, models[-1].size
        if sizes != config.vocab_sizes:
            raise UserError(
                f"data.vocab_size={config.vocab_sizes[0]}: {vocabulary} has {sizes[0]} pieces of "
                f"the source, {sizes[1]} of the target; set data.vocab_size to that, or "
                "data.source_vocab_size and target_vocab_size"
            )
        return models[0], models[-1]

    def _survey(self, source: Source) -> tuple[list[Pair], Iterable[Any]]:
        """A sample of the training pairs; and for each pair of train's source the index of its
        split in ("train", *held-out splits)."""
        pairs = source.read(self._preparation.bad_examples(self._config))
        if self._config.source == "generated":  # in random order: the first pairs are a sample
            pairs = itertools.islice(pairs, SUBWORD_PAIRS)
        if self._held_out.splits:
            pairs = self._added(pairs)
        numbered = enumerate(progress(pairs, "reading", "pairs"))
        sample = reservoir(numbered, SUBWORD_PAIRS, np.random.default_rng(0).integers)
        if not self._held_out.splits:
            return [pair for _, pair in sample], itertools.repeat(0)
        assigned = self._held_out.assign(source.place)
        return [pair for number, pair in sample if not assigned[number]], assigned

    def _added(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs; adds each one's source to the candidates for held-out splits."""
        for pair in pairs:
            self._held_out.add(pair.source)
            yield pair

    def _train_subwords(self, sample: list[Pair]) -> tuple[Subwords, Subwords]:
        """The source's and the target's subword model."""
        if not sample:
            raise UserError(f"{self._sources['train'].place}:1: no pairs to train on")
        config, (_, *sides) = self._config, zip(*sample, strict=True)
        keys = [f"{column}_vocab_size" for column in COLUMNS]
        keys = [f"data.{key if getattr(config, key) else 'vocab_size'}" for key in keys]
        if config.joint_vocabulary:
            sides = [tuple(itertools.chain.from_iterable(zip(*sides, strict=True)))]
        models = [
            Subwords.train(sentences, size, key)
            for sentences, size, key in zip(sides, config.vocab_sizes, keys, strict=False)
        ]
        return models[0], models[-1]

    def _encode(
        self,
        folder: Path,
        subwords: tuple[Subwords, Subwords],
        source: Source,
        splits: list[str],
        assigned: Iterable[Any],
    ) -> None:
        """Writes the corpora of a source's splits; bad examples are counted for the first one."""
        with contextlib.ExitStack() as stack:
            writers = []
            for split in splits:
                bad_examples = self._preparation.bad_examples(self._config)
                writer = _SplitWriter(
                    folder / split, subwords, source, self._config, self._workers, bad_examples
                )
                writers.append(stack.enter_context(writer))
            pairs = source.read(writers[0].bad_examples)
            pairs = progress(pairs, f"encoding {splits[0]}", "pairs")
            if len(writers) == 1:
                assigned = itertools.repeat(0)
            for pair, number in zip(pairs, assigned, strict=False):
                writers[number].add(pair)


class _SplitWriter(contextlib.AbstractContextManager):
    """Encodes and writes the pairs of one split, in chunks."""

    def __init__(
        self,
        folder: Path,
        subwords: tuple[Subwords, Subwords],
        source: Source,
        config: "DataConfig",
        workers: int | None,
        bad_examples: BadExamples,
    ):
        """For train, pairs over `data.max_length` are dropped; for other splits, all pairs and
        their raw text are written."""
        self._source, self._subwords, self._workers = source, subwords, workers
        self._split, self._pending = folder.name, list[Pair]()
        self._pairs = self._equal = 0
        self._limit = config.max_length if self._split == "train" else None
        self.bad_examples = bad_examples
        self._stack = contextlib.ExitStack()
        self._corpus = self._stack.enter_context(Writer(folder, COLUMNS))
        self._texts = [
            self._stack.enter_context((folder / name).open("w", encoding="utf-8", newline=""))
            for name in (TEXT_FILES if self._limit is None else ())
        ]

    def add(self, pair: Pair) -> None:
        self._pending.append(pair)
        self._pairs += 1
        self._equal += pair.source.strip() == pair.target.strip()
        if len(self._pending) == _CHUNK:
            self._flush()

    def __exit__(self, kind, error, traceback) -> None:
        if kind is None:
            self._flush()
            location, dropped = f"{self._source.place}:1", self.bad_examples.counts
            finish_split(self._corpus, "pairs", self._split, location, dropped)
            self._corpus.meta["equal"] = [self._equal, self._pairs]
        self._stack.__exit__(kind, error, traceback)

    def _flush(self) -> None:
        locations, *texts = zip(*self._pending, strict=True) if self._pending else ((), (), ())
        sides = [
            [[*row, END] for row in model.encode([t.strip() for t in side], workers=self._workers)]
            for model, side in zip(self._subwords, texts, strict=True)
        ]
        if self._limit is not None:
            fits = [max(map(len, pair)) <= self._limit for pair in zip(*sides, strict=True)]
            for location in itertools.compress(locations, (not fit for fit in fits)):
                self.bad_examples.skip(f"over data.max_length={self._limit} pieces", location)
            sides = [list(itertools.compress(side, fits)) for side in sides]
        self._corpus.extend(dict(zip(COLUMNS, sides, strict=True)))
        for file, side in zip(self._texts, texts, strict=False):
            file.writelines(f"{text}\n" for text in side)
        self._pending.clear()
