"""The translation task: model, loss, corpus, search and score."""

import dataclasses
import functools
import itertools
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from common_jax.data.batches import Batch, Batches
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.layers import DROPOUT
from common_jax.scopes import scope
from common_jax.training.task import Params, Scores, Task, preparation_of
from csan_jax.config import Config, ModelConfig
from csan_jax.data import COLUMNS
from csan_jax.data.dataset import TranslationData
from csan_jax.data.subwords import to_text
from csan_jax.decode import Stage, beam_search
from csan_jax.initialization import as_released
from csan_jax.languages import has_moses, missing_analyser
from csan_jax.model import Transformer

EXAMPLES = 5  # translations shown after an evaluation

_log = logging.getLogger(__name__)


class Translation(Task[Config]):
    """Trains `csan_jax.model.Transformer` on parallel text."""

    config_class = Config
    unit = "tokens"
    final_search = True
    comparison = "csan_jax.compare:TranslationEvaluation"
    service = "csan_jax.service:TranslationService"

    def __init__(self, config: Config):
        super().__init__(config)
        self.metric_names = self._metric_names(())
        self.data = TranslationData(config.data)
        self.data.preparation = preparation_of(config)
        self.model = Transformer(_sized(config), jnp.dtype(config.train.compute_dtype))
        self._pieces = self.model.config.target_vocab_size  # fewer with unused rows

    def _metric_names(self, references: Sequence[str]) -> tuple[str, ...]:
        tokenized = has_moses(self.config.data.target_language, references)
        return ("sacrebleu", "chrf", *("tokenized_bleu",) * tokenized, "nll")

    def init(self, key: Array) -> Params:
        pieces = jnp.ones((1, 2), jnp.int32)
        params = self.model.init(key, pieces, pieces, train=False)["params"]
        released = self.config.model.initialization == "released"
        return as_released(params, key) if released else params

    def loss(self, params: Params, batch: Batch, key: Array) -> dict[str, Float[Array, ""]]:
        sides = (batch.get(f"{side}{what}") for what in ("", "_segments") for side in COLUMNS)
        logits = self.model.apply({"params": params}, *sides, train=True, rngs={DROPOUT: key})
        valid = batch["target"] != 0
        with scope("vocabulary"):
            loss, nll = cross_entropy(logits, batch["target"], self.config.label_smoothing)
            return {
                "loss": jnp.sum(loss, where=valid),
                "nll": jnp.sum(nll, where=valid),
                "weight": valid.sum().astype(jnp.float32),
            }

    def prepare(self, workers: int | None = None) -> None:
        self.data.prepare(workers)
        self._check_vocabulary()
        self.data.report()
        if "dev" in self.data.splits:
            self._set_metric_names()
        language = self.config.data.target_language
        if reason := missing_analyser(language):
            _log.warning("data.target_language=%s: sacrebleu is %s", language, reason)

    def _set_metric_names(self) -> None:
        """Those for the script of dev's references; raises UserError without the best metric."""
        self.metric_names = self._metric_names(self.data.references("dev"))
        best = self.config.train.best_metric
        require(
            best != "tokenized_bleu" or best in self.metric_names,
            f"train.best_metric={best}: the script of data.dev has no spaces; set sacrebleu",
        )

    def write_vocabulary(self, folder: Path) -> None:
        self.data.write_vocabulary(folder)

    def read_vocabulary(self, folder: Path) -> None:
        self.data.read_vocabulary(folder)
        self._check_vocabulary()

    def train_batches(self) -> Batches:
        return self.data.train_batches(self.config.train.seed)

    def split_batches(self, split: str) -> Batches:
        return self.data.split_batches(split, self.config.decode.batch_tokens)

    def predict_step(self, params: Params, batch: Batch, *, final: bool) -> dict[str, Array]:
        decode = self.config.decode
        options = self.decoding if final else {"beam_size": decode.dev_beam_size}
        pieces, score = (best[:, 0] for best in self.translate(params, batch["source"], **options))
        logits = self.model.apply({"params": params}, batch["source"], batch["target"], train=False)
        valid = batch["target"] != 0
        _, nll = cross_entropy(logits, batch["target"], 0.0)
        nll = jnp.sum(nll, axis=1, where=valid)
        return {"pieces": pieces, "score": score, "nll": nll, "weight": valid.sum(axis=1)}

    def search(self, *, final: bool) -> str:
        decode = self.config.decode
        size = decode.dev_beam_size
        if final:
            size = self.decoding.get("beam_size", decode.beam_size)
        return "greedy" if size == 1 else f"beam {size}"

    def translate(
        self,
        params: Params,
        source: Int[Array, "B S"],
        hypotheses: int = 1,
        *,
        compact: bool = False,
        **options: Any,
    ) -> tuple[Int[Array, "B n steps"], Float[Array, "B n"]]:
        """The best translations and their scores; empty ones for rows of padding.

        Args:
          compact: whether the search drops finished sentences: first at half of the rows, then at
            an eighth; never with few rows, where this takes longer to compile than it saves. On
            several devices this would move sentences between them.
          options: fields of the config's `decode` to change.
        """
        decode = dataclasses.replace(self.config.decode, **options)
        beam_size = decode.beam_size

        def apply(method: str, *inputs: Any, **options: Any) -> Any:
            return self.model.apply({"params": params}, *inputs, method=method, **options)

        # The source, encoded; a row of padding has no steps.
        valid = source != 0
        lengths = valid.sum(axis=1)
        limits = jnp.where(lengths > 0, lengths + decode.extra_length, 0)
        usual = source.shape[1] + min(8, decode.extra_length)
        longest = source.shape[1] + decode.extra_length
        cache, inputs, layers = apply(
            "start", apply("encode", source, train=False), valid, usual, beam_size
        )

        def step(cache: Any, inputs: Any, *state: Array) -> tuple[Array, Any]:
            logits, cache = apply("step", cache, inputs, layers, *state)
            has_unused = self._pieces < logits.shape[-1]
            return logits[..., : self._pieces] if has_unused else logits, cache

        # The search ends at the usual length unless some sentence goes on.
        rows = source.shape[0]
        stages = [Stage(rows, usual), Stage(rows, longest)]
        if compact and not (isinstance(rows, int) and rows <= 32):
            half = -(-rows // 2)
            eighth = -(-rows // 8)
            stages = [
                Stage(rows, usual, remaining=rows // 2),
                Stage(half, usual, remaining=rows // 8),
                Stage(eighth, longest),
            ]
        return beam_search(
            step, cache, inputs, limits, stages, beam_size, decode.length_penalty, hypotheses
        )

    def score(self, split: str, predictions: Mapping[str, np.ndarray]) -> Scores:
        from csan_jax import metrics as translation  # imports sacreBLEU

        hypotheses = to_text(self.data.target_subwords, predictions["pieces"])
        sources = self.data.sources(split)
        references = self.data.references(split)
        language = self.config.data.target_language
        scores = translation.score(hypotheses, references, language=language)

        # What the scores do not show by themselves.
        by_order = [
            bleu for bleu, _ in translation.ngrams(hypotheses, references, language=language)
        ]
        if scores.metrics["sacrebleu"] < 1 and scores.metrics["chrf"] > 50:
            _log.warning(
                "%s: BLEU %.2f is too low for chrF %.1f; check that the target's text is of "
                "data.target_language=%s, with spaces between words",
                split,
                scores.metrics["sacrebleu"],
                scores.metrics["chrf"],
                language,
            )
        missing = missing_analyser(language)

        nll = float(predictions["nll"].sum() / predictions["weight"].sum())
        return Scores(
            metrics={**scores.metrics, "nll": nll},
            notes={
                **{f"{name}_signature": s for name, s in scores.signatures.items()},
                **({"sacrebleu_tokenizer": missing} if missing else {}),
                "bleu_by_order": by_order,
            },
            predictions={"txt": "".join(f"{hypothesis}\n" for hypothesis in hypotheses)},
            examples=[
                f"{source}\n  -> {hypothesis}\n   = {reference}"
                for source, hypothesis, reference in itertools.islice(
                    zip(sources, hypotheses, references, strict=True), EXAMPLES
                )
            ],
            results={"length": predictions["weight"], "nll": predictions["nll"]},
            references=references,
            sources=sources,
            errors=lambda: translation.errors(sources, references, hypotheses),
        )

    @property
    def training_inputs(self) -> Mapping[str, tuple[str, Any]]:
        data = self.config.data
        if data.batching != "packed":
            return {"source": ("B, S", np.int32), "target": ("B, T", np.int32)}
        names = [f"{column}{suffix}" for column in COLUMNS for suffix in ("", "_segments")]
        return {name: (f"B, {data.row_tokens}", np.int32) for name in names}

    def count_units(self, batch: Batch) -> tuple[Any, int]:
        pieces = (batch["source"], batch["target"])
        return sum((a != 0).sum() for a in pieces), sum(a.size for a in pieces)

    def example_lines(self, split: str, count: int = 1) -> Sequence[str]:
        return self.data.sources(split)[:count]

    def _check_vocabulary(self) -> None:
        """Checks that every piece has an embedding, and the beams against the vocabulary."""
        # Every piece needs a row of the embedding.
        model = self.model.config
        for side, subwords, rows in (
            ("source", self.data.source_subwords, model.source_vocab_size),
            ("target", self.data.target_subwords, model.target_vocab_size),
        ):
            if subwords.size > rows:
                raise UserError(
                    f"model.{side}_vocab_size={rows}: the {side} vocabulary has {subwords.size} "
                    "pieces; set it to that number, or 0"
                )

        # A beam cannot hold more hypotheses than the first step has pieces.
        pieces = self.data.target_subwords.size
        decode = self.config.decode
        self._pieces = pieces
        for name in ("beam_size", "dev_beam_size"):
            if (size := getattr(decode, name)) > pieces:
                raise UserError(f"decode.{name}={size}: at most {pieces}, the target's pieces")


def _sized(config: Config) -> ModelConfig:
    """The model's fields, with vocabulary sizes of 0 replaced by the tokeniser's."""
    model = config.model
    source, target = config.data.vocab_sizes
    return dataclasses.replace(
        model,
        source_vocab_size=model.source_vocab_size or source,
        target_vocab_size=model.target_vocab_size or target,
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def cross_entropy(
    logits: Float[Array, "B T V"], targets: Int[Array, "B T"], smoothing: float
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """The smoothed and the unsmoothed loss of each position, in nats.

    The target distribution is (1 - smoothing) on the piece and `smoothing` uniform over the
    vocabulary (Szegedy et al. 2016, section 7), without materializing it. The gradient, of the
    smoothed loss only, is written out for a single pass over [B, T, V], a tenth of a step.
    """
    return _cross_entropy_forward(logits, targets, smoothing)[0]


def _cross_entropy_forward(logits: Array, targets: Array, smoothing: float):
    normaliser = jax.nn.logsumexp(logits, axis=-1)
    hit = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    nll = normaliser - hit
    loss = nll + smoothing * (hit - logits.mean(axis=-1)) if smoothing else nll
    return (loss, nll), (logits, targets, normaliser)


def _cross_entropy_backward(smoothing: float, saved: tuple, cotangents: tuple):
    logits, targets, normaliser = saved

    # softmax minus the target distribution
    size = logits.shape[-1]
    hit = jnp.arange(size)[None, None] == targets[..., None]
    expected = jnp.where(hit, 1 - smoothing + smoothing / size, smoothing / size)
    return cotangents[0][..., None] * (jnp.exp(logits - normaliser[..., None]) - expected), None


cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)
