"""Questions and passages for training and evaluation: reads and batches the prepared folder."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Int

from common_jax.bad_examples import Counts
from common_jax.data.batches import Batch, Batches
from common_jax.data.corpus import Corpus
from common_jax.data.epoch_plan import Mixture, Plan, PlannedBatch
from common_jax.data.word_level import WordLevelData
from common_jax.errors import UserError
from common_jax.inputs import Column, columns_of
from common_jax.text.squad import Answer, Question, Squad
from common_jax.text.vocabulary import Vocabulary
from common_jax.text.word_tokenizer import UNICODE
from qanet_jax.data import Golds, Split, splits_of
from qanet_jax.data.text import TEXTS, text_arrays

if TYPE_CHECKING:
    from qanet_jax.config import Config
    from qanet_jax.data.prepare import Builder

_log = logging.getLogger(__name__)


class SpanBatches(Batches):
    """Batches of questions with their passages.

    A batch has "index" [B]; for both `TEXTS` the word ids "TEXT" int32 [B, width], the characters
    "TEXT_characters" int32 [B, width, W], and with fixed vectors "TEXT_vectors" float32
    [B, width, P]; "start" and "end" int32 [B], the first and last word of the first gold answer, in
    evaluation -1 in windows without it, and missing if none has one; and the model's inputs,
    "TEXT_KEY" int32 [B, width, K] of words or "KEY" int32 [B, K] of examples.
    """

    def __init__(
        self,
        split: "SplitCorpus",
        vocabulary: Vocabulary,
        plan: Plan,
        gold: Int[np.ndarray, "n 2"] | None = None,
    ):
        """`gold` is `SplitCorpus.gold` of an evaluated split."""
        super().__init__(split.questions, TEXTS, plan)
        self._gold = gold
        self._split = split
        self._vocabulary = vocabulary

    def read(self, planned: PlannedBatch) -> Batch:
        index = self.index(planned)
        batch = {"index": index}
        split = self._split
        widths = dict(zip(TEXTS, self.plan.shapes[planned.shape].tolist(), strict=True))
        rows = {"context": split.passage_of(index), "question": index}
        corpora = {"context": split.passages, "question": split.questions}

        # words and characters of both texts
        for text, width in widths.items():
            words = corpora[text].gather(rows[text], "words", width)
            flat = corpora[text].gather(rows[text], "characters", width * split.word_length)
            characters = flat.reshape(*words.shape, split.word_length)
            batch |= text_arrays(text, words, characters, self._vocabulary)

        # further inputs, and the answers
        for column in split.inputs:
            text = column.text or "question"
            batch[column.name] = column.gather(corpora[text], rows[text], widths[text])
        if split.answered:
            batch["start"], batch["end"] = split.questions.gather(index, "answer", 2).T
        elif self._gold is not None:
            batch["start"], batch["end"] = self._gold[index].T
        return batch


class SplitCorpus:
    """One split of a prepared folder.

    Attributes:
      questions, passages: the corpora of `qanet_jax.data.prepare`.
      numbers: the question of each row of `questions`.
      word_length: characters of a word.
      inputs: columns of the model's inputs beside words.
      answered: whether the questions have answers to train on.
    """

    def __init__(
        self, folder: Path, word_length: int, inputs: Sequence[Column] = (), *, answered: bool
    ):
        self.questions = Corpus.open(folder / "questions")
        self.passages = Corpus.open(folder / "passages")
        self.word_length = word_length
        self.inputs = inputs
        self.answered = answered
        self._passages = self.questions.column("passage")
        self.numbers = self.questions.column("number")

    def passage_of(self, index: Int[np.ndarray, "B"]) -> Int[np.ndarray, "B"]:
        """The passage of each example; -1 for padding, -1."""
        return np.where(index >= 0, self._passages[index], -1)

    def lengths(self) -> Int[np.ndarray, "n 2"]:
        """The numbers of words in each example's passage and question, at least 1."""
        contexts = self.passages.lengths("words")[self._passages]
        return np.maximum(1, np.concatenate([contexts, self.questions.lengths("words")], axis=1))

    def characters(self, example: int, first: int, last: int) -> tuple[int, int]:
        """The character offsets of words `first` to `last` of an example's passage."""
        starts, ends = self._offsets(example)
        return int(starts[first]), int(ends[last])

    def gold(self, squad: Squad) -> Int[np.ndarray, "n 2"] | None:
        """The first and the last word of each question's first answer in each window, -1 where a
        window lacks a part of it; None if no window has one.

        Args:
          squad: the texts of this split.
        """
        found = np.full((len(self.numbers), 2), -1, np.int32)
        for row, number in enumerate(self.numbers.tolist()):
            starts, ends = self._offsets(row)
            for answer in squad.questions[number].answers[:1]:
                end = answer.start + len(answer.text)
                if len(starts) and starts[0] <= answer.start and end <= ends[-1]:
                    first = np.searchsorted(ends, answer.start, "right")
                    found[row] = first, np.searchsorted(starts, end) - 1
        return found if (found >= 0).any() else None

    def _offsets(self, example: int) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
        """The start and the end of each word of an example's passage, in characters."""
        passage = int(self._passages[example])
        return self.passages.row(passage, "starts"), self.passages.row(passage, "ends")


class ReadingData(WordLevelData):
    """One run's questions (see `WordLevelData`)."""

    unit = "questions"
    other_test_fields: ClassVar[Mapping[str, Any]] = {"max_unreachable_answers": 1.0}

    def __init__(self, config: "Config"):
        super().__init__()
        self.config = config.data
        self._run = config

    def builder(self) -> "Builder":
        from qanet_jax.data.prepare import Builder

        return Builder(self._run, self.preparation)

    @property
    def longest(self) -> int:
        return self.config.question_length

    def reconcile_vocabulary(self, own: Vocabulary, prepared: Vocabulary) -> Vocabulary:
        """The prepared folder's vocabulary, which may have further words with fixed vectors."""
        if not own.compatible_with(prepared):
            raise UserError(
                "data: other words or characters than the run was trained on; use the same "
                "data.train, data.vectors, words.rows and words.char_rows"
            )
        return prepared

    def _require_usable(self, folder: Path) -> None:
        limit = self.config.max_unreachable_answers
        for split in self.splits:
            meta = Corpus.open(folder / split / "questions").meta.get("unreachable")
            if meta and meta["count"] > limit * meta["of"]:
                files = getattr(self.config, split.removesuffix("_oracle"))
                rule = Vocabulary.load(folder).rule
                split_further = "" if rule == UNICODE else f"set words.rule={UNICODE}, or "
                raise UserError(
                    f"{split} ({files}): {_unreachable(meta)}, which no prediction matches; "
                    f"{split_further}accept it with data.max_unreachable_answers (now {limit:g})"
                )

    def report(self) -> None:
        """As `WordLevelData.report`; also the questions without a gold answer of whole words."""
        super().report()
        for split in self.splits:
            if meta := self.split(split).questions.meta.get("unreachable"):
                _log.info("%s: %s", split, _unreachable(meta))

    def split_sizes(self) -> Mapping[str, tuple[int, Counts]]:
        splits = {name: self.split(name) for name in self.splits}
        return {
            name: (len(np.unique(split.numbers)), split.questions.meta["dropped"])
            for name, split in splits.items()
        }

    def input_lengths(self, split: str) -> Int[np.ndarray, "n"]:
        corpus = self.split(split)  # of windows of contexts
        first = np.unique(corpus.numbers, return_index=True)[1]
        return corpus.questions.lengths("words")[first, 0]

    @property
    def all_splits(self) -> tuple[Split, ...]:
        return splits_of(self.config)

    def train_batches(self, seed: int) -> SpanBatches:
        split = self.split("train")
        plan = self.train_plan(split.lengths(), seed, self._mixture(split))
        return SpanBatches(split, self.vocabulary, plan)

    def _mixture(self, split: SplitCorpus) -> Mixture | None:
        """The weighted mixture of the training split's files; None for one file, or no weights."""
        files = self.config.train_files
        sizes = split.questions.meta.get("sizes", ())
        if not self.config.weights or len(files) < 2 or not sizes:
            return None
        of_question = np.repeat(np.arange(len(sizes)), sizes)
        mixture = Mixture(of_question[split.numbers], [*files.values()])
        counts = np.bincount(mixture.corpus, minlength=len(files))
        for name, count in zip(files, counts, strict=True):
            if not count:
                raise UserError(f"data.train: no questions left of {name}, which has a weight")
        return mixture

    def split_batches(self, split: str) -> SpanBatches:
        """All windows of all questions of an evaluated split once, ordered by length."""
        lengths = {n: self.split(n).lengths() for n in self.splits if n != "train"}
        plan = self.split_plan(split, lengths)
        corpus = self.split(split)
        # the answers of TriviaQA are texts, without places
        gold = None if self.golds(split) is not None else corpus.gold(self.texts(split))
        return SpanBatches(corpus, self.vocabulary, plan, gold)

    def texts(self, split: str) -> Squad:
        """The texts of an evaluated split."""
        saved = json.loads((self.path / split / "squad.json").read_text("utf-8"))
        questions = []
        for fields in saved["questions"]:
            answers = tuple(Answer(**answer) for answer in fields["answers"])
            unlocated = tuple(fields.get("unlocated", ()))
            questions.append(Question(**{**fields, "answers": answers, "unlocated": unlocated}))
        return Squad(saved["contexts"], questions)

    def golds(self, split: str) -> Golds | None:
        """The gold answers of an evaluated split of TriviaQA; None for SQuAD's format."""
        file = self.path / split / "golds.json"
        return json.loads(file.read_text("utf-8")) if file.exists() else None

    def split(self, name: str) -> SplitCorpus:
        """One split."""
        folder = self.path / name
        length = self._run.word_length
        inputs = columns_of(self._run.model.inputs, TEXTS)
        return SplitCorpus(folder, length, inputs, answered=name == "train")


def _unreachable(meta: Mapping[str, Any]) -> str:
    """The number of questions without a gold answer of whole words, and examples."""
    count = meta["count"]
    total = meta["of"]
    examples = ", ".join(meta["examples"])
    numbers = f"{count:,} of {total:,} questions have no gold answer of whole words"
    return f"{numbers} ({examples})" if examples else numbers
