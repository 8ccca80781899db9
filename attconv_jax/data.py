"""Labelled texts for training and evaluation: prepared once, then batched.

`attconv_jax.sources` reads, `attconv_jax.prepare` builds the folder, this opens it.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from attconv_jax.prepare import TEXTS, VECTORS, Builder
from attconv_jax.sources import SPLITS
from common_jax.data.batches import Batch, Batches
from common_jax.data.corpus import Corpus, prepare
from common_jax.data.plan import BucketPlan, Plan, PlannedBatch, choose_shapes, epoch_random
from common_jax.errors import UserError
from common_jax.faults import summary
from common_jax.text.lexicon import Lexicon

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig, ModelConfig

YES = 1  # the label's number of a sentence that answers
_log = logging.getLogger(__name__)


class LabelledBatches(Batches):
    """Batches of texts: beside "index" [B] there are "first" and, of pairs, "second", int32
    [B, width], the words' numbers, and "label" int32 [B]."""

    def read(self, planned: PlannedBatch) -> Batch:
        """The arrays of one planned batch."""
        batch = super().read(planned)
        return batch | {"label": self.corpus.gather(batch["index"], "label", 1)[:, 0]}


class RankedBatches(Batches):
    """Batches of questions to train on: beside "index" [B] there are "first" int32 [B, width], the
    question, and "second" and "other", a sentence of its passage that answers it and one that does
    not, both drawn anew in each epoch. Passages without both kinds are left out.
    """

    def __init__(self, corpus: Corpus, config: "DataConfig", seed: int):
        everyone = np.arange(len(corpus))
        questions, labels = (corpus.gather(everyone, c, 1)[:, 0] for c in ("question", "label"))
        order = np.lexsort((labels != YES, questions))  # right ones first
        _, starts, counts = np.unique(questions[order], return_index=True, return_counts=True)
        right = np.add.reduceat(labels[order] == YES, starts)
        kept = (right > 0) & (right < counts)
        self._rows, self._starts = order, starts[kept]
        self._right, self._counts = right[kept], counts[kept]
        self.left_out = int((~kept).sum())
        longest = np.maximum.reduceat(corpus.lengths("second")[order, 0], starts)[kept]
        lengths = np.stack([corpus.lengths("first")[order[self._starts], 0], longest], axis=1)
        plan = _buckets(lengths, config, seed)
        super().__init__(corpus, TEXTS, plan)
        self._seed = seed

    def epoch(self, epoch: int) -> Sequence[Batch]:
        """The batches of one epoch, each read when it is indexed."""
        random = epoch_random(~self._seed, epoch)  # another stream than the plan's
        drawn = random.random((2, len(self._starts)))
        right = self._starts + (drawn[0] * self._right).astype(int)
        wrong = self._counts - self._right
        wrong = self._starts + self._right + (drawn[1] * wrong).astype(int)
        return _RankedEpoch(self, self.plan.epoch(epoch), self._rows[right], self._rows[wrong])


class _RankedEpoch(Sequence):
    def __init__(
        self,
        batches: RankedBatches,
        planned: Sequence[PlannedBatch],
        right: Int[np.ndarray, "n"],
        wrong: Int[np.ndarray, "n"],
    ):
        self._corpus, self._plan = batches.corpus, batches.plan
        self._planned, self._right, self._wrong = planned, right, wrong

    def __len__(self) -> int:
        return len(self._planned)

    def __getitem__(self, at):
        planned = self._planned[at]
        index = np.full(self._plan.rows[planned.shape], -1, np.int32)
        index[planned.places] = planned.examples
        first, second = self._plan.shapes[planned.shape].tolist()
        right, wrong = (np.where(index < 0, -1, rows[index]) for rows in (self._right, self._wrong))
        gather = self._corpus.gather
        return {
            "index": index,
            "first": gather(right, "first", first),
            "second": gather(right, "second", second),
            "other": gather(wrong, "second", second),
        }


class LabelledData:
    """One run's texts. Making it touches no file; `prepare` does, once for all runs alike.

    The lexicon is there after `prepare` or `read_vocabulary`, all else after `prepare`.
    """

    def __init__(self, config: "DataConfig", model: "ModelConfig"):
        self.config, self._model = config, model
        self._path: Path | None = None
        self._seconds: float | None = None
        self._lexicon: Lexicon | None = None

    def prepare(self) -> None:
        """Builds the prepared folder, or finds it; a second call does nothing.

        Raises:
          UserError: a missing or broken file, a bad example (data.on_bad_example), nothing left to
            train on, a cache folder that cannot be written, or other words than the run was trained
            on.
        """
        if self._path is not None:
            return
        builder = Builder(self.config, self._model)
        path = prepare(self.config.cache_dir, builder.fingerprint(), builder.build)
        known, self._lexicon = self._lexicon, Lexicon.load(path)
        if known is not None and not known.trained_as(self._lexicon):
            raise UserError(
                "data: other words than the run was trained on; give it the same data.train, "
                "data.vectors and model.word_rows"
            )
        self._path, self._seconds = path, builder.seconds

    def report(self) -> None:
        """Logs how much is prepared, how fast it was if it was now, and what was left out."""
        corpora = {split: self.corpus(split) for split in SPLITS}
        how = "found" if self._seconds is None else f"in {self._seconds:.0f} s prepared"
        total = sum(map(len, corpora.values()))
        _log.info("%s %s examples in %s", how, f"{total:,}", self.path)
        for split, corpus in corpora.items():
            if dropped := summary(corpus.meta["dropped"]):
                _log.warning("%s: kept %d examples, left out %s", split, len(corpus), dropped)
        if (begun := self.vectors()) is None:
            _log.info("no data.vectors: word vectors begin at random")
        else:
            _log.info("%s words begin with a vector of %s", f"{len(begun[0]):,}", self.config.vectors)

    @property
    def prepared(self) -> bool:
        """Whether `prepare` has been called."""
        return self._path is not None

    @property
    def lexicon(self) -> Lexicon:
        """The words."""
        if self._lexicon is None:
            raise RuntimeError("LabelledData: call prepare() or read_vocabulary() first")
        return self._lexicon

    def read_vocabulary(self, folder: Path) -> None:
        """Reads the lexicon that a run was trained with; a `prepare` that follows checks its own."""
        self._lexicon = Lexicon.load(folder)

    def vectors(self) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n D"]] | None:
        """Words' numbers and the vectors that they begin with; None without data.vectors."""
        file = self.path / VECTORS
        if not file.exists():
            return None
        with np.load(file) as arrays:
            return arrays["numbers"], arrays["vectors"]

    def train_batches(self, seed: int) -> Batches:
        """The training split, its order a function of `seed` and the epoch."""
        corpus = self.corpus("train")
        if self.config.form == "ranking":
            return RankedBatches(corpus, self.config, seed)
        columns = TEXTS[: self.config.texts]
        return LabelledBatches(corpus, columns, _buckets(corpus.lengths(*columns), self.config, seed))

    def split_batches(self, split: str) -> Batches:
        """Every example of an evaluated split once, by length."""
        columns = TEXTS[: self.config.texts]
        lengths = {name: self.corpus(name).lengths(*columns) for name in SPLITS[1:]}
        shapes = choose_shapes(np.concatenate([*lengths.values()]), self.config.max_shapes)
        plan = BucketPlan.ordered(lengths[split], shapes, self.config.evaluation_positions)
        return LabelledBatches(self.corpus(split), columns, plan)

    def corpus(self, split: str) -> Corpus:
        """A split's examples."""
        return Corpus.open(self.path / split)

    def texts(self, split: str) -> list[list[str]]:
        """The texts of an evaluated split, as they were read."""
        with (self.path / split / "texts.jsonl").open(encoding="utf-8", newline="\n") as file:
            return [json.loads(line) for line in file]

    @property
    def path(self) -> Path:
        """The prepared folder."""
        if self._path is None:
            raise RuntimeError("LabelledData: call prepare() first")
        return self._path


def _buckets(lengths: Int[np.ndarray, "n c"], config: "DataConfig", seed: int) -> Plan:
    shapes = choose_shapes(lengths, config.max_shapes)
    return BucketPlan(lengths, shapes, 0, seed, batch_size=config.batch_size)
