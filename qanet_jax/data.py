"""Questions and passages for training and evaluation: prepared once, then batched.

`qanet_jax.sources` reads, `qanet_jax.prepare` builds the folder, this opens it.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from common_jax.data.batches import Batch, Batches
from common_jax.data.corpus import Corpus, prepare
from common_jax.data.plan import BucketPlan, Plan, PlannedBatch, choose_shapes
from common_jax.data.stored import stored
from common_jax.errors import UserError
from common_jax.faults import summary
from common_jax.text.lexicon import Lexicon
from common_jax.text.squad import Squad
from qanet_jax.prepare import Builder, read_coverage, read_golds, read_texts
from qanet_jax.sources import Golds, Split, splits_of

if TYPE_CHECKING:
    from qanet_jax.config import DataConfig, ModelConfig

TEXTS = ("context", "question")
_log = logging.getLogger(__name__)


class SpanBatches(Batches):
    """Batches of questions with their passages.

    Beside "index" [B] a batch has, for both `TEXTS`, "TEXT" int32 [B, width], the words' numbers,
    "TEXT_characters" int32 [B, width, W], and where vectors are fixed "TEXT_vectors" float32
    [B, width, P]; in training "start" and "end" int32 [B], the answer's first and last word.
    """

    def __init__(self, split: "SplitCorpus", lexicon: Lexicon, plan: Plan):
        super().__init__(split.questions, TEXTS, plan)
        self._split, self._lexicon = split, lexicon

    def read(self, planned: PlannedBatch) -> Batch:
        """The arrays of one planned batch."""
        index = np.full(self.plan.rows[planned.shape], -1, np.int32)
        index[planned.places] = planned.examples
        batch, split = {"index": index}, self._split
        rows = {"context": split.passage_of(index), "question": index}
        corpora = {"context": split.passages, "question": split.questions}
        for text, width in zip(TEXTS, self.plan.shapes[planned.shape].tolist(), strict=True):
            words = corpora[text].gather(rows[text], "words", width)
            flat = corpora[text].gather(rows[text], "characters", width * split.word_length)
            batch[text] = words
            batch[f"{text}_characters"] = flat.reshape(*words.shape, split.word_length)
            if self._lexicon.table is not None:
                batch[f"{text}_vectors"] = self._lexicon.vectors(words)
        if split.answered:
            batch["start"], batch["end"] = split.questions.gather(index, "answer", 2).T
        return batch


class SplitCorpus:
    """One split of a prepared folder.

    Attributes:
      questions, passages: see `qanet_jax.prepare`.
      word_length: characters of a word.
      answered: whether the questions have answers to train on.
    """

    def __init__(self, folder: Path, word_length: int, *, answered: bool):
        self.questions = Corpus.open(folder / "questions")
        self.passages = Corpus.open(folder / "passages")
        self.word_length, self.answered = word_length, answered
        everyone = np.arange(len(self.questions))
        self._passages = self.questions.gather(everyone, "passage", 1)[:, 0]
        self.numbers = self.questions.gather(everyone, "number", 1)[:, 0]

    def passage_of(self, index: Int[np.ndarray, "B"]) -> Int[np.ndarray, "B"]:
        """The passage of each example; -1 has none."""
        return np.where(index >= 0, self._passages[index], -1)

    def lengths(self) -> Int[np.ndarray, "n 2"]:
        """Words of each example's passage and of its question."""
        contexts = self.passages.lengths("words")[self._passages]
        return np.maximum(1, np.concatenate([contexts, self.questions.lengths("words")], axis=1))

    def characters(self, example: int, first: int, last: int) -> tuple[int, int]:
        """Where words `first` to `last` of an example's passage start and end, in characters."""
        passage = int(self._passages[example])
        starts, ends = (self.passages.row(passage, name) for name in ("starts", "ends"))
        return int(starts[first]), int(ends[last])


class ReadingData:
    """One run's questions. Making it touches no file; `prepare` does, once for all runs alike.

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
            train on, a cache folder that cannot be written, or words or characters unlike those
            that the run was trained on.
        """
        if self._path is not None:
            return
        builder = Builder(self.config, self._model)
        path = prepare(self.config.cache_dir, builder.fingerprint(), builder.build)
        known, self._lexicon = self._lexicon, Lexicon.load(path)
        if known is not None and not known.trained_as(self._lexicon):
            raise UserError(
                "data: other words or characters than the run was trained on; give it the same "
                "data.train, data.vectors, model.word_rows and model.char_rows"
            )
        self._path, self._seconds = path, builder.seconds

    def report(self) -> None:
        """Logs how much is prepared, how fast it was if it was now, and what was left out."""
        splits = {split: self.split(split) for split in self.splits}
        counts = {name: len(np.unique(split.numbers)) for name, split in splits.items()}
        how = "found" if self._seconds is None else f"in {self._seconds:.0f} s prepared"
        _log.info("%s %s questions in %s", how, f"{sum(counts.values()):,}", self.path)
        for name, split in splits.items():
            if dropped := summary(split.questions.meta["dropped"]):
                _log.warning("%s: kept %d questions, left out %s", name, counts[name], dropped)
        if (vectors := read_coverage(self.path)) is None:
            _log.info("no data.vectors: word vectors are trained from scratch")
            return
        found = vectors["found"]
        words = sum(found.values())
        _log.info(
            "%.1f%% of %s distinct words have a vector in %s",
            *(100 * (1 - found["missing"] / max(1, words)), f"{words:,}", self.config.vectors),
        )
        if dropped := summary(vectors["dropped"]):
            _log.warning("%s: left out %s", self.config.vectors, dropped)

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits that there are."""
        return splits_of(self.config)

    @property
    def lexicon(self) -> Lexicon:
        """Words and characters."""
        if self._lexicon is None:
            raise RuntimeError("ReadingData: call prepare() or read_vocabulary() first")
        return self._lexicon

    def read_vocabulary(self, folder: Path) -> None:
        """Reads the lexicon that a run was trained with; a `prepare` that follows checks that its
        own, which may have more words with fixed vectors, gives what was trained the same numbers.
        """
        self._lexicon = Lexicon.load(folder)

    def train_batches(self, seed: int) -> SpanBatches:
        """The training split, its order a function of `seed` and the epoch."""
        split, most = self.split("train"), self.config.max_shapes
        lengths = split.lengths()
        find = lambda: {"shapes": choose_shapes(lengths, most)}
        shapes = stored(self.path / "train" / "plans", f"buckets-{most}", find)["shapes"]
        plan = BucketPlan(lengths, shapes, 0, seed, batch_size=self.config.batch_size)
        return SpanBatches(split, self.lexicon, plan)

    def split_batches(self, name: str) -> SpanBatches:
        """Every window of every question of an evaluated split once, by length."""
        split = self.split(name)
        both = np.concatenate([self.split(n).lengths() for n in self.splits if n != "train"])
        shapes = choose_shapes(both, self.config.max_shapes)
        plan = BucketPlan.ordered(split.lengths(), shapes, self.config.evaluation_positions)
        return SpanBatches(split, self.lexicon, plan)

    def texts(self, split: str) -> Squad:
        """The texts of an evaluated split."""
        return read_texts(self.path / split)

    def golds(self, split: str) -> Golds | None:
        """What an evaluated split of TriviaQA is scored by."""
        return read_golds(self.path / split)

    def split(self, name: str) -> SplitCorpus:
        """One split."""
        return SplitCorpus(self.path / name, self.config.word_length, answered=name == "train")

    @property
    def path(self) -> Path:
        """The prepared folder."""
        if self._path is None:
            raise RuntimeError("ReadingData: call prepare() first")
        return self._path
