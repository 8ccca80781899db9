"""AttentiveConvNet's config: the paper's numbers as defaults (section 4, "common setup"; 4.1)."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from common_jax.config import MeshConfig, OptimizerConfig, SplitsConfig, TrainConfig
from common_jax.data.word_rule import WordLevelConfig
from common_jax.fields import (
    FORMER,
    DefaultChoice,
    Section,
    join_list,
    positive,
    require,
    size,
    split_list,
)
from common_jax.paper_config import PaperConfig
from common_jax.text.word_tokenizer import ENGLISH, UNICODE, Rule

if TYPE_CHECKING:
    from attconv_jax.models.base import PairModel


@dataclasses.dataclass(frozen=True)
class WordsConfig(Section):
    """Word embeddings of all matching models.

    Attributes:
      dim: D, of a word's vector.
      rows: of the embedding table, including padding and unknown words.
      unknown_rows: how many of them are hash buckets of unknown words, so that a name in both texts
        has one embedding; with 0, all unknown words share one embedding.
      trained: whether the vectors are trained; False fixes the initial ones.
      rule: word tokenizer (`common_jax.text.word_tokenizer`): "unicode" for all scripts, or
        "english", that of the published results.
    """

    section: ClassVar[str] = "words"
    dim: int = size(300)
    rows: int = 40_000
    unknown_rows: int = 0
    trained: bool = True
    rule: Rule = dataclasses.field(default=UNICODE, metadata={FORMER: ENGLISH})

    def __post_init__(self):
        super().__post_init__()
        require(
            self.rows >= 3 + self.unknown_rows >= 3,
            f"words.rows={self.rows}: at least 3 (padding, unknown and a word) more than "
            f"words.unknown_rows={self.unknown_rows}, which is at least 0",
        )


@dataclasses.dataclass(frozen=True)
class DataConfig(SplitsConfig):
    """Labelled texts or pairs of texts, and their batches.

    Attributes:
      format: "pairs" with a label (textual entailment), "texts" with a label (reviews), or
        "ranking" of a passage's sentences by whether they answer a question, from questions about
        passages (SQuAD's format, or tables), or from tables of questions and sentences.
      train, dev, test: files of `dir` (docs/data.md), plain or compressed, several joined by commas
        or by a pattern, "train-*.parquet"; for "tfds" splits of the dataset. An empty dev or test
        is held out of train by premise, article or review.
      columns: of a table (`SplitsConfig`): "label=1,first=2,second=3" for pairs, "label=1,text=2"
        for texts, "question=1,sentence=2,label=3" for ranking. Known are "label", "gold_label",
        "stars", "class", "rating" or "sentiment"; "text", "review" or "sentence"; "first",
        "premise", "sentence1" or "text1"; "second", "hypothesis", "sentence2" or "text2"; for
        ranking WikiQA's "question", "answer", "label", and "question", "sentence", with "label" or
        "answer".
      examples: number of generated training examples; for files and datasets, the size of a random
        sample of train; 0 uses all examples.
      labels: in the order of their ids, separated by commas; a label with a comma is in quotation
        marks, "a, b",c. If none is a number, tables may have the ids instead.
      escaped_breaks: whether a backslash and "n" in CSV are a line break, as in yelp_review_full.
      ignored_labels: labels, separated by commas, of examples that are skipped and counted; -1 in a
        table is "-". Examples with any other label, or none, are bad examples.
      stratified: whether held-out splits have each label as often as train has.
      balanced: samples equally many training examples of each label, as many as of the rarest.
      negatives: for rankings, the number of sentences that do not answer a question that are drawn
        for it in each epoch of training, without replacement; at most all of its passage.
      vectors: a file of initial word vectors in GloVe's format (.txt, .gz, .zip); empty for random
        ones.
      max_length: longest text in words; an example with a longer one is a bad example.
      batch_size: examples of a training step.
      eval_batch_tokens: words of a batch in evaluation.
      max_shapes: largest number of distinct batch shapes, hence of compilations.
    """

    not_prepared: ClassVar[frozenset[str]] = frozenset(
        {"cache_dir", "negatives", "batch_size", "eval_batch_tokens", "max_shapes"}
    )
    inference: ClassVar[str] = "attconv_jax.data.inference:infer"
    format: Literal["pairs", "texts", "ranking"] = "pairs"
    labels: str = "entailment,neutral,contradiction"
    escaped_breaks: bool = dataclasses.field(default=False, metadata={FORMER: True})
    ignored_labels: str = "-"
    stratified: bool = False
    balanced: bool = False
    examples: int = size(0, least=0)
    negatives: int = size(1)
    vectors: str = ""
    max_length: int = size(400)
    batch_size: int = size(50)
    eval_batch_tokens: int = size(12_800)
    max_shapes: int = size(4)

    def __post_init__(self):
        super().__post_init__()
        require(
            not self.balanced or self.format != "ranking",
            "data.balanced: not for data.format=ranking",
        )

        # Where the training examples are from.
        if self.source == "generated":
            require(
                self.format != "ranking",
                "data.format=ranking: generated examples are pairs or texts",
            )
        else:
            what = "the files" if self.source == "files" else "the dataset's split"
            require(bool(self.train), f"data.train: name {what}")
            require(
                not self.examples or self.format != "ranking",
                f"data.examples={self.examples}: rankings are not sampled; set it to 0",
            )

        # The labels, and what only rankings have.
        require(
            len(self.names) >= 2 and len(set(self.names)) == len(self.names) and all(self.names),
            f"data.labels={self.labels!r}: at least two different ones, separated by commas",
        )
        require(
            not {*self.names} & {*self.ignored_names},
            f"data.ignored_labels={self.ignored_labels!r}: some are in data.labels",
        )
        require(
            self.format == "ranking" or self.negatives == 1,
            f"data.negatives={self.negatives}: only for data.format=ranking",
        )
        require(
            self.format != "ranking" or self.names == ("no", "yes"),
            f"data.labels={self.labels!r}: must be no,yes for data.format=ranking",
        )

    def unused(self) -> dict[str, str]:
        unused = {k: v for k, v in super().unused().items() if k != "examples"}  # a sample of train
        return unused | ({} if self.source == "files" else {"escaped_breaks": "data.source=files"})

    @property
    def column_fields(self) -> tuple[str, ...]:
        fields = {"texts": ("label", "text"), "pairs": ("label", "first", "second")}
        return fields.get(self.format, ("question", "sentence", "label"))

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, in the order of their ids."""
        return tuple(split_list(self.labels, "data.labels"))

    @property
    def ignored_names(self) -> tuple[str, ...]:
        """Labels of examples that are skipped."""
        return tuple(filter(None, split_list(self.ignored_labels, "data.ignored_labels")))

    @property
    def texts(self) -> int:
        """The number of texts of an example."""
        return 1 if self.format == "texts" else 2


@dataclasses.dataclass(frozen=True)
class Config(WordLevelConfig, Section):
    """Config of an AttentiveConvNet run.

    Attributes:
      task: the class that trains and scores, "package.module:Class".
      margin: of the ranking loss, by which an answering sentence should be more probable than
        another (section 4.2). `margin`, `loss` and `pairs` are only for data.format=ranking.
      loss: the hinge loss of section 4.2, the cross-entropy of the sentences' labels, or, as in the
        authors' code, their sum.
      pairs: in the hinge loss, each question's answer is compared with the other sentences of its
        passage, or, as in the authors' code, with those of the batch.
    """

    task: str = "attconv_jax.task:SentenceClassification"
    margin: float = positive(0.85)
    loss: Literal["hinge", "cross_entropy", "both"] = "hinge"
    pairs: Literal["question", "batch"] = "question"
    words: WordsConfig = dataclasses.field(default_factory=WordsConfig)
    model: "PairModel" = dataclasses.field(
        default_factory=DefaultChoice(
            "attconv_jax.models.attentive_convolution:AttentiveConvolution"
        )
    )
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
        super().__post_init__()
        self.model.require_texts(self.data.texts)

        # Fields of the hinge loss, and of rankings.
        require(
            self.pairs == "question" or self.train.accumulate == 1,
            f"train.accumulate={self.train.accumulate}: pairs={self.pairs} compares all of a batch",
        )
        for name in ("margin", "loss", "pairs"):
            value = getattr(self, name)
            default = getattr(Config, name)
            require(
                self.data.format == "ranking" or value == default,
                f"{name}={value}: only for data.format=ranking",
            )
            require(
                self.loss != "cross_entropy" or name == "loss" or value == default,
                f"{name}={value}: of the hinge loss, not for loss=cross_entropy",
            )

    @classmethod
    def upgraded(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Sets `columns` to those that versions without this field read; puts labels of versions
        without quotation marks in lists into such marks."""
        data = values.get("data")
        if not isinstance(data, Mapping):
            return dict(values)
        columns = "1,2" if data.get("format") == "texts" else "1,2,3"
        data = {**({} if data.get("format") == "ranking" else {"columns": columns}), **data}
        for key in ("labels", "ignored_labels"):
            if '"' in str(data.get(key)) and "escaped_breaks" not in data:
                data[key] = join_list(str(data[key]).split(","))
        return {**values, "data": data}
