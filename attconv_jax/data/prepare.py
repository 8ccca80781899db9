"""Builds the prepared folder of labelled texts, in two streaming passes.

The first pass encodes each example into a draft, in which words are numbered by first occurrence.
Held-out examples, the balance of labels and the vocabulary are determined from the drafts; the
second pass writes the splits. Memory is that of the distinct words and groups and a few bytes for
each example; the drafts are on disk until the end.

The folder has the vocabulary, the initial vectors of its words (`VECTORS`), and for each split a
corpus with the columns of `columns`; an evaluated split also has its raw texts.
"""

import itertools
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int, UInt64

from attconv_jax.data import VECTORS
from attconv_jax.data.labels import UNLABELLED
from attconv_jax.data.sources import Example, Source, source_of
from attconv_jax.data.text import TEXTS, overlap, tokenize
from common_jax.bad_examples import BadExamples, Counts
from common_jax.data.corpus import Corpus, Writer
from common_jax.data.holdout import ShuffledGroups
from common_jax.data.overlaps import row_digests, write_overlaps
from common_jax.data.prepared import OWN_VOCABULARY, SPLITS, Preparation
from common_jax.data.sampling import reservoir
from common_jax.data.sources import held_out_splits, require_some
from common_jax.data.word_level import WordLevelBuilder
from common_jax.errors import UserError, error_context
from common_jax.inputs import Input, columns_of, encode, inputs_to_text
from common_jax.io.progress import progress
from common_jax.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig, WordsConfig

_FORMAT = 1  # of the folder; to be incremented to invalidate prepared folders
_LABELS = 2  # to be incremented if rows have labels that were none before
_CHUNK = 4096  # rows read at once
# a draft's columns: words of all texts, length of each
_WORDS = "_words"
_LENGTHS = "_lengths"


def columns(format: str, inputs: Sequence[Input] = ()) -> tuple[str, ...]:
    """The columns of a corpus: the words of each text and the label; for rankings also the
    question's number and the `overlap` of question and sentence; then those of the model's
    inputs."""
    texts = TEXTS[: 1 if format == "texts" else 2]
    base = (*texts, "label", *(("question", "overlap") if format == "ranking" else ()))
    further = [column.name for column in columns_of(inputs, texts)]
    assert not {*base} & {*further}, f"keys of inputs that are columns: {further}"
    return (*base, *further)


class _Rows(NamedTuple):
    """The rows of a draft that belong to a split, in order."""

    folder: Path
    rows: Int[np.ndarray, "n"]

    def digests(self, *names: str) -> UInt64[np.ndarray, "n"]:
        """`row_digests` of the named columns."""
        return row_digests(Corpus.open(self.folder), names)[self.rows]

    def chunks(self, *names: str) -> Iterator[dict[str, list[np.ndarray]]]:
        """The named columns, in chunks of rows."""
        corpus = Corpus.open(self.folder)
        for start in range(0, len(self.rows), _CHUNK):
            yield {name: corpus.rows(self.rows[start : start + _CHUNK], name) for name in names}


class Builder(WordLevelBuilder):
    """Builds the folder."""

    def __init__(
        self,
        config: "DataConfig",
        words: "WordsConfig",
        inputs: Sequence[Input] = (),
        preparation: Preparation = OWN_VOCABULARY,
    ):
        """
        Args:
          inputs: the model's inputs beside words.
        """
        super().__init__(config, words, inputs_to_text(inputs), preparation)
        self._inputs = inputs
        self._texts = TEXTS[: config.texts]
        self._further = columns_of(inputs, self._texts)
        held_out = [split for split in held_out_splits(config) if split in self._splits]
        self._held_out = ShuffledGroups(held_out, config.holdout_size, config.seed, "examples")
        self._numbers: dict[str, int] = {}  # of words in drafts

    def _source(self, split: Any) -> Source | None:
        if split in self._held_out.splits:
            return None
        return source_of(self._config, split, bool(self._inputs), self._words.rule)

    @property
    def _vectors(self) -> str:
        """The file of initial vectors; "" if no training split is prepared."""
        return super()._vectors if "train" in self._splits else ""

    def settings(self) -> dict[str, Any]:
        config = self._config
        held_out = self._held_out.splits
        return {
            "labelled texts": _FORMAT,
            "held_out": [held_out, config.holdout_size, config.examples, config.seed],
            "labels": [config.labels, config.ignored_labels, config.balanced],
            "lexicon": [self._words.dim, self._words.rows, self._words.unknown_rows],
            "length": config.max_length,
            **({"stratified": True} if config.stratified and held_out else {}),
            **({"labels read": _LABELS} if config.on_bad_example == "skip" else {}),
            **super().settings(),
        }

    def build(self, folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as drafts:
            self._build(folder, Path(drafts))

    def _build(self, folder: Path, drafts: Path) -> None:
        dropped: dict[str, Counts] = {}
        splits: dict[str, _Rows] = {}
        for split, source in self._sources.items():
            dropped[split] = self._draft(drafts / split, source)
            rows = np.arange(len(Corpus.open(drafts / split)))
            splits[split] = _Rows(drafts / split, rows)

        # rows of the splits
        if self._held_out.splits:
            held_out = self._held_out.rows(self._sources["train"].place)
            splits |= {split: _Rows(drafts / "train", rows) for split, rows in held_out.items()}
        if self._config.balanced and "train" in splits:
            train = splits["train"]
            labels = Corpus.open(train.folder).column("label")[train.rows]
            balanced = balance(labels, self._config.seed)
            splits["train"] = train._replace(rows=train.rows[balanced])

        # words
        digests = {name: of.digests(_WORDS, _LENGTHS) for name, of in splits.items()}
        write_overlaps(folder, {s: digests[s] for s in SPLITS if s in splits})
        vocabulary = self._vocabulary(splits, folder)
        vocabulary.save(folder)
        ids = np.array(vocabulary.word_ids(self._numbers), np.int32)

        for name, split_rows in splits.items():
            several = _several_labels(digests[name], split_rows.digests("label"))
            meta = {"dropped": dropped.get(name, {}), "several_labels": several}
            self._write(folder / name, split_rows, ids, meta)

    def _draft(self, folder: Path, source: Source) -> Counts:
        """Writes the draft of a source's valid examples; returns the counts of the others."""
        train = folder.name == "train"
        bad_examples = self._bad_examples()
        names = columns(self._config.format, self._inputs)[len(self._texts) :]
        number = self._numbers.setdefault
        questions = dict[tuple[str, str, str], int]()
        examples = self._read(source, bad_examples, sampled=train)
        with (
            Writer(folder, [_WORDS, _LENGTHS, *names]) as corpus,
            (folder / "texts.jsonl").open("w", encoding="utf-8") as texts,
        ):
            for example in progress(examples, f"reading {folder.name}", "examples"):
                words = self._words_of(example, bad_examples)
                row = words and bad_examples.parse(self._encode, example, words)
                if not words or not row:
                    continue
                flat = itertools.chain.from_iterable(words)
                row[_WORDS] = [number(word, len(self._numbers)) for word in flat]
                row[_LENGTHS] = [*map(len, words)]
                if self._config.format == "ranking":
                    # files can number their questions alike
                    question = example.question, example.texts[0], example.group
                    row["question"] = [questions.setdefault(question, len(questions))]
                    row["overlap"] = overlap(*words)
                corpus.append(row)
                if train and self._held_out.splits:
                    stratum = example.label if self._config.stratified else ""
                    self._held_out.add(example.group, stratum)
                if not train or self._held_out.splits:
                    texts.write(json.dumps(example.texts, ensure_ascii=False) + "\n")
        require_some(corpus.rows, "examples", folder.name, source.place, bad_examples.counts)
        return bad_examples.counts

    def _read(
        self, source: Source, bad_examples: BadExamples, *, sampled: bool
    ) -> Iterator[Example]:
        """The examples of a source; if `sampled`, a random sample of `data.examples` and the number
        of held-out ones."""
        config = self._config
        examples = source.read(bad_examples)
        if not sampled or not config.examples or config.source == "generated":
            return examples
        size = config.examples + len(self._held_out.splits) * config.holdout_size
        chosen = np.zeros(sum(1 for _ in examples), bool)
        chosen[reservoir(range(len(chosen)), size, random.Random(config.seed).randrange)] = True
        return itertools.compress(source.read(BadExamples("skip")), chosen)

    def _words_of(
        self, example: Example, bad_examples: BadExamples
    ) -> list[tuple[str, ...]] | None:
        """The words of each text; None if the example is invalid or skipped."""
        config = self._config
        if example.label in config.ignored_names:
            bad_examples.skip(f"labelled {example.label!r}", example.place)
        elif example.label not in config.names and example.label in ("", UNLABELLED):
            bad_examples.reject("no label", example.place)
        elif example.label not in config.names:
            quoted = "; labels with commas in quotation marks" if "," in example.label else ""
            reason = f"none of data.labels={config.labels}{quoted}"
            bad_examples.reject(reason, f"{example.place}: label {example.label[:60]!r}")
        # its texts
        elif not all(words := [tokenize(text, self._words.rule) for text in example.texts]):
            bad_examples.reject("a text without a word", example.place)
        elif (longest := max(map(len, words))) > config.max_length:
            reason = f"over data.max_length={config.max_length}"
            bad_examples.reject(reason, f"{example.place}: {longest} words")
        else:
            return words
        return None

    def _encode(self, example: Example, words: list[tuple[str, ...]]) -> dict[str, Any]:
        """The columns of the label and of the model's inputs."""
        texts = dict(zip(TEXTS, words, strict=False))
        notes = dict(zip(texts, example.annotations, strict=False))
        with error_context(example.place):
            arrays = encode(self._further, texts, notes)
        row = {name: array.ravel() for name, array in arrays.items()}
        return {**row, "label": [self._config.names.index(example.label)]}

    def _vocabulary(self, splits: dict[str, _Rows], folder: Path) -> Vocabulary:
        """The given vocabulary, or that of the most frequent words of train, and of other splits'
        words with vectors; writes the vectors."""
        words = self._words
        given = self._given_vocabulary()
        if given is not None and given.shared != words.unknown_rows:
            raise UserError(
                f"words.unknown_rows={words.unknown_rows}: {self._preparation.vocabulary} has "
                f"{given.shared}; set it to that"
            )
        if not self._vectors:
            return given or Vocabulary.make(
                self._count(splits["train"]), words.rows, 0, words.unknown_rows, words.rule
            )

        # words that have vectors
        counts = {split: self._count(split_rows) for split, split_rows in splits.items()}
        everywhere = sum(counts.values(), Counter[str]())
        vectors = self._read_vectors(everywhere, folder)
        with_vectors = Counter({word: everywhere[word] for word in vectors.rows})
        vocabulary = given or Vocabulary.make(
            counts["train"] | with_vectors, words.rows, 0, words.unknown_rows, words.rule
        )

        rows = {word: row for word, row in vectors.rows.items() if word in vocabulary}
        numbers = np.array(vocabulary.word_ids(rows), np.int32)
        if rows:
            np.savez(folder / VECTORS, numbers=numbers, vectors=vectors.table[[*rows.values()]])
        return vocabulary

    def _count(self, split_rows: _Rows) -> Counter[str]:
        """The words' counts, in the order of first occurrence."""
        counts = Counter[int]()
        words = [*self._numbers]
        for chunk in split_rows.chunks(_WORDS):
            counts.update(np.concatenate(chunk[_WORDS]).tolist())
        return Counter({words[number]: count for number, count in counts.items()})

    def _write(
        self,
        folder: Path,
        split_rows: _Rows,
        ids: Int[np.ndarray, "words"],
        meta: Mapping[str, Any],
    ) -> None:
        """Writes a split, with the final ids of the draft's words."""
        names = columns(self._config.format, self._inputs)
        questions = dict[int, int]()
        equal = 0
        with Writer(folder, names) as corpus:
            chunks = split_rows.chunks(_WORDS, _LENGTHS, *names[len(self._texts) :])
            unit = f"chunks of {_CHUNK:,} examples"
            count = -(-len(split_rows.rows) // _CHUNK)
            for chunk in progress(chunks, f"encoding {folder.name}", unit, count):
                words, lengths = (np.concatenate(chunk.pop(name)) for name in (_WORDS, _LENGTHS))
                texts = np.split(words, np.cumsum(lengths)[:-1])
                if len(self._texts) == 2:
                    equal += sum(map(np.array_equal, texts[::2], texts[1::2]))
                if "question" in chunk:

                    def number(q):
                        return questions.setdefault(int(q), len(questions))

                    chunk["question"] = [np.array([number(q)]) for (q,) in chunk["question"]]
                for at, name in enumerate(self._texts):
                    chunk[name] = [ids[text] for text in texts[at :: len(self._texts)]]
                corpus.extend(chunk)
            corpus.meta.update(meta, equal=equal)
        if folder.name != "train":
            chosen = np.zeros(len(Corpus.open(split_rows.folder)), bool)
            chosen[split_rows.rows] = True
            name = "texts.jsonl"
            with (split_rows.folder / name).open("rb") as lines, (folder / name).open("wb") as file:
                file.writelines(itertools.compress(lines, chosen))


def _several_labels(texts: UInt64[np.ndarray, "n"], labels: UInt64[np.ndarray, "n"]) -> int:
    """The number of distinct texts that have several labels.

    Args:
      texts, labels: digests of each example's texts, and of its label.
    """
    pairs = np.unique(np.stack([texts, labels], axis=1), axis=0)
    return int((np.unique(pairs[:, 0], return_counts=True)[1] > 1).sum())


def balance(labels: Int[np.ndarray, "n"], seed: int) -> Int[np.ndarray, "m"]:
    """Indices of equally many random examples of each label, as many as of the rarest."""
    distinct, first = np.unique(labels, return_index=True)
    members = [np.flatnonzero(labels == label) for label in distinct[np.argsort(first)]]
    least = min(map(len, members))
    rng = random.Random(seed)
    return np.sort(np.concatenate([of[rng.sample(range(len(of)), least)] for of in members]))
