"""Labelled texts for training and evaluation: reads and batches the prepared folder."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from attconv_jax.data import LABELS, VECTORS
from attconv_jax.data.text import TEXTS
from common_jax.bad_examples import Counts
from common_jax.data.batches import Batch, Batches, Epoch, Position
from common_jax.data.corpus import Corpus
from common_jax.data.plan import Plan, PlannedBatch, epoch_random
from common_jax.data.prepared import SPLITS
from common_jax.data.word_level import WordLevelData
from common_jax.errors import UserError
from common_jax.inputs import Column, Input, columns_of
from common_jax.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig, WordsConfig
    from attconv_jax.data.prepare import Builder

YES = LABELS.index("yes")  # the label's number of a sentence that answers
_log = logging.getLogger(__name__)


class LabelledBatches(Batches):
    """Batches of texts: beside "index" [B] there are "first" and, of pairs, "second", int32
    [B, width], the words' numbers, the arrays of a model's inputs, and "label" int32 [B]."""

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
          columns: of the texts' words.
          numbers: of words to a run, by their numbers in the corpus; None if they are the same.
          inputs: what the model reads beside words.
        """
        super().__init__(corpus, columns, plan)
        self._numbers, self._inputs = numbers, columns_of(inputs, columns)

    def read(self, planned: PlannedBatch) -> Batch:
        """The arrays of one planned batch."""
        batch = super().read(planned)
        if self._numbers is not None:
            batch |= {name: self._numbers[batch[name]] for name in self.columns}
        index, gather = batch["index"], self.corpus.gather
        widths = {name: batch[name].shape[1] for name in self.columns}
        further = {c.name: c.gather(gather, index, widths.get(c.text, 0)) for c in self._inputs}
        return batch | further | {"label": gather(index, "label", 1)[:, 0]}


class RankedBatches(Batches):
    """Batches of questions to train on: beside "index" [B] there are "first" int32 [B, width], the
    question, and "second" and "other", a sentence of its passage that answers it and one that does
    not, both drawn anew in each epoch. Passages without both kinds are left out. What a model's
    inputs give of the sentence that does not answer, or of the example with it, begins with
    "other_" instead of "second_", or before its name.

    Attributes:
      left_out: questions about these.
    """

    def __init__(
        self,
        corpus: Corpus,
        plan: Callable[[Int[np.ndarray, "questions 2"]], Plan],
        seed: int,
        inputs: Sequence[Input] = (),
    ):
        """
        Args:
          plan: of questions whose own and whose longest sentence's lengths are given.
          inputs: what the model reads beside words.

        Raises:
          UserError: if no passage has both kinds.
        """
        questions, labels = corpus.column("question"), corpus.column("label")
        order = np.lexsort((labels != YES, questions))  # right ones first
        _, starts, counts = np.unique(questions[order], return_index=True, return_counts=True)
        right = np.add.reduceat((labels[order] == YES).astype(int), starts)
        kept = (right > 0) & (right < counts)
        if not kept.any():
            raise UserError(
                "data.train: no passage has both a sentence that answers and one that does not"
            )
        self.left_out = int((~kept).sum())
        self._rows, self._starts = order, starts[kept]
        self._right, self._counts = right[kept], counts[kept]
        lengths = corpus.lengths(*TEXTS)[order]
        longest = np.maximum.reduceat(lengths[:, 1], starts)
        lengths = np.stack([lengths[starts, 0], longest], axis=1)[kept]
        super().__init__(corpus, TEXTS, plan(lengths))
        self._seed, self._inputs = seed, columns_of(inputs, TEXTS)

    def epoch(self, epoch: int) -> Epoch:
        """The batches of one epoch, each read when it is indexed."""
        random = epoch_random(~self._seed, epoch)  # another stream than the plan's
        right, other = random.random((2, len(self._starts)))
        right = self._starts + (right * self._right).astype(int)
        wrong = self._counts - self._right
        other = self._starts + self._right + (other * wrong).astype(int)
        right, other = self._rows[right], self._rows[other]

        def read(planned: PlannedBatch) -> Batch:
            index, gather = self.index(planned), self.corpus.gather
            widths = dict(zip(TEXTS, self.plan.shapes[planned.shape].tolist(), strict=True))
            answers, others = (np.where(index < 0, -1, rows[index]) for rows in (right, other))
            batch = {"index": index}
            for text, width in widths.items():
                batch[text] = gather(answers, text, width)
            batch["other"] = gather(others, "second", widths["second"])
            for column in self._inputs:
                width = widths.get(column.text, 0)
                batch[column.name] = column.gather(gather, answers, width)
                if column.text != "first":
                    batch[other_name(column)] = column.gather(gather, others, width)
            return batch

        return Epoch(read, self.plan.epoch(epoch))

    def examples(self, position: Position) -> Int[np.ndarray, "n"]:
        """The numbers in the corpus of the batch's questions: of a sentence that answers each."""
        return self._rows[self._starts[super().examples(position)]]


def other_name(column: Column) -> str:
    """What `RankedBatches` call the array of the sentence that does not answer."""
    return f"other_{column.name.removeprefix('second_')}"


class LabelledData(WordLevelData):
    """One run's texts (see `WordLevelData`).

    Other texts than a run's own, to be evaluated, have other words with vectors: these are read by
    the numbers that they have in the run's vocabulary, and unknown where they have none.
    """

    unit = "examples"

    def __init__(self, config: "DataConfig", words: "WordsConfig", inputs: Sequence[Input] = ()):
        """
        Args:
          inputs: what the model reads beside words.
        """
        super().__init__()
        self.config, self._words, self._inputs = config, words, inputs
        self._columns = TEXTS[: config.texts]
        self._numbers: np.ndarray | None = None  # see `LabelledBatches`

    def builder(self) -> "Builder":
        """Finds the sources."""
        from attconv_jax.data.prepare import Builder

        return Builder(self.config, self._words, self._inputs)

    def reconcile_vocabulary(self, known: Vocabulary, found: Vocabulary) -> Vocabulary:
        """The run's own."""
        if not known.compatible_with(found):
            self._numbers = known.ids_from(found)
        return known

    def split_sizes(self) -> Mapping[str, tuple[int, Counts]]:
        """For each split how many examples there are, and what was left out."""
        corpora = {split: self.corpus(split) for split in SPLITS}
        return {split: (len(corpus), corpus.meta["dropped"]) for split, corpus in corpora.items()}

    def vectors(self) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n D"]] | None:
        """Words' numbers and the vectors that they begin with; None where no file has any."""
        file = self.path / VECTORS
        if not file.exists():
            return None
        with np.load(file) as arrays:
            return arrays["numbers"], arrays["vectors"]

    def train_batches(self, seed: int) -> Batches:
        """The training split, its order a function of `seed` and the epoch.

        Raises:
          UserError: if there is nothing to learn ranking from, or for other words than the run was
            trained on.
        """
        if self._numbers is not None:
            raise UserError(
                "data: other words than the run was trained on; give it the same data.train, "
                "data.vectors and words.rows"
            )
        corpus = self.corpus("train")
        if self.config.format == "ranking":
            plan_of = lambda lengths: self.train_plan(lengths, seed)
            batches = RankedBatches(corpus, plan_of, seed, self._inputs)
            if batches.left_out:
                _log.info("%d questions are about passages that teach nothing", batches.left_out)
            return batches
        plan = self.train_plan(corpus.lengths(*self._columns), seed)
        return LabelledBatches(corpus, self._columns, plan, inputs=self._inputs)

    def split_batches(self, split: str) -> Batches:
        """Every example of an evaluated split once, by length."""
        lengths = {str(name): self.corpus(name).lengths(*self._columns) for name in SPLITS[1:]}
        plan = self.split_plan(split, lengths)
        corpus = self.corpus(split)
        return LabelledBatches(corpus, self._columns, plan, self._numbers, self._inputs)

    def corpus(self, split: str) -> Corpus:
        """A split's examples."""
        return Corpus.open(self.path / split)

    def texts(self, split: str) -> list[list[str]]:
        """The texts of an evaluated split, as they were read."""
        with (self.path / split / "texts.jsonl").open(encoding="utf-8", newline="\n") as file:
            return [json.loads(line) for line in file]
