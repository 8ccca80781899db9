"""AttentiveConvNet's config: the paper's numbers as defaults (section 4, "common setup"; 4.1)."""

import dataclasses
from typing import Any, Literal

from common_jax.config import MeshConfig, OptimizerConfig, PaperConfig, SourceConfig, TrainConfig
from common_jax.fields import require, require_choice

Features = Literal["states", "unigram", "phrase", "multigranular"]


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The layers of sections 3 and 4, as the advanced model between two texts has them.

    Attributes:
      word_dim: D, of a word's vector, which is trained.
      word_rows: rows of the table of words, for padding and unknown ones too.
      unknown_rows: those of them that unknown words share, by their hash, so that a name that
        stands in both texts is seen to; 0 makes them all one.
      dim: the hidden size, of attentive convolutions and of the head.
      layers: attentive convolutions, one upon the other.
      filter_width: of attentive convolution (Eq. 5), in words.
      attention: "inter" lets each text look at the other, "intra" at itself, "both" does both
        (the paper's "advanced & intra"); "none" is its bi-CNN, without what the next fields say.
      two_way: both texts look at the other; if not, only the first does.
      source, focus, beneficiary: what attention takes the states for (section 3.2): "states" as
        they are (all three of them, for the light model), "unigram" or "phrase" after a gated
        convolution of one or of `phrase_width` words, "multigranular" after both. Table 4's "w/o
        tri-hidden" has "unigram" as source and focus, and "w/o uni-hidden" has "phrase".
      phrase_width: words of a phrase.
      gate: the convolutions of these maps are gated (Eq. 9; Table 4's "w/o gate").
      energy: "dot" (Eq. 1), "bilinear" (Eq. 2) or "additive" (Eq. 3).
      slope: of the tanh of Eq. 6 at 0, the paper's being 1. Of many words the largest is in the
        flat part of that, where it tells little and learns little.
      author_compat: the softmax has no mask, as in the authors' code: padding, up to
        `author_length` words, has energies of 0 and takes its share.
      author_length: words to which the authors pad a text (SNLI 70, Yelp 180).
      dropout: rate on what each layer reads: words, pooled texts and hidden layers.
    """

    word_dim: int = 300
    word_rows: int = 40_000
    unknown_rows: int = 0
    dim: int = 300
    layers: int = 1
    filter_width: int = 3
    attention: Literal["inter", "intra", "both", "none"] = "inter"
    two_way: bool = True
    source: Features = "multigranular"
    focus: Features = "multigranular"
    beneficiary: Features = "unigram"
    phrase_width: int = 3
    gate: bool = True
    energy: Literal["dot", "bilinear", "additive"] = "dot"
    slope: float = 1.0
    author_compat: bool = False
    author_length: int = 70
    dropout: float = 0.1

    def __post_init__(self):
        require_choice("model", self)
        for name in ("word_dim", "dim", "layers", "author_length"):
            require(getattr(self, name) >= 1, f"model.{name}={getattr(self, name)}: at least 1")
        require(
            self.word_rows >= 3 + self.unknown_rows >= 3,
            f"model.word_rows={self.word_rows}: at least 3 (padding, unknown and a word) more than "
            f"model.unknown_rows={self.unknown_rows}, which is at least 0",
        )
        for name in ("filter_width", "phrase_width"):
            size = getattr(self, name)
            require(size >= 1 and size % 2 == 1, f"model.{name}={size}: must be odd, at least 1")
        require(
            self.energy != "dot" or self._wide(self.source) == self._wide(self.focus),
            f"model.energy=dot: model.source={self.source} and model.focus={self.focus} must be "
            "equally wide; take bilinear or additive",
        )
        require(self.slope > 0, f"model.slope={self.slope}: above 0")
        require(0 <= self.dropout < 1, "model.dropout: a rate in [0, 1)")

    @property
    def contexts(self) -> tuple[str, ...]:
        """The kinds of attention there are."""
        return {"none": (), "both": ("inter", "intra")}.get(self.attention, (self.attention,))

    @staticmethod
    def _wide(features: Features) -> bool:
        return features == "multigranular"


VARIANTS: dict[str, dict[str, Any]] = {
    "cnn": {"attention": "none"},
    "light": {"source": "states", "focus": "states", "beneficiary": "states"},
    "advanced": {},
    "advanced_intra": {"attention": "both"},
}


def variant_of(name: str, texts: int = 2) -> ModelConfig:
    """A system of Tables 3, 5 and 6 (`VARIANTS`); one text looks at itself.

    Raises:
      ValueError: for a name that is none of `VARIANTS`.
    """
    if name not in VARIANTS:
        raise ValueError(f"{name!r}: must be {' | '.join(VARIANTS)}")
    return ModelConfig(**(({"attention": "intra"} if texts == 1 else {}) | VARIANTS[name]))


@dataclasses.dataclass(frozen=True)
class DataConfig(SourceConfig):
    """Texts or pairs of texts with labels, their words and batches.

    Attributes:
      form: "pairs" with a label (textual entailment), "texts" with a label (reviews), or "ranking"
        of a passage's sentences by whether they answer a question, from files of SQuAD's form.
      train, dev, test: files of `dir`, plain or .gz, several joined by commas; for "tfds" splits of
        the dataset. An empty dev or test is held out of train, all examples of one premise, article
        or review together.
      heldout: examples of a dev or test that has no file; also of the generated corpus.
      examples: of the generated corpus for train; of files and datasets at most so many are taken
        for train, at random, and 0 takes all.
      labels: in the order of their numbers, separated by commas.
      ignored: labels of examples that are left out and counted, likewise.
      seed: of what is held out and of the generated corpus.
      balanced: of every label as many training examples as of the rarest.
      vectors: a file of word vectors in GloVe's form (.txt, .gz, .zip) to begin with; empty begins
        with random ones.
      length: longest text in words; an example with a longer one is a bad example.
      batch_size: examples of a training step.
      evaluation_positions: words that are read together in evaluation.
      max_shapes: distinct batch shapes at most, hence compilations.
    """

    form: Literal["pairs", "texts", "ranking"] = "pairs"
    train: str = ""
    dev: str = ""
    test: str = ""
    examples: int = 0
    heldout: int = 1000
    labels: str = "entailment,neutral,contradiction"
    ignored: str = "-"
    seed: int = 0
    balanced: bool = False
    vectors: str = ""
    length: int = 400
    batch_size: int = 50
    evaluation_positions: int = 12_800
    max_shapes: int = 4

    def __post_init__(self):
        super().__post_init__()
        for name in ("heldout", "length", "batch_size", "evaluation_positions", "max_shapes"):
            require(getattr(self, name) >= 1, f"data.{name}={getattr(self, name)}: at least 1")
        require(self.examples >= 0, f"data.examples={self.examples}: at least 0")
        require(
            not self.balanced or self.form != "ranking",
            "data.balanced: what is ranked has as many right sentences as there are",
        )
        if self.source == "generated":
            require(self.examples >= 1, "data.examples: at least 1 if generated")
            require(self.form == "pairs", f"data.form={self.form}: generated examples are pairs")
        else:
            what = "the files" if self.source == "files" else "the dataset's split"
            require(bool(self.train), f"data.train: name {what}")
            require(
                not self.examples or self.form != "ranking",
                f"data.examples={self.examples}: what is ranked is not sampled; set it to 0",
            )
        require(
            len(self.names) >= 2 and len(set(self.names)) == len(self.names) and all(self.names),
            f"data.labels={self.labels!r}: at least two different ones, separated by commas",
        )
        require(
            self.form != "ranking" or self.names == ("no", "yes"),
            f"data.labels={self.labels!r}: a sentence that is ranked is labelled no,yes",
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, in the order of their numbers."""
        return tuple(name.strip() for name in self.labels.split(","))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Labels of examples that are left out."""
        return tuple(name.strip() for name in self.ignored.split(",") if name.strip())

    @property
    def texts(self) -> int:
        """How many texts an example has."""
        return 1 if self.form == "texts" else 2


@dataclasses.dataclass(frozen=True)
class Config:
    """A run of AttentiveConvNet.

    Attributes:
      margin: by which the sentence that answers a question is to be likelier than another
        (section 4.2); for data.form=ranking alone.
    """

    task: str = "attconv_jax.task:Judgement"
    margin: float = 0.85
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    data: DataConfig = dataclasses.field(default_factory=lambda: DataConfig(dir="data"))
    optimizer: OptimizerConfig = dataclasses.field(
        default_factory=lambda: OptimizerConfig(
            name="adagrad",
            learning_rate=0.02,
            schedule="constant",
            warmup_steps=0,
            eps=1e-8,
            clip_norm=0.0,
        )
    )
    train: TrainConfig = dataclasses.field(
        default_factory=lambda: TrainConfig(best_metric="accuracy", steps_per_call=8)
    )
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    paper: PaperConfig = dataclasses.field(default_factory=PaperConfig)

    def __post_init__(self):
        require(
            self.data.texts == 2 or self.model.attention in ("intra", "none"),
            f"model.attention={self.model.attention}: a single text can only look at itself: "
            "intra or none",
        )
        require(self.margin > 0, f"margin={self.margin}: above 0")
