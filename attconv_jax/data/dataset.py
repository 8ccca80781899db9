"""Labelled texts for training and evaluation: reads and batches the prepared folder."""

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from attconv_jax.data import LABELS, VECTORS
from attconv_jax.data.text import TEXTS
from common_jax.data.batches import Batch, Batches, Epoch, Position
from common_jax.data.corpus import Corpus
from common_jax.data.epoch_plan import Plan, PlannedBatch, epoch_random
from common_jax.data.word_level import WordLevelData
from common_jax.errors import UserError
from common_jax.inputs import Column, Input, columns_of
from common_jax.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig, WordsConfig
    from attconv_jax.data.prepare import Builder

YES = LABELS.index("yes")  # the label of an answering sentence
_log = logging.getLogger(__name__)


class LabelledBatches(Batches):
    """Batches of labelled texts.

    A batch has "index" [B]; the word ids "first" and for pairs "second", int32 [B, width]; the
    arrays of the model's inputs; and "label", int32 [B].
    """

    def __init__(
        self,
        corpus: Corpus,
        columns: Sequence[str],
        plan: Plan,
        numbers: Int[np.ndarray, "n"] | None = None,
        inputs: Sequence[Input] = (),
    ):
        """
        Args:
          columns: those of the texts' words.
          numbers: maps word ids of the corpus to those of the run; None if they are the same.
          inputs: the model's inputs beside words.
        """
        super().__init__(corpus, columns, plan)
        self._numbers = numbers
        self._inputs = columns_of(inputs, columns)

    def read(self, planned: PlannedBatch) -> Batch:
        batch = super().read(planned)
        if self._numbers is not None:
            batch |= {name: self._numbers[batch[name]] for name in self.columns}
        index = batch["index"]
        corpus = self.corpus
        widths = {name: batch[name].shape[1] for name in self.columns}
        further = {c.name: c.gather(corpus, index, widths.get(c.text, 0)) for c in self._inputs}
        return batch | further | {"label": corpus.gather(index, "label", 1)[:, 0]}


class RankedQuestions:
    """The questions of a corpus with both answering and other sentences.

    Attributes:
      rows: of the corpus, by question, the answering sentences of each first.
      starts: the position in `rows` of each question's first sentence.
      right, counts: its numbers of answering sentences and of all.
      lengths: of the question and of its longest sentence.
      left_out: number of the other questions.
    """

    def __init__(self, corpus: Corpus):
        """
        Raises:
          UserError: if there are none.
        """
        questions = corpus.column("question")
        labels = corpus.column("label")
        self.rows = np.lexsort((labels != YES, questions))
        _, starts, counts = np.unique(questions[self.rows], return_index=True, return_counts=True)
        right = np.add.reduceat((labels[self.rows] == YES).astype(int), starts)

        # questions with both labels
        usable = (right > 0) & (right < counts)
        if not usable.any():
            raise UserError(
                "data.train: no passage has both a sentence that answers and one that does not"
            )
        self.left_out = int((~usable).sum())
        self.starts = starts[usable]
        self.right = right[usable]
        self.counts = counts[usable]

        # lengths of a question and its longest sentence
        lengths = corpus.lengths(*TEXTS)[self.rows]
        longest = np.maximum.reduceat(lengths[:, 1], starts)
        self.lengths = np.stack([lengths[starts, 0], longest], axis=1)[usable]


class RankedBatches(Batches):
    """Batches of questions for training.

    A batch has "index" [B]; "first", the question, and "second", an answering sentence, int32
    [B, width]; and "other", int32 [B, N, width], up to N distinct sentences that do not answer it,
    then zeros. Sentences are sampled anew in each epoch. The model's inputs for "other" have the
    prefix "other_" (`other_name`).
    """

    def __init__(
        self,
        corpus: Corpus,
        questions: RankedQuestions,
        plan: Plan,
        seed: int,
        inputs: Sequence[Input] = (),
        negatives: int = 1,
    ):
        """
        Args:
          questions: those of `corpus`.
          plan: of the questions.
          inputs: the model's inputs beside words.
          negatives: N.
        """
        super().__init__(corpus, TEXTS, plan)
        self._seed = seed
        self._inputs = columns_of(inputs, TEXTS)
        self.questions = questions
        self._negatives = negatives

    def epoch(self, epoch: int) -> Epoch:
        random = epoch_random(~self._seed, epoch)  # independent of the plan's
        questions = self.questions
        right = (random.random(len(questions.starts)) * questions.right).astype(int)
        right = questions.rows[questions.starts + right]
        negatives = self._others(random)

        def read(planned: PlannedBatch) -> Batch:
            index = self.index(planned)
            corpus = self.corpus
            widths = dict(zip(TEXTS, self.plan.shapes[planned.shape].tolist(), strict=True))
            real = index >= 0
            answers = np.where(real, right[index], -1)
            wrong = np.where(real[:, None], negatives[index], -1)

            def by_question(arrays):
                return arrays.reshape(*wrong.shape, *arrays.shape[1:])

            batch = {"index": index}
            for text, width in widths.items():
                batch[text] = corpus.gather(answers, text, width)
            batch["other"] = by_question(corpus.gather(wrong.ravel(), "second", widths["second"]))
            for column in self._inputs:
                width = widths.get(column.text, 0)
                batch[column.name] = column.gather(corpus, answers, width)
                if column.text != "first":
                    arrays = column.gather(corpus, wrong.ravel(), width)
                    batch[other_name(column)] = by_question(arrays)
            return batch

        return Epoch(read, self.plan.epoch(epoch))

    def _others(self, random: np.random.Generator) -> Int[np.ndarray, "questions N"]:
        """The corpus rows of sampled sentences that do not answer each question, padded with -1."""
        questions = self.questions
        count = questions.counts - questions.right
        number = np.arange(count.max())
        exists = number < count[:, None]
        order = np.argsort(np.where(exists, random.random(exists.shape), 2), axis=1)
        order = order[:, : self._negatives]
        first = questions.starts + questions.right
        rows = questions.rows[np.minimum(first[:, None] + order, len(questions.rows) - 1)]
        rows = np.where(order < count[:, None], rows, -1)
        missing = self._negatives - rows.shape[1]
        return np.pad(rows, ((0, 0), (0, max(0, missing))), constant_values=-1)

    def examples(self, position: Position) -> Int[np.ndarray, "n"]:
        """The corpus index of an answering sentence for each question of the batch."""
        return self.questions.rows[self.questions.starts[super().examples(position)]]


def other_name(column: Column) -> str:
    """The name in `RankedBatches` of a column's array for the sentences that do not answer."""
    return f"other_{column.name.removeprefix('second_')}"


class LabelledData(WordLevelData):
    """One run's texts (see `WordLevelData`).

    For evaluation on other texts than the run's, word ids are mapped to the run's vocabulary.
    """

    unit = "examples"

    def __init__(self, config: "DataConfig", words: "WordsConfig", inputs: Sequence[Input] = ()):
        super().__init__()
        self.config = config
        self._words = words
        self._inputs = inputs
        self._columns = TEXTS[: config.texts]
        self._numbers: np.ndarray | None = None  # see `LabelledBatches`

    def builder(self) -> "Builder":
        from attconv_jax.data.prepare import Builder

        return Builder(self.config, self._words, self._inputs, self.preparation)

    @property
    def longest(self) -> int:
        return self.config.max_length

    def reconcile_vocabulary(self, own: Vocabulary, prepared: Vocabulary) -> Vocabulary:
        """The run's own vocabulary."""
        if not own.compatible_with(prepared):
            self._numbers = own.ids_from(prepared)
        return own

    def report(self) -> None:
        """As `WordLevelData.report`; each split's size and counts of labels, and warnings if some
        label has no examples, or texts have several labels, or many are equal."""
        super().report()
        names = self.config.names
        for split, (size, _) in self.split_sizes().items():
            labels = np.bincount(self.corpus(split).column("label"), minlength=len(names))
            counts = dict(zip(names, labels.tolist(), strict=True))
            listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
            _log.info("%s: %s examples (%s)", split, f"{size:,}", listed)
            meta = self.corpus(split).meta
            self._report_equal(split, meta.get("equal", 0), size)
            if several := meta.get("several_labels"):
                _log.warning("%s: %s texts have several labels", split, f"{several:,}")
            if absent := [repr(name) for name, count in counts.items() if not count]:
                left = len(counts) - len(absent)
                alone = ": all examples have one label" if left == 1 else ""
                _log.warning("%s: no example labelled %s%s", split, ", ".join(absent), alone)

    def input_lengths(self, split: str) -> Int[np.ndarray, "n"]:
        return self.corpus(split).lengths(*self._columns).max(axis=1)

    def vectors(self) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n D"]] | None:
        """Word ids and their initial vectors; None without a file of vectors."""
        file = self.path / VECTORS
        if not file.exists():
            return None
        with np.load(file) as arrays:
            return arrays["numbers"], arrays["vectors"]

    def train_batches(self, seed: int) -> Batches:
        """The training split, its order a function of `seed` and the epoch.

        Raises:
          UserError: if no question can be ranked, or the vocabulary is not that of the run.
        """
        if self._numbers is not None:
            raise UserError(
                "data: other words than the run was trained on; use the same data.train, "
                "data.vectors and words.rows"
            )
        corpus = self.corpus("train")

        # ranking: groups of a question
        if self.config.format == "ranking":
            questions = RankedQuestions(corpus)
            if questions.left_out:
                skipped = questions.left_out
                _log.info("skipping %d questions without both kinds of sentences", skipped)
            plan = self.train_plan(questions.lengths, seed)
            negatives = self.config.negatives
            return RankedBatches(corpus, questions, plan, seed, self._inputs, negatives)

        plan = self.train_plan(corpus.lengths(*self._columns), seed)
        return LabelledBatches(corpus, self._columns, plan, inputs=self._inputs)

    def split_batches(self, split: str) -> Batches:
        evaluated = [name for name in self.splits if name != "train"]
        lengths = {name: self.corpus(name).lengths(*self._columns) for name in evaluated}
        plan = self.split_plan(split, lengths)
        corpus = self.corpus(split)
        return LabelledBatches(corpus, self._columns, plan, self._numbers, self._inputs)

    def texts(self, split: str) -> list[list[str]]:
        """The raw texts of an evaluated split."""
        with (self.path / split / "texts.jsonl").open(encoding="utf-8", newline="\n") as file:
            return [json.loads(line) for line in file]
