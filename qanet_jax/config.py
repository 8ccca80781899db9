"""QANet's config: the paper's numbers as defaults (section 4.1.1, "Training details")."""

import dataclasses
import math
from pathlib import Path
from typing import ClassVar, Literal

from common_jax.config import MeshConfig, OptimizerConfig, SplitsConfig, TrainConfig
from common_jax.data.word_rule import WordLevelConfig
from common_jax.fields import DefaultChoice, require, share, size
from common_jax.io.files import require_distinct
from common_jax.paper_config import PaperConfig
from qanet_jax.models.base import ReaderModel, WordsConfig


@dataclasses.dataclass(frozen=True)
class DataConfig(SplitsConfig):
    """Questions about passages, their words and batches.

    Attributes:
      format: of the files or of the dataset: "squad"; "triviaqa", the Wikipedia domain of the
        official release or of TFDS's trivia_qa/rc, with distantly supervised spans;
        "triviaqa_lines", JSON lines of id, question, aliases and context.
      train, dev, test: files of `dir`, plain or compressed; of SQuAD's format also tables, or a
        pattern, "train-*.parquet" (docs/data.md). For "tfds" splits of the dataset, "train" or
        "train[:1000]". With an empty dev, passages with `holdout_size` questions are held out of
        train, a single file of SQuAD's format; with an empty test there is no test split. Each may
        join several files of SQuAD's format, "train.json,augmented.json". TriviaQA's dev is also
        scored on windows with an answer, as "dev_oracle".
      columns: of a table (`SplitsConfig`), as "context=passage,question=q,answers=answers.text";
        an id may be left out. Known are those of SQuAD and MRQA.
      adversarial: whether dev and test have variants of questions, with ids `ID-VARIANT`, of which
        the worst counts; the published files of adversarial SQuAD are known by their names.
      max_unreachable_answers: largest share of a split's questions whose gold answers are not whole
        words, so that no prediction matches them.
      weights: shares of the files of `train` in the examples drawn, "3,1"; a file of weight 0 is
        not read. An epoch has as many draws as there are examples; the examples of a file are
        repeated only after all of them were drawn. Empty: every example once in each epoch.
      vectors: a file of word vectors in GloVe's format (.txt, .gz, .zip), which are not trained.
        Vectors of the splits' words are stored; `launch.predict --vectors` reads others. Empty:
        words.rows vectors are trained from scratch.
      word_length: characters of a word, unless the model defines it.
      context_length, question_length: longest training example in words; longer ones are dropped,
        counted and reported. Evaluation drops nothing.
      answer_length: longest answer in words, in training (longer ones are dropped) and decoding.
      window, stride: length in words of the windows into which evaluation splits a longer context,
        and the distance of their starts.
      batch_size: questions of a training step.
      eval_batch_tokens: context words of a batch in evaluation.
      max_shapes: largest number of distinct batch shapes, hence of compilations.
    """

    not_prepared: ClassVar[frozenset[str]] = frozenset(
        {
            *("cache_dir", "adversarial", "max_unreachable_answers"),
            *("batch_size", "eval_batch_tokens", "max_shapes"),
        }
    )
    inference: ClassVar[str] = "qanet_jax.data.inference:infer"
    format: Literal["squad", "triviaqa", "triviaqa_lines"] = "squad"
    train: str = "train-v1.1.json"
    dev: str = "dev-v1.1.json"
    test: str = ""
    holdout_size: int = size(500)
    adversarial: bool = False
    max_unreachable_answers: float = share(0.1)
    weights: str = ""
    vectors: str = ""
    word_length: int = size(16)
    context_length: int = size(400)
    question_length: int = size(50)
    answer_length: int = size(30)
    window: int = 400
    stride: int = size(200)
    batch_size: int = size(32)
    eval_batch_tokens: int = size(12_800)
    max_shapes: int = size(8)

    def __post_init__(self):
        super().__post_init__()

        # What each source and format has.
        require(
            self.source != "generated" or self.format == "squad",
            f"data.format={self.format}: generated questions have the format squad",
        )
        require(
            self.source != "tfds" or self.format != "triviaqa_lines",
            f"data.format={self.format}: a dataset has the format squad or triviaqa",
        )
        what = "the file" if self.source == "files" else "the dataset's split"
        require(bool(self.train), f"data.train: name {what}")
        require(
            bool(self.dev) or (self.format == "squad" and len(self.names_of("train")) == 1),
            f"data.dev: name {what}; it is held out of a single file of data.format=squad only",
        )
        require(
            not self.adversarial or self.format == "squad",
            f"data.adversarial: not for data.format={self.format}",
        )

        # Files and their weights.
        for split in ("train", "dev", "test"):
            name = getattr(self, split)
            require(
                self.source != "files"
                or self.format == "squad"
                or not name
                or len(self.names_of(split)) == 1,
                f"data.{split}={name}: one file, unless data.format is squad",
            )
        require(
            not self.weights or self.source == "files",
            f"data.weights={self.weights}: needs data.source=files",
        )
        require(
            self.source != "files" or bool(self.train_files),
            f"data.weights={self.weights}: one of them must be above 0",
        )

        # No window cuts an answer.
        require(
            self.stride + self.answer_length <= self.window,
            f"data.stride={self.stride}: windows of data.window={self.window} words must overlap "
            f"by data.answer_length={self.answer_length}, so that none cuts an answer",
        )

    @property
    def column_fields(self) -> tuple[str, ...]:
        return ("id", "context", "question", "answers") if self.format == "squad" else ()

    @property
    def optional_fields(self) -> tuple[str, ...]:
        return ("id",)

    @property
    def holds_out_dev(self) -> bool:
        """Whether dev has no source of its own."""
        return self.source != "generated" and not self.dev

    @property
    def train_files(self) -> dict[str, float]:
        """The weight of each file of `train`, without those of weight 0."""
        names = self.names_of("train")
        try:
            weights = [float(text) for text in self.weights.split(",")] if self.weights else []
        except ValueError:
            weights = [math.nan]
        valid = all(0 <= weight < math.inf for weight in weights)
        require(valid, f"data.weights={self.weights}: numbers from 0, as in 3,1")
        require(
            not weights or len(weights) == len(names),
            f"data.weights={self.weights}: {len(weights)} weights for {len(names)} files of "
            "data.train",
        )
        require_distinct(([Path(self.dir, name)] for name in names), "data.train")
        weighted_files = zip(names, weights or [1.0] * len(names), strict=True)
        return {name: weight for name, weight in weighted_files if weight}


@dataclasses.dataclass(frozen=True)
class Config(WordLevelConfig):
    """Config of a reader's run.

    Attributes:
      task: the class that trains and scores, "package.module:Class".
    """

    task: str = "qanet_jax.task:SpanExtraction"
    words: WordsConfig = dataclasses.field(default_factory=WordsConfig)
    model: ReaderModel = dataclasses.field(
        default_factory=DefaultChoice("qanet_jax.models.qanet:QANet")
    )
    data: DataConfig = dataclasses.field(default_factory=lambda: DataConfig(dir="data"))
    optimizer: OptimizerConfig = dataclasses.field(
        default_factory=lambda: OptimizerConfig(
            learning_rate=1e-3,
            schedule="constant",
            warmup="exponential",
            warmup_steps=1000,
            b1=0.8,
            b2=0.999,
            eps=1e-7,
            clip_norm=5.0,
            l2=3e-7,
        )
    )
    train: TrainConfig = dataclasses.field(
        default_factory=lambda: TrainConfig(
            steps=150_000, ema_decay=0.9999, best_metric="f1", evaluate_every=2000
        )
    )
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    paper: PaperConfig = dataclasses.field(default_factory=PaperConfig)

    def __post_init__(self):
        require(
            bool(self.data.vectors) != bool(self.words.rows),
            "data.vectors is a file of fixed word vectors, words.rows the number of trained ones: "
            "set one of them",
        )

    @property
    def word_length(self) -> int:
        """Characters of a word in the model's input."""
        return self.model.word_length or self.data.word_length
