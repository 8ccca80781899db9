"""QANet's config: numbers of the paper as defaults (section 4.1.1, "Training details")."""

import dataclasses
from typing import Literal

from common_jax.config import MeshConfig, OptimizerConfig, PaperConfig, SourceConfig, TrainConfig
from common_jax.fields import require, require_choice


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The five layers of section 2.2, and what Table 5 takes out of them.

    Attributes:
      dim: d, the width of everything after the embeddings.
      num_heads: of self-attention.
      word_dim, char_dim: p1 and p2, of a word's vector and of a character's.
      word_rows: rows of a trained table of word vectors; 0 where fixed vectors are given.
      char_rows: rows of the characters' table, for padding and unknown ones too.
      characters: "convolution" runs over a word's characters before the maximum is taken (the
        paper's "convolution output"), "max" takes it of the vectors as they are.
      char_kernel: width of that convolution.
      embedding_std: standard deviation of the trained vectors at the start. The encoder adds
        position encodings to what comes of them, whose numbers are about 0.7 on average: much
        smaller vectors are learned from slowly.
      embedding_blocks, embedding_convs, embedding_kernel: the embedding encoder's blocks,
        convolutions in each, and their width.
      model_blocks, model_convs, model_kernel: the model encoder's.
      passes: how often the model encoder runs; the pointers see its last three outputs.
      positions: position encodings are added "once" to a stack's input, or at each "block".
      final_norm: each stack's output is normalised, as in the authors' code.
      feed_forward_factor: width of the feed-forward layer's inside, in d.
      convolution: "separable", "ordinary", or "none" for no convolution in the encoders (Table 5).
      self_attention: without it the encoders have none (Table 5).
      attention: the implementation, common_jax.attention's: "dense" keeps the weights of all heads
        for the backward pass.
      word_dropout, char_dropout, dropout: rates on word vectors, on characters' vectors and
        between layers.
      survival: p_L, the chance that the last sub-layer of a stack is kept in a training step.
      remat: keep only the blocks' inputs for the backward pass and compute the rest again.
    """

    dim: int = 128
    num_heads: int = 8
    word_dim: int = 300
    char_dim: int = 200
    word_rows: int = 0
    char_rows: int = 256
    characters: Literal["convolution", "max"] = "convolution"
    char_kernel: int = 5
    embedding_std: float = 0.5
    embedding_blocks: int = 1
    embedding_convs: int = 4
    embedding_kernel: int = 7
    model_blocks: int = 7
    model_convs: int = 2
    model_kernel: int = 5
    passes: int = 3
    positions: Literal["once", "block"] = "once"
    final_norm: bool = False
    feed_forward_factor: int = 1
    convolution: Literal["separable", "ordinary", "none"] = "separable"
    self_attention: bool = True
    attention: Literal["chunked", "dense"] = "chunked"
    word_dropout: float = 0.1
    char_dropout: float = 0.05
    dropout: float = 0.1
    survival: float = 0.9
    remat: bool = False

    def __post_init__(self):
        require_choice("model", self)
        for name in (
            *("dim", "num_heads", "word_dim", "char_dim", "embedding_blocks", "model_blocks"),
            *("embedding_convs", "model_convs", "feed_forward_factor"),
        ):
            require(getattr(self, name) >= 1, f"model.{name}={getattr(self, name)}: at least 1")
        require(
            self.dim % self.num_heads == 0,
            f"model.num_heads={self.num_heads}: must divide model.dim={self.dim}",
        )
        require(self.dim % 2 == 0, f"model.dim={self.dim}: must be even (sines and cosines)")
        for name in ("char_kernel", "embedding_kernel", "model_kernel"):
            size = getattr(self, name)
            require(size >= 1 and size % 2 == 1, f"model.{name}={size}: must be odd, at least 1")
        require(self.passes >= 3, f"model.passes={self.passes}: at least 3 (M0, M1 and M2)")
        require(
            self.word_rows == 0 or self.word_rows >= 3,
            f"model.word_rows={self.word_rows}: 0, or at least 3 (padding, unknown and a word)",
        )
        require(self.char_rows >= 3, f"model.char_rows={self.char_rows}: at least 3")
        for name in ("word_dropout", "char_dropout", "dropout"):
            require(0 <= getattr(self, name) < 1, f"model.{name}: a rate in [0, 1)")
        require(self.embedding_std > 0, f"model.embedding_std={self.embedding_std}: above 0")
        require(0 < self.survival <= 1, f"model.survival={self.survival}: a chance in (0, 1]")


@dataclasses.dataclass(frozen=True)
class DataConfig(SourceConfig):
    """Questions about passages, their words and batches.

    Attributes:
      form: of the files or of the dataset: "squad"; "triviaqa", the Wikipedia domain of the
        official release or of TFDS's trivia_qa/rc, whose spans are supplied at a distance;
        "triviaqa_lines", JSON lines of id, question, aliases and context.
      train, dev, test: files of `dir`, plain or .gz; for "tfds" splits of the dataset, "train" or
        "train[:1000]". An empty test is none. Where a SQuAD file has variants of questions
        (adversarial SQuAD's ids, `ID-VARIANT`), they are scored as such. TriviaQA's dev is scored
        a second time, as "dev_oracle", on windows that are known to hold an answer.
      examples, heldout: questions of the generated corpus for train, and for dev and test each.
      seed: of the generated corpus.
      vectors: a file of word vectors in GloVe's form (.txt, .gz, .zip), which stay fixed; those of
        the splits' words are kept, and `launch.predict --vectors` looks others up. Empty trains
        model.word_rows vectors from scratch.
      word_length: characters of a word that are read.
      context_length, question_length: longest training example in words; longer are dropped,
        counted and named. Evaluation drops nothing.
      answer_length: longest answer in words, in training (longer are dropped) and in decoding.
      window, stride: words of a longer context that are read at once in evaluation, and from one
        such window's start to the next one's.
      batch_size: questions of a training step.
      evaluation_positions: context words that are read together in evaluation.
      max_shapes: distinct batch shapes at most, hence compilations.
    """

    form: Literal["squad", "triviaqa", "triviaqa_lines"] = "squad"
    train: str = "train-v1.1.json"
    dev: str = "dev-v1.1.json"
    test: str = ""
    examples: int = 0
    heldout: int = 500
    seed: int = 0
    vectors: str = ""
    word_length: int = 16
    context_length: int = 400
    question_length: int = 50
    answer_length: int = 30
    window: int = 400
    stride: int = 200
    batch_size: int = 32
    evaluation_positions: int = 12_800
    max_shapes: int = 8

    def __post_init__(self):
        super().__post_init__()
        for name in (
            *("heldout", "word_length", "context_length", "question_length", "answer_length"),
            *("stride", "batch_size", "evaluation_positions", "max_shapes"),
        ):
            require(getattr(self, name) >= 1, f"data.{name}={getattr(self, name)}: at least 1")
        require(
            self.source != "generated" or self.examples >= 1,
            "data.examples: at least 1 if generated",
        )
        require(
            self.source != "generated" or self.form == "squad",
            f"data.form={self.form}: generated questions are of the form squad",
        )
        require(
            self.source != "tfds" or self.form != "triviaqa_lines",
            f"data.form={self.form}: a dataset is of the form squad or triviaqa",
        )
        for name in ("train", "dev"):
            what = "the file" if self.source == "files" else "the dataset's split"
            require(bool(getattr(self, name)), f"data.{name}: name {what}")
        require(
            self.stride + self.answer_length <= self.window,
            f"data.stride={self.stride}: windows of data.window={self.window} words must overlap "
            f"by data.answer_length={self.answer_length}, so that none cuts an answer",
        )


@dataclasses.dataclass(frozen=True)
class Config:
    """A run of QANet."""

    task: str = "qanet_jax.task:SpanExtraction"
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
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
            bool(self.data.vectors) != bool(self.model.word_rows),
            "data.vectors names fixed word vectors, or model.word_rows says how many are trained: "
            "set one of them",
        )
