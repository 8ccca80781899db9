"""Builds the prepared folder of labelled texts: words as numbers, a corpus for each split.

The folder has the lexicon, what a file says of its words (`VECTORS`), and for each split a corpus
with the columns of `columns`; an evaluated split also has its texts as they were read.
"""

import functools
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attconv_jax.sources import Example, Source, Split, held_out_splits, source_of
from common_jax.data.corpus import Writer, file_identity
from common_jax.errors import UserError
from common_jax.faults import Faults, summary
from common_jax.text import sentences, words
from common_jax.text.lexicon import UNKNOWN, Lexicon
from common_jax.text.vectors import read_vectors
from common_jax.text.words import split_words

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig, ModelConfig

VECTORS = "vectors.npz"  # `numbers` of words [n] and the `vectors` [n, D] that they begin with
TEXTS = ("first", "second")

_FORMAT = 1  # of the folder; another one prepares everything anew


def columns(texts: int) -> tuple[str, ...]:
    """Of a corpus: the words of each text, the label's number, the question's number or -1."""
    return (*TEXTS[:texts], "label", "question")


@functools.lru_cache(maxsize=1 << 14)  # a premise or a question comes several times in a row
def tokenize(text: str) -> tuple[str, ...]:
    """The words of a text in lower case."""
    return tuple(text[start:end].lower() for start, end in split_words(text))


class Builder:
    """What `common_jax.data.corpus.prepare` wants: a fingerprint, and the building itself.

    Attributes:
      seconds: that `build` took; None where it was not needed.
    """

    def __init__(self, config: "DataConfig", model: "ModelConfig"):
        """Finds the files.

        Raises:
          UserError: if one is missing.
        """
        self._config, self._model = config, model
        self.seconds: float | None = None
        self._held_out = held_out_splits(config)
        own: list[Split] = [s for s in ("train", "dev", "test") if s not in self._held_out]
        self._sources: dict[Split, Source] = {split: source_of(config, split) for split in own}

    def fingerprint(self) -> dict[str, Any]:
        """All that decides the folder's content; reads every file once."""
        config = self._config
        vectors = file_identity(Path(config.vectors).expanduser()) if config.vectors else None
        return {
            "labelled texts": _FORMAT,
            "code": [file_identity(str(module.__file__)) for module in (words, sentences)],
            "nltk": metadata.version("nltk"),
            "sources": {split: source.identity() for split, source in self._sources.items()},
            "held_out": [self._held_out, config.heldout, config.seed],
            "labels": [config.labels, config.ignored, config.balanced],
            "vectors": vectors,
            "lexicon": [self._model.word_dim, self._model.word_rows],
            "length": config.length,
            "on_bad_example": config.on_bad_example,
        }

    def build(self, folder: Path) -> None:
        """Fills the empty folder.

        Raises:
          UserError: whatever is wrong with the data.
        """
        began = time.monotonic()
        config = self._config
        faults = {split: Faults(config.on_bad_example) for split in self._sources}
        splits = {
            split: list(self._good(source.read(faults[split]), faults[split]))
            for split, source in self._sources.items()
        }
        splits |= hold_out(splits["train"], self._held_out, config.heldout, config.seed)
        if config.balanced:
            splits["train"] = balance(splits["train"], config.seed)
        lexicon = self._lexicon(splits, folder)
        lexicon.save(folder)
        for split, examples in splits.items():
            dropped = faults[split].kinds if split in faults else {}
            if not examples:
                said = summary(dropped)
                place = self._sources.get(split, self._sources["train"]).place
                raise UserError(
                    f"{place}: no examples left for {split}" + (f": {said}" if said else "")
                )
            self._write(folder / split, examples, lexicon, dropped)
        self.seconds = time.monotonic() - began

    def _good(self, examples: Iterable[Example], faults: Faults) -> Iterator[Example]:
        """Those that can be used: of a known label, each text with a word and not too long."""
        config, known = self._config, ", ".join(self._config.names)
        for example in examples:
            lengths = [len(tokenize(text)) for text in example.texts]
            if example.label in config.left_out:
                faults.drop(f"labelled {example.label!r}", example.place)
            elif example.label not in config.names:
                kind = f"label {example.label!r}, which is none of data.labels ({known})"
                faults.bad(kind, example.place)
            elif not all(lengths):
                faults.bad("a text without a word", example.place)
            elif max(lengths) > config.length:
                kind = f"{max(lengths)} words, over data.length={config.length}"
                faults.bad(kind, example.place)
            else:
                yield example

    def _lexicon(self, splits: dict[Split, list[Example]], folder: Path) -> Lexicon:
        """The most frequent words of train, and where a file has vectors for them those of the
        other splits; what the file has is written beside."""
        config, model = self._config, self._model
        counts = {split: _count(examples) for split, examples in splits.items()}
        if not config.vectors:
            return Lexicon.make(counts["train"], model.word_rows, 2)
        everywhere = sum(counts.values(), Counter[str]())
        faults = Faults(config.on_bad_example)
        try:
            vectors = read_vectors(
                Path(config.vectors).expanduser(), everywhere, model.word_dim, faults
            )
        except UserError as error:
            raise UserError(f"data.vectors: {error}") from error
        kept = Counter({w: n for w, n in everywhere.items() if w in vectors.rows})
        lexicon = Lexicon.make(kept | counts["train"], model.word_rows, 2)
        numbers = np.array(lexicon.words(vectors.rows), np.int32)
        rows, kept = np.array(list(vectors.rows.values()), np.int32), numbers != UNKNOWN
        table = vectors.table[rows[kept]]
        np.savez(folder / VECTORS, numbers=numbers[kept], vectors=table)
        return lexicon

    def _write(
        self, folder: Path, examples: Sequence[Example], lexicon: Lexicon, dropped: dict[str, Any]
    ) -> None:
        number = {label: at for at, label in enumerate(self._config.names)}
        with Writer(folder, columns(self._config.texts)) as corpus:
            for example in examples:
                row = [lexicon.words(tokenize(text)) for text in example.texts]
                labelled = [[number[example.label]], [example.question]]
                corpus.append(dict(zip(columns(self._config.texts), row + labelled, strict=True)))
            corpus.meta["dropped"] = dropped
        if folder.name != "train":
            with (folder / "texts.jsonl").open("w", encoding="utf-8") as file:
                for example in examples:
                    file.write(json.dumps(example.texts, ensure_ascii=False) + "\n")


def hold_out(
    train: list[Example], splits: Sequence[Split], count: int, seed: int
) -> dict[Split, list[Example]]:
    """Takes whole groups out of train, at random, until each of `splits` has `count` examples.

    Returns: those splits, and what is left of train.

    Raises:
      UserError: if nothing is left.
    """
    if not splits:
        return {}
    sizes = Counter(example.group for example in train)
    groups = sorted(sizes)
    random.Random(seed).shuffle(groups)
    where: dict[str, Split] = {}
    for split in splits:
        taken = 0
        while groups and taken < count:
            where[groups[-1]] = split
            taken += sizes[groups.pop()]
    if not groups:
        raise UserError(
            f"data.heldout={count}: too many for {len(train)} examples to train on; name data.dev "
            "and data.test, or hold out fewer"
        )
    parts: dict[Split, list[Example]] = {split: [] for split in ("train", *splits)}
    for example in train:
        parts[where.get(example.group, "train")].append(example)
    return parts


def balance(examples: Sequence[Example], seed: int) -> list[Example]:
    """Of every label as many, at random, as there are of the rarest; in their old order."""
    by_label: dict[str, list[int]] = {}
    for at, example in enumerate(examples):
        by_label.setdefault(example.label, []).append(at)
    least, rng = min(map(len, by_label.values())), random.Random(seed)
    kept = sorted(at for members in by_label.values() for at in rng.sample(members, least))
    return [examples[at] for at in kept]


def _count(examples: Iterable[Example]) -> Counter[str]:
    counts = Counter[str]()
    for example in examples:
        for text in example.texts:
            counts.update(tokenize(text))
    return counts
