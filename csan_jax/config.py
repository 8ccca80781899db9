"""CSAN's config: fields, types, defaults and limits."""

import copy
import dataclasses
import functools
import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from common_jax.config import (
    MeshConfig,
    OptimizerConfig,
    SplitsConfig,
    TrainConfig,
)
from common_jax.data.table_format import ENDINGS
from common_jax.data.word_rule import replaces_train
from common_jax.fields import FORMER, DefaultChoice, Section, rate, require, share, size
from common_jax.io.files import ending, exists, file_endings
from common_jax.io.paths import expand_user
from common_jax.io.storage import local_copy
from common_jax.paper_config import PaperConfig

if TYPE_CHECKING:
    from csan_jax.attention.base import AttentionSettings, DecoderAttention, EncoderAttention

_LANGUAGES = ("source_language", "target_language")
_CODE = "[a-z]{2}([-_][A-Za-z]+)*"  # of a language, as the name of a column
_LANGUAGE_FLAGS = "--config.data.source_language=en --config.data.target_language=de"


@dataclasses.dataclass(frozen=True)
class ModelConfig(Section):
    """The Transformer (Vaswani et al. 2017), and the self-attention of its layers.

    Attributes:
      dim: the model's width d.
      mlp_dim: the feed-forward layers' inner width.
      num_heads: H; divides `dim`.
      encoder_layers, decoder_layers: numbers of layers.
      encoder_attention: self-attention of the encoder's lowest layers.
      decoder_attention: the decoder's self-attention.
      norm: layer normalisation before each sub-layer, or after it.
      sinusoids: adds position encodings to the embeddings.
      initialization: ours, or the released code's (csan_jax.initialization).
      tie: which embeddings are shared: "none", "target" (target and output) or "all" (also source).
      source_vocab_size, target_vocab_size: rows of the embeddings; 0 is the tokeniser's size.
        Rows without a piece, as for a size that devices divide, are never generated.
      dropout, attention_dropout, relu_dropout: rates on each sub-layer's output and the embeddings,
        on the attention weights, and inside the feed-forward layer.
      attention: the implementation of common_jax.attention.
      unroll: unrolls the loop over layers, which compiles more slowly and runs faster; "auto": on
        accelerators.
      remat: recomputes the layers' activations in the backward pass: less memory, more time.
    """

    section: ClassVar[str] = "model"
    dim: int = size(512)
    mlp_dim: int = size(2048)
    num_heads: int = size(8)
    encoder_layers: int = size(6)
    decoder_layers: int = size(6)
    encoder_attention: "EncoderAttention" = dataclasses.field(
        default_factory=DefaultChoice("csan_jax.attention.area:Area")
    )
    decoder_attention: "DecoderAttention" = dataclasses.field(
        default_factory=DefaultChoice("csan_jax.attention.causal:Causal")
    )
    norm: Literal["pre", "post"] = "pre"
    sinusoids: bool = True
    initialization: Literal["glorot", "released"] = "glorot"
    tie: Literal["none", "target", "all"] = "none"
    source_vocab_size: int = size(0, least=0)
    target_vocab_size: int = size(0, least=0)
    dropout: float = rate(0.1)
    attention_dropout: float = rate(0.0)
    relu_dropout: float = rate(0.0)
    attention: Literal["auto", "dense", "banded"] = "auto"
    unroll: Literal["auto", True, False] = "auto"
    remat: bool = False

    def __post_init__(self):
        super().__post_init__()
        require(
            self.dim % self.num_heads == 0,
            f"model.num_heads={self.num_heads}: must divide model.dim={self.dim}",
        )
        require(self.dim % 2 == 0, f"model.dim={self.dim}: must be even (sines and cosines)")
        if self.tie == "all":
            require(
                self.source_vocab_size == self.target_vocab_size,
                "model.tie=all: source_vocab_size and target_vocab_size must be equal",
            )

        # The attention must fit the heads and their size.
        settings = self.attention_settings()
        self.encoder_attention.check(settings)
        self.decoder_attention.check(settings)

    def unused(self) -> dict[str, str]:
        """Fields without effect given the others, each with the setting that gives it one."""
        unused = self.encoder_attention.unused()
        return {f"encoder_attention.{field}": setting for field, setting in unused.items()}

    def attention_settings(self, dtype: Any = None) -> "AttentionSettings":
        """The fields that attentions read; `dtype` is that of activations."""
        from csan_jax.attention.base import AttentionSettings

        names = ("dim", "num_heads", "encoder_layers", "norm", "dropout", "attention_dropout")
        shared = {name: getattr(self, name) for name in names}
        return AttentionSettings(**shared, implementation=self.attention, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class DataConfig(SplitsConfig):
    """Parallel text, its subwords and its batches.

    Attributes:
      source_language, target_language: codes such as "en"; also the files' last suffixes. The
        target's selects the tokenization of scores.
      train, dev, test: stems of parallel files in `dir` (stem.en and stem.de), or tables
        (docs/data.md), plain or compressed, several joined by commas, "a.tsv,b.tsv", or by a
        pattern, "train-*.parquet". For "tfds" splits of the dataset, "train" or "train[:1000]". An
        empty dev or test is held out of train (`held_out_by`).
      columns: a table's source and target column (`SplitsConfig`): names "source=en,target=de",
        paths "source=translation.en,target=translation.de", or numbers "1,2", from the end of each
        row "-2,-1". Detected without: "source", "src", `source_language` or its path in
        "translation", with "target", "tgt", `target_language` or its path.
      separator: between a table's columns; with any other than a tab, all files are tables. A .csv
        file's comma, semicolon or tab is detected.
      moses_escapes: "undo" replaces the escapes of Moses's tokenizer, &apos; &quot; &lt; &gt; &#91;
        &#93; &#124; and &amp;, by their characters, on both sides.
      white_space: "blanks" reads tabs, CR, NBSP, U+2028 and other white space in a sentence as
        blanks, in training, prediction and scoring; "keep" is the rule of the published results.
      holdout_size: number of source sentences held out of train for an empty dev or test.
      held_out_by: "both" sides: train has neither a source nor a target of the held-out pairs;
        "source" is the rule of the published results.
      joint_vocabulary: whether both sides share one subword model.
      vocab_size: SentencePiece BPE pieces of each model.
      source_vocab_size, target_vocab_size: override `vocab_size` for one side, if not 0.
      max_length: longest sentence in pieces, including the end symbol; longer training pairs are
        dropped, counted and reported; evaluation neither drops nor truncates.
      max_equal_pairs: largest share of a split's pairs whose two sides are equal.
      batch_tokens: size of the global batch: rows x the longer padded side.
      max_shapes: largest number of distinct batch shapes, hence of compilations.
      batching: "buckets" batches pairs of similar lengths, one in each row; "packed" puts several
        pairs into a row, in one shape (csan_jax.data.packing).
      row_tokens: width of a packed row, on both sides.
    """

    not_prepared: ClassVar[frozenset[str]] = frozenset(
        {"cache_dir", "max_equal_pairs", "batch_tokens", "max_shapes", "batching", "row_tokens"}
    )
    compared_if_used: ClassVar[frozenset[str]] = frozenset({"held_out_by"})
    inference: ClassVar[str] = "csan_jax.data.inference:infer"
    source_language: str = ""
    target_language: str = ""
    train: str = "train"
    dev: str = "dev"
    test: str = "test"
    separator: str = "\t"
    moses_escapes: Literal["keep", "undo"] = "keep"
    white_space: Literal["blanks", "keep"] = "blanks"
    holdout_size: int = size(2000)
    held_out_by: Literal["both", "source"] = dataclasses.field(
        default="both", metadata={FORMER: "source"}
    )
    joint_vocabulary: bool = True
    vocab_size: int = size(32_000)
    source_vocab_size: int = size(0, least=0)
    target_vocab_size: int = size(0, least=0)
    max_length: int = size(256)
    max_equal_pairs: float = share(0.5)
    batch_tokens: int = size(4096)
    max_shapes: int = size(8)
    batching: Literal["buckets", "packed"] = "buckets"
    row_tokens: int = 128

    def __post_init__(self):
        super().__post_init__()
        source, target = self.vocab_sizes
        require(
            source == target or not self.joint_vocabulary,
            f"data.source_vocab_size={source} and target_vocab_size={target}: must be equal, or "
            "data.joint_vocabulary=False",
        )

        # A batch, and a packed row, hold the longest sentence.
        require(
            self.batch_tokens >= self.max_length,
            f"data.batch_tokens={self.batch_tokens}: must hold one sentence of "
            f"data.max_length={self.max_length}",
        )
        require(
            self.batching == "buckets" or self.max_length <= self.row_tokens <= self.batch_tokens,
            f"data.row_tokens={self.row_tokens}: a packed row must hold one sentence of "
            f"data.max_length={self.max_length}, within data.batch_tokens={self.batch_tokens}",
        )
        require(bool(self.separator), "data.separator: at least one character")

    def unused(self) -> dict[str, str]:
        unused = super().unused()
        if self.source == "generated":
            unused |= dict.fromkeys(("separator", "held_out_by"), "data.source=files")
        elif self.dev and self.test:
            unused["held_out_by"] = "data.test="
        return unused

    @property
    def column_fields(self) -> tuple[str, ...]:
        return "source", "target"

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Numbers of pieces of the source's and of the target's subword model."""
        return self.source_vocab_size or self.vocab_size, self.target_vocab_size or self.vocab_size

    @functools.cached_property
    def _folder(self) -> Path:
        return local_copy(expand_user(self.dir, "data.dir"), "data.dir")

    def is_table(self, name: str) -> bool:
        """Whether a name in `train`, `dev` or `test` is a table's, and not a stem of parallel
        files."""
        if self.separator != "\t" or ending(name) in ENDINGS:
            return True
        folder = self._folder
        parallel = f"{name}.{self.source_language}"
        return exists(folder, name) and not exists(folder, parallel)

    def with_languages(self, overridden: Collection[str]) -> "DataConfig":
        """This section with the languages of its corpus; a config file's are those of its own.

        For another table both must be set, unless `columns` has names such as "en" and "de-AT".
        With parallel files `train.de` and `train.en` alone, setting one language sets the other.

        Args:
          overridden: full names of the fields that were set on the command line.

        Raises:
          UserError: for unknown languages, or generated pairs that are not English and German.
        """
        given = [name for name in _LANGUAGES if f"data.{name}" in overridden]
        pair = self.source_language, self.target_language
        if self.source == "generated":
            generated = f"data.source=generated: pairs of English and German; set {_LANGUAGE_FLAGS}"
            require(pair == ("en", "de"), generated)
        if self.source == "generated" or len(given) == 2:
            return self

        # Parallel files: one set language of two names the other.
        name = self.names_of("train")[0]
        table = self.source == "files" and self.is_table(name)
        parallel = self.source == "files" and not table
        endings = file_endings(self._folder / name) if parallel else []
        if len(endings) == 2 and len(given) == 1 and getattr(self, given[0]) in endings:
            (other,) = {*_LANGUAGES} - {*given}
            (ending,) = {*endings} - {getattr(self, given[0])}
            changed: dict[str, Any] = {other: ending}
            return dataclasses.replace(self, **changed)

        # A table whose columns are language codes names both.
        columns = [str(column).rpartition(".")[2] for column in self.columns_by_field.values()]
        if table and columns and not given and all(re.fullmatch(_CODE, name) for name in columns):
            return dataclasses.replace(self, source_language=columns[0], target_language=columns[1])

        # Else the config's languages are the corpus's, if nothing shows the contrary.
        known = all(pair) and (pair[0] != pair[1] or not given)
        if len(endings) > 1:
            known = known and {*pair} <= {*endings}
        elif table:
            corpus = {"data.train", "data.columns", "data.separator"}
            known = known and not corpus & {*overridden}
        files = ", ".join(f"{name}.{ending}" for ending in endings)
        where = f"data.train={self.train}" + (f" ({files})" if files else "")
        require(known, f"{where}: name its languages, as in {_LANGUAGE_FLAGS}")
        return self


@dataclasses.dataclass(frozen=True)
class DecodeConfig(Section):
    """Beam search.

    Attributes:
      beam_size: hypotheses for test and prediction; 1 is greedy.
      dev_beam_size: hypotheses for validations during training.
      length_penalty: alpha of ((5 + length) / 6)^alpha (Wu et al. 2016).
      extra_length: pieces that a translation may have more than its source.
      batch_tokens: source positions decoded together.
    """

    section: ClassVar[str] = "decode"
    beam_size: int = size(4)
    dev_beam_size: int = size(1)
    length_penalty: float = 0.6
    extra_length: int = size(50)
    batch_tokens: int = size(2048)

    def __post_init__(self):
        super().__post_init__()
        require(
            0 <= self.length_penalty < math.inf,
            f"decode.length_penalty={self.length_penalty}: not negative, and finite",
        )


@dataclasses.dataclass(frozen=True)
class Config(Section):
    """Config of a CSAN run.

    Attributes:
      task: the class that trains and scores, "package.module:Class".
      label_smoothing: share of each target's probability that is spread over the vocabulary.
    """

    short_keys: ClassVar[Mapping[str, str]] = {
        f"model.{name}": f"model.encoder_attention.{name}"
        for name in ("local_layers", "token_window", "head_window", "head_edge")
    }
    task: str = "csan_jax.task:Translation"
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    data: DataConfig = dataclasses.field(default_factory=lambda: DataConfig(dir="data"))
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    label_smoothing: float = rate(0.1)
    train: TrainConfig = dataclasses.field(
        default_factory=lambda: TrainConfig(best_metric="sacrebleu")
    )
    decode: DecodeConfig = dataclasses.field(default_factory=DecodeConfig)
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    paper: PaperConfig = dataclasses.field(default_factory=PaperConfig)

    def __post_init__(self):
        super().__post_init__()
        if self.model.tie == "all":
            require(self.data.joint_vocabulary, "model.tie=all: needs data.joint_vocabulary=True")

    @classmethod
    def upgraded(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Adds `data.white_space` to configs of earlier versions, which kept it; they call the
        ordinary convolution "full"."""
        upgraded = copy.deepcopy(dict(values))
        if isinstance(data := upgraded.get("data", {}), Mapping):
            upgraded["data"] = {"white_space": "keep", **data}
        model = upgraded.get("model")
        attention = model.get("encoder_attention") if isinstance(model, Mapping) else None
        former = {"name": "csan_jax.attention.convolution:Convolutions", "kind": "full"}
        if isinstance(attention, dict) and former.items() <= attention.items():
            attention["kind"] = "ordinary"
        return upgraded

    def completed(self, overridden: Mapping[str, Any]) -> "Config":
        """The config with the languages of a corpus that was set on the command line, and other
        white space read as blanks if all its files were."""
        data = self.data
        if "data.inferred" in overridden or not {*_LANGUAGES, "columns"} <= {*data.to_infer}:
            data = data.with_languages(overridden)
        if "data.white_space" not in overridden and replaces_train(self, overridden):
            data = dataclasses.replace(data, white_space="blanks")
        return dataclasses.replace(self, data=data)
