"""Builds the prepared folder of labelled texts: words as numbers, a corpus for each split.

The folder has the vocabulary, the vectors that a file has for its words (`VECTORS`), and for each
split a corpus with the columns of `columns`; an evaluated split also has its texts as read.
"""

import dataclasses
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Int32

from attconv_jax.data.sources import SPLITS, Example, Source, Split, held_out_splits, source_of
from attconv_jax.data.text import TEXTS, tokenize
from common_jax.bad_examples import BadExamples
from common_jax.data.corpus import Writer
from common_jax.data.word_level import (
    Dropped,
    read_word_vectors,
    require_some,
    tokeniser_identity,
    vectors_identity,
)
from common_jax.errors import UserError, error_context
from common_jax.inputs import Input, columns_of, encode, inputs_to_text
from common_jax.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig, WordsConfig

VECTORS = "vectors.npz"  # `numbers` of words [n] and the `vectors` [n, D] that they begin with
T = TypeVar("T")

_FORMAT = 1  # of the folder; another one prepares everything anew
_CHUNK = 4096  # rows written at once


def columns(format: str, inputs: Sequence[Input] = ()) -> tuple[str, ...]:
    """Of a corpus: the words of each text and the label's number; of what is ranked also the number
    of the question, and the `overlap`: how many distinct words question and sentence have in
    common, and how many the question has, and the sentence; then those of a model's inputs."""
    texts = TEXTS[: 1 if format == "texts" else 2]
    own = (*texts, "label", *(("question", "overlap") if format == "ranking" else ()))
    further = [column.name for column in columns_of(inputs, texts)]
    assert not {*own} & {*further}, f"keys of inputs that are columns: {further}"
    return (*own, *further)


class Builder:
    """Builds the folder."""

    def __init__(self, config: "DataConfig", words: "WordsConfig", inputs: Sequence[Input] = ()):
        """Finds the files.

        Args:
          inputs: what the model reads beside words.

        Raises:
          UserError: if one is missing.
        """
        self._config, self._words, self._inputs = config, words, inputs
        self._columns = columns_of(inputs, TEXTS[: config.texts])
        self._held_out = held_out_splits(config)
        own = [split for split in SPLITS if split not in self._held_out]
        self._sources: dict[Split, Source] = {
            split: source_of(config, split, annotated=bool(inputs)) for split in own
        }
        self._spelt: dict[str, str] = {}  # each distinct word, kept once

    def fingerprint(self) -> dict[str, Any]:
        """All that decides the folder's content; reads every file once."""
        config = self._config
        return {
            "labelled texts": _FORMAT,
            "words": tokeniser_identity(),
            "sources": {split: source.identity() for split, source in self._sources.items()},
            "held_out": [self._held_out, config.holdout_size, config.examples, config.seed],
            "labels": [config.labels, config.ignored_labels, config.balanced],
            "vectors": vectors_identity(config.vectors),
            "lexicon": [self._words.dim, self._words.rows, self._words.unknown_rows],
            "length": config.max_length,
            "on_bad_example": config.on_bad_example,
            **({"inputs": inputs_to_text(self._inputs)} if self._inputs else {}),
        }

    def build(self, folder: Path) -> None:
        """Fills the empty folder.

        Raises:
          UserError: whatever is wrong with the data.
        """
        config, dropped = self._config, dict[str, Dropped]()
        splits: dict[Split, list[Example]] = {}
        for split, source in self._sources.items():
            bad_examples = BadExamples(config.on_bad_example)
            splits[split] = list(
                self._usable(self._chosen(split, source, bad_examples), bad_examples)
            )
            dropped[split] = bad_examples.counts
            require_some(len(splits[split]), "examples", split, source.place, bad_examples.counts)
        if self._held_out:
            splits |= hold_out(splits["train"], self._held_out, config.holdout_size, config.seed)
        if config.balanced:
            splits["train"] = balance(splits["train"], config.seed)
        vocabulary = self._vocabulary(splits, folder)
        vocabulary.save(folder)
        for split, examples in splits.items():
            self._write(folder / split, examples, vocabulary, dropped.get(split, {}))

    def _chosen(self, split: Split, source: Source, bad_examples: BadExamples) -> Iterable[Example]:
        """What a source gives; of train no more than `data.examples` and what is held out."""
        config, examples = self._config, source.read(bad_examples)
        if split != "train" or not config.examples or config.source == "generated":
            return examples
        return sample(
            examples, config.examples + len(self._held_out) * config.holdout_size, config.seed
        )

    def _usable(self, examples: Iterable[Example], bad_examples: BadExamples) -> Iterator[Example]:
        """Those of a known label whose texts have words and are not too long, cut into words and
        encoded."""
        config, spelt = self._config, self._spelt
        known = f"none of data.labels={config.labels}"
        for example in examples:
            if example.label in config.left_out:
                bad_examples.skip(f"labelled {example.label!r}", example.place)
                continue
            if example.label not in config.names:
                bad_examples.reject(known, f"{example.place}: label {example.label[:60]!r}")
                continue
            words = [tokenize(text) for text in example.texts]
            if not all(words):
                bad_examples.reject("a text without a word", example.place)
            elif (longest := max(map(len, words))) > config.max_length:
                kind = f"over data.max_length={config.max_length}"
                bad_examples.reject(kind, f"{example.place}: {longest} words")
            else:
                kept = tuple(tuple(spelt.setdefault(w, w) for w in text) for text in words)
                if (arrays := bad_examples.parse(self._encoded, example, kept)) is not None:
                    yield dataclasses.replace(example, annotations=(), words=kept, arrays=arrays)

    def _encoded(
        self, example: Example, words: Sequence[Sequence[str]]
    ) -> dict[str, Int32[np.ndarray, "..."]]:
        texts = dict(zip(TEXTS, words, strict=False))
        with error_context(example.place):
            return encode(self._columns, texts, dict(zip(texts, example.annotations, strict=False)))

    def _vocabulary(self, splits: dict[Split, list[Example]], folder: Path) -> Vocabulary:
        """The most frequent words of train, and where a file has vectors for them those of the
        other splits; what the file has is written beside."""
        config, words = self._config, self._words
        counts = {split: _count(examples) for split, examples in splits.items()}
        if not config.vectors:
            return Vocabulary.make(counts["train"], words.rows, 0, words.unknown_rows)
        everywhere = sum(counts.values(), Counter[str]())
        bad_examples = BadExamples(config.on_bad_example)
        vectors = read_word_vectors(config.vectors, everywhere, words.dim, bad_examples, folder)
        found = Counter({word: everywhere[word] for word in vectors.rows})
        vocabulary = Vocabulary.make(counts["train"] | found, words.rows, 0, words.unknown_rows)
        rows = {word: row for word, row in vectors.rows.items() if word in vocabulary}
        numbers = np.array(vocabulary.word_ids(rows), np.int32)
        if rows:
            np.savez(folder / VECTORS, numbers=numbers, vectors=vectors.table[[*rows.values()]])
        return vocabulary

    def _write(
        self, folder: Path, examples: Sequence[Example], vocabulary: Vocabulary, dropped: Dropped
    ) -> None:
        config, questions = self._config, dict[str, int]()
        with Writer(folder, columns(config.format, self._inputs)) as corpus:
            for start in range(0, len(examples), _CHUNK):
                chunk = examples[start : start + _CHUNK]
                rows: dict[str, list[Any]] = {
                    text: [vocabulary.word_ids(e.words[at]) for e in chunk]
                    for at, text in enumerate(TEXTS[: config.texts])
                }
                rows["label"] = [[config.names.index(e.label)] for e in chunk]
                if config.format == "ranking":
                    number = lambda e: questions.setdefault(e.question, len(questions))
                    rows["question"] = [[number(e)] for e in chunk]
                    rows["overlap"] = [overlap(*e.words) for e in chunk]
                for column in self._columns:
                    rows[column.name] = [e.arrays[column.name].ravel() for e in chunk]
                corpus.extend(rows)
            corpus.meta["dropped"] = dropped
        if folder.name != "train":
            with (folder / "texts.jsonl").open("w", encoding="utf-8") as file:
                for example in examples:
                    file.write(json.dumps(example.texts, ensure_ascii=False) + "\n")


def overlap(question: Iterable[str], sentence: Iterable[str]) -> tuple[int, int, int]:
    """How many distinct words are in both, in the question, and in the sentence."""
    asked, said = set(question), set(sentence)
    return len(asked & said), len(asked), len(said)


def hold_out(
    train: Sequence[Example], splits: Sequence[Split], count: int, seed: int
) -> dict[Split, list[Example]]:
    """Takes whole groups out of train, at random, until each of `splits` has `count` examples.

    Returns: those splits, and what is left of train, all in their old order.

    Raises:
      UserError: if nothing is left.
    """
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
            f"holdout_size={count}: too many for {len(train)} examples to train on; hold out "
            "fewer, or name files for dev and test"
        )
    parts: dict[Split, list[Example]] = {split: [] for split in ("train", *splits)}
    for example in train:
        parts[where.get(example.group, "train")].append(example)
    return parts


def sample(examples: Iterable[T], count: int, seed: int) -> list[T]:
    """`count` of them at random, or all if they are fewer, in their old order.

    No more are ever held (Vitter 1985, Random Sampling with a Reservoir, algorithm R).
    """
    kept: list[tuple[int, T]] = []
    rng = random.Random(seed)
    for number, example in enumerate(examples):
        if len(kept) < count:
            kept.append((number, example))
        elif (place := rng.randrange(number + 1)) < count:
            kept[place] = number, example
    return [example for _, example in sorted(kept, key=lambda pair: pair[0])]


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
        for text in example.words:
            counts.update(text)
    return counts
