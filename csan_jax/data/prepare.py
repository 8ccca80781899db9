"""Builds the prepared folder of a translation corpus, in two streaming passes.

The first pass selects the held-out pairs and a sample on which subwords are trained; the second
encodes. Memory is that of the sample and eight bytes for each pair. The folder has the subword
models and for each split a corpus; dev and test also have the raw `sources.txt` and
`references.txt`.
"""

import array
import contextlib
import functools
import itertools
import operator
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int8

from common_jax.bad_examples import BadExamples, Counts
from common_jax.data import prepared
from common_jax.data.corpus import Corpus, FlatRows, Writer
from common_jax.data.holdout import SmallestHashes, text_hash
from common_jax.data.overlaps import row_digests, write_overlaps
from common_jax.data.prepared import OWN_VOCABULARY, Preparation
from common_jax.data.sampling import reservoir
from common_jax.data.sources import finish_split, held_out_splits
from common_jax.errors import UserError
from common_jax.io.progress import progress
from common_jax.io.threads import threaded_map
from common_jax.text.cleaning import with_blanks
from csan_jax.data import COLUMNS, JOINT, SEPARATE, TEXT_FILES
from csan_jax.data.sources import Pair, Source, source_of
from csan_jax.data.subwords import Subwords

if TYPE_CHECKING:
    from csan_jax.config import DataConfig

SUBWORD_PAIRS = 500_000  # largest sample on which subwords are trained

_RESERVED = "▅"  # SentencePiece trains on no sentence that has it
_FORMAT = 1  # of the folder; to be incremented to invalidate prepared folders
_CHUNK = 4096  # pairs encoded at once
_AHEAD = 2  # chunks encoded at the same time: arrays are made of one meanwhile


class Builder(prepared.Builder):
    """Builds the folder."""

    def __init__(
        self,
        config: "DataConfig",
        workers: int | None = None,
        preparation: Preparation = OWN_VOCABULARY,
    ):
        """
        Args:
          workers: number of encoding threads, None for the number of cores; it does not change the
            result.
        """
        super().__init__(config, preparation)
        self._workers = workers or os.cpu_count() or 1
        self._pairs: int | None = None  # in train, known after a survey
        self._targets = array.array("Q")  # hashes of them
        held_out = [split for split in held_out_splits(config) if split in self._splits]
        self._held_out = SmallestHashes(
            held_out, config.holdout_size, config.seed, "source sentences"
        )

    def _source(self, split: Any) -> Source | None:
        held_out = split in self._held_out.splits
        return None if held_out else source_of(self._config, split)

    def settings(self) -> dict[str, Any]:
        config = self._config
        held_out = self._held_out.splits
        return {
            "translation": _FORMAT,
            "held_out": [held_out, config.holdout_size, config.seed] if held_out else [],
            **({"held_out_by": "both"} if held_out and config.held_out_by == "both" else {}),
            "vocabulary": [config.joint_vocabulary, *dict.fromkeys(config.vocab_sizes)],
            "max_length": config.max_length,
            "on_bad_example": config.on_bad_example,
            **({"white_space": config.white_space} if config.white_space != "keep" else {}),
        }

    def build(self, folder: Path) -> None:
        # The held-out pairs, and the subword models.
        vocabulary = self._preparation.vocabulary
        assigned: Iterable[Any] = itertools.repeat(0)
        sample: list[Pair] = []
        if vocabulary is None or self._held_out.splits:
            sample, assigned = self._survey(self._sources["train"])
        subwords = self._train_subwords(sample) if vocabulary is None else self._load(vocabulary)
        del sample
        names = JOINT if self._config.joint_vocabulary else SEPARATE
        for name, model in zip(names, subwords, strict=False):
            model.save(folder / name)

        # The corpora.
        for split, source in self._sources.items():
            train = split == "train"
            splits = [split, *(self._held_out.splits if train else ())]
            numbers = assigned if train else itertools.repeat(0)
            self._encode(folder, subwords, source, splits, numbers)
        corpora = {split: Corpus.open(folder / split) for split in self._splits}
        write_overlaps(folder, {s: row_digests(c, COLUMNS) for s, c in corpora.items()})

    def _load(self, vocabulary: Path) -> tuple[Subwords, Subwords]:
        """The subword models of another run."""
        config = self._config

        # the file of one joint model, or those of the two sides
        names = JOINT if config.joint_vocabulary else SEPARATE
        if not all((vocabulary / name).exists() for name in names):
            raise UserError(
                f"data.joint_vocabulary={config.joint_vocabulary}: {vocabulary} has "
                f"{', '.join(sorted(path.name for path in vocabulary.iterdir()))}"
            )

        # the models, which must have the config's sizes
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
        """A sample of the training pairs, and the index of each pair's split in ("train", *held-out
        splits); -1 for a pair of none, with the target of a held-out one."""
        pairs = source.read(self._bad_examples())
        if self._config.source == "generated":  # in random order: the first pairs are a sample
            pairs = itertools.islice(pairs, SUBWORD_PAIRS)
        numbered = enumerate(self._added(progress(pairs, "reading", "pairs")))
        sample = reservoir(numbered, SUBWORD_PAIRS, np.random.default_rng(0).integers)
        if not self._held_out.splits:
            return [pair for _, pair in sample], itertools.repeat(0)
        assigned = self._held_out.assign(source.place)
        if self._config.held_out_by == "both":
            targets = np.frombuffer(self._targets, np.uint64)
            is_held_out = assigned > 0
            has_its_target = np.isin(targets, targets[is_held_out], kind="sort")
            assigned = np.where(has_its_target & ~is_held_out, np.int8(-1), assigned)
        return [pair for number, pair in sample if not assigned[number]], assigned

    def _added(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The normalised pairs; counts them, and adds each one's source to the candidates for
        held-out splits, with a hash of its target."""
        self._targets = array.array("Q")
        for self._pairs, raw in enumerate(pairs, start=1):
            pair = self._normalised(raw)
            if self._held_out.splits:
                self._held_out.add(pair.source)
                self._targets.append(text_hash(pair.target))
            yield pair

    def _normalised(self, pair: Pair) -> Pair:
        """The pair by `data.white_space`; the same object if it is unchanged."""
        if self._config.white_space == "keep":
            return pair
        source = with_blanks(pair.source)
        target = with_blanks(pair.target)
        same = source is pair.source and target is pair.target
        return pair if same else Pair(pair.place, source, target)

    def train_subwords(self) -> tuple[Subwords, Subwords]:
        """The subword models of the source and the target, without writing them."""
        sample, _ = self._survey(self._sources["train"])
        return self._train_subwords(sample)

    def _train_subwords(self, sample: list[Pair]) -> tuple[Subwords, Subwords]:
        """The source's and the target's subword model."""
        if not sample:
            raise UserError(f"{self._sources['train'].place}:1: no pairs to train on")
        config = self._config
        _, *sides = zip(*sample, strict=True)
        keys = [f"{column}_vocab_size" for column in COLUMNS]
        keys = [f"data.{key if getattr(config, key) else 'vocab_size'}" for key in keys]
        if config.white_space == "blanks":
            sides = [tuple(text.replace(_RESERVED, " ") for text in side) for side in sides]
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
        # The pairs in chunks, each with the index of its split.
        bad_examples = self._bad_examples()
        total = self._pairs if splits[0] == "train" else None
        pairs = progress(source.read(bad_examples), f"encoding {splits[0]}", "pairs", total)
        numbered = zip(pairs, assigned, strict=False)
        chunks = iter(lambda: list(itertools.islice(numbered, _CHUNK)), [])
        encode = functools.partial(_encode, subwords, self._workers, self._normalised)

        # Threads encode, this one writes.
        with contextlib.ExitStack() as stack:
            writers = [
                stack.enter_context(_SplitWriter(folder / split, source, self._config))
                for split in splits
            ]
            encoded = threaded_map(encode, chunks, min(_AHEAD, self._workers))
            for chunk in stack.enter_context(contextlib.closing(encoded)):
                for number, writer in enumerate(writers):
                    writer.add(chunk.select(chunk.splits == number))
                for pair in itertools.compress(chunk.pairs, chunk.splits < 0):
                    bad_examples.skip("the target of a held-out pair", pair.place)
            writers[0].dropped = bad_examples.counts


class _Chunk(NamedTuple):
    """Consecutive pairs of a source, encoded.

    Attributes:
      splits: the index of each pair's split.
      columns: the pieces of both sides.
      features: whether each pair has a property, by the property's name (`_features`).
    """

    pairs: Sequence[Pair]
    splits: Int8[np.ndarray, "n"]
    columns: Mapping[str, FlatRows]
    features: Mapping[str, Bool[np.ndarray, "n"]]

    def select(self, mask: Bool[np.ndarray, "n"]) -> "_Chunk":
        """The pairs where the mask is True."""
        if mask.all():
            return self
        pairs = list(itertools.compress(self.pairs, mask))
        columns = {name: rows.select(mask) for name, rows in self.columns.items()}
        features = {name: values[mask] for name, values in self.features.items()}
        return self._replace(
            pairs=pairs, splits=self.splits[mask], columns=columns, features=features
        )


def _encode(
    subwords: tuple[Subwords, Subwords],
    workers: int,
    normalised: Callable[[Pair], Pair],
    numbered: Sequence[tuple[Pair, Any]],
) -> _Chunk:
    """Encodes consecutive pairs of a source, each with the index of its split."""
    raw = [pair for pair, _ in numbered]
    pairs = [*map(normalised, raw)]
    splits = np.fromiter((split for _, split in numbered), np.int8, len(pairs))
    sides = [pair.source.strip() for pair in pairs], [pair.target.strip() for pair in pairs]
    rows = [model.encode_flat(side, workers) for model, side in zip(subwords, sides, strict=True)]
    columns = dict(zip(COLUMNS, rows, strict=True))
    features = _features(sides)
    features["white_space"] = map(operator.is_not, raw, pairs)
    arrays = {name: np.fromiter(has, bool, len(pairs)) for name, has in features.items()}
    return _Chunk(pairs, splits, columns, arrays)


def _features(sides: tuple[Sequence[str], Sequence[str]]) -> dict[str, Iterable[bool]]:
    """Whether the sides of each pair are equal, and whether one has the marks of SentencePiece's
    and of subword-nmt's pieces."""
    return {
        "equal": map(operator.eq, *sides),
        "▁": ("▁" in source or "▁" in target for source, target in zip(*sides, strict=True)),
        "@@": ("@@ " in source or "@@ " in target for source, target in zip(*sides, strict=True)),
    }


class _SplitWriter(contextlib.AbstractContextManager):
    """Writes a split. For train, pairs over `data.max_length` are dropped; for other splits, all
    pairs and their raw text are written.

    Attributes:
      dropped: the bad examples of its source.
    """

    def __init__(self, folder: Path, source: Source, config: "DataConfig"):
        self.dropped: Counts = {}
        self._source = source
        self._split = folder.name
        self._limit = config.max_length if self._split == "train" else None
        self._overlong = BadExamples("skip")
        self._counts = Counter[str]()
        self._stack = contextlib.ExitStack()
        self._corpus = self._stack.enter_context(Writer(folder, COLUMNS))
        text_files = TEXT_FILES if self._limit is None else ()
        self._texts = [self._stack.enter_context((folder / name).open("wb")) for name in text_files]

    def add(self, chunk: _Chunk) -> None:
        """Writes encoded pairs."""
        self._counts.update(pairs=len(chunk.pairs))
        self._counts.update({name: int(has.sum()) for name, has in chunk.features.items()})
        if self._limit is not None:
            lengths = np.maximum(*(rows.lengths for rows in chunk.columns.values()))
            fits = lengths <= self._limit
            for pair in itertools.compress(chunk.pairs, ~fits):
                self._overlong.skip(f"over data.max_length={self._limit} pieces", pair.place)
            chunk = chunk.select(fits)
        self._corpus.extend_flat(chunk.columns)
        for file, side in zip(self._texts, ("source", "target"), strict=False):
            file.writelines(f"{getattr(pair, side)}\n".encode() for pair in chunk.pairs)

    def __exit__(self, kind, error, traceback) -> None:
        if kind is None:
            dropped = {**self.dropped, **self._overlong.counts}
            finish_split(self._corpus, "pairs", self._split, f"{self._source.place}:1", dropped)
            self._corpus.meta["equal"] = [self._counts["equal"], self._counts["pairs"]]
            self._corpus.meta["counts"] = self._counts
        self._stack.__exit__(kind, error, traceback)
