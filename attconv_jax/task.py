"""The task of classifying texts and pairs, and of ranking sentences."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from attconv_jax.config import Config
from attconv_jax.data.dataset import YES, LabelledData, other_name
from attconv_jax.data.text import TEXTS
from attconv_jax.models.base import SPREAD, TABLES, Losses, Matcher
from attconv_jax.predictor import SentenceClassifier
from attconv_jax.score import score_labels, score_ranking
from common_jax.data.batches import Batch
from common_jax.inputs import columns_of, inputs_to_text
from common_jax.layers import DROPOUT
from common_jax.scopes import part
from common_jax.training.task import Params, Scores
from common_jax.training.worded import WordLevelTask

EXAMPLES = 5  # shown after an evaluation


class SentenceClassification(WordLevelTask[Config]):
    """Trains a matching model to label texts or pairs, or to rank sentences."""

    config_class = Config
    data: LabelledData
    comparison = "attconv_jax.compare:LabelComparison"
    predictor_class = SentenceClassifier

    def __init__(self, config: Config):
        super().__init__(config)
        self.ranking = config.data.format == "ranking"
        self.metric_names = ("precision_at_1",) if self.ranking else ("accuracy",)
        words, inputs = config.words, config.model.inputs
        self._columns = columns_of(inputs, TEXTS[: config.data.texts])
        self.data = LabelledData(config.data, words, inputs)
        dtype = jnp.dtype(config.train.compute_dtype)
        self.model = Matcher(config.model, words.rows, words.dim, len(config.data.names), dtype)

    def init(self, key: Array) -> Params:
        """Initial parameters; after `prepare` with the word vectors of a file, and random ones of
        the same standard deviation for other words."""
        texts = self.config.data.texts
        arrays = {name: jnp.ones((1, 2), jnp.int32) for name in TEXTS[:texts]}
        for name, text, one in self._columns:
            arrays[name] = jnp.zeros((1, *((2,) if text else ()), one.width), jnp.int32)
        params = self.model.init(key, arrays, train=False)["params"]
        if (begun := self.data.vectors() if self.data.prepared else None) is not None:
            numbers, vectors = begun
            for name in TABLES:
                if name in params:
                    table = nn.unbox(params[name]) * (vectors.std() / SPREAD)
                    table = table.at[numbers].set(vectors)
                    params[name] = nn.meta.replace_boxed(params[name], table)
        return params

    def loss(self, params: Params, batch: Batch, key: Array) -> dict[str, Float[Array, ""]]:
        """Sums of the cross-entropy, "nll", or for rankings of `_ranking_losses`, plus the model's
        further losses, for rankings of both sentences."""
        real = batch["index"] >= 0
        if self.ranking:
            logits, further = self._matched(params, self._both(batch), key)
            losses = self._ranking_losses(logits, real)
            further = {name: sum(jnp.split(each, 2)) for name, each in further.items()}
        else:
            logits, further = self._matched(params, batch, key)
            with part("loss"):
                losses = -jnp.take_along_axis(
                    nn.log_softmax(logits), batch["label"][:, None], axis=1
                )[:, 0]
        nll = jnp.sum(losses, where=real)
        sums_by_name = {name: jnp.sum(each, where=real) for name, each in further.items()}
        sums = {"loss": sum(sums_by_name.values(), nll), "nll": nll}
        assert not sums_by_name.keys() & {*sums, "weight"}, (
            f"names of losses: {', '.join(sums_by_name)}"
        )
        return {**sums, **sums_by_name, "weight": real.sum().astype(jnp.float32)}

    def _ranking_losses(
        self, logits: Float[Array, "C labels"], real: Bool[Array, "B"]
    ) -> Float[Array, "B"]:
        """Of each question: max(0, margin - p_answer + p_other) (section 4.2), and the mean
        cross-entropy of both sentences, as the config says."""
        config, losses = self.config, jnp.zeros(len(real))
        right, wrong = jnp.split(nn.softmax(logits)[:, YES], 2)
        if config.loss != "cross_entropy" and config.pairs == "question":
            losses += jnp.maximum(0.0, config.margin - right + wrong)
        elif config.loss != "cross_entropy":
            hinges = jnp.maximum(0.0, config.margin - right[:, None] + wrong[None])
            losses += jnp.mean(hinges, axis=1, where=real[None])
        if config.loss != "hinge":
            of_right, of_wrong = jnp.split(nn.log_softmax(logits), 2)
            losses -= (of_right[:, YES] + of_wrong[:, 1 - YES]) / 2
        return losses

    def _both(self, batch: Batch) -> dict[str, Array]:
        """The questions with answering sentences, followed by those with the others."""
        other = {"second": "other", **{c.name: other_name(c) for c in self._columns}}
        names = [*TEXTS, *(column.name for column in self._columns)]
        second = {name: batch.get(other.get(name, name), batch[name]) for name in names}
        return {name: jnp.concatenate([batch[name], second[name]]) for name in names}

    def predict_step(self, params: Params, batch: Batch, *, final: bool) -> dict[str, Array]:
        return {"probabilities": nn.softmax(self._matched(params, batch)[0])}

    def score(self, split: str, predictions: Mapping[str, np.ndarray]) -> Scores:
        corpus, likely = self.data.corpus(split), predictions["probabilities"]
        names, texts = self.config.data.names, self.data.texts(split)
        measure = score_ranking if self.ranking else score_labels
        metrics, notes, results = measure(corpus, likely, names)
        gold = corpus.column("label")
        lines = ["\t".join(("gold", "label", *names))]
        for label, chances in zip(gold, likely, strict=True):
            rounded = (f"{chance:.6f}" for chance in chances)
            lines.append("\t".join((names[label], names[chances.argmax()], *rounded)))
        indices = range(0, len(texts), max(1, len(texts) // EXAMPLES))
        examples = [
            "\n  ".join(texts[at]) + f"\n  -> {names[likely[at].argmax()]} = {names[gold[at]]}"
            for at in indices[:EXAMPLES]
        ]
        files = {".predictions.tsv": "\n".join(lines) + "\n"}
        return Scores(metrics, notes, files, examples, results)

    def evaluation_set(self, split: str) -> Any:
        gold = self.data.corpus(split).column("label").tolist()
        return [self.config.data.names, gold, self.data.texts(split)]

    @property
    def settings(self) -> SentenceClassifier.Settings:
        data = self.config.data
        inputs = inputs_to_text(self.config.model.inputs)
        return SentenceClassifier.Settings(
            ",".join(data.names), data.texts, data.eval_batch_tokens, inputs
        )

    @property
    def inputs(self) -> Mapping[str, tuple[str, Any]]:
        texts = TEXTS[: self.config.data.texts]
        dims = dict(zip(texts, ("B, T", "B, S"), strict=False))
        dims |= {column.name: column.dims(dims) for column in self._columns}
        return {name: (shape, np.int32) for name, shape in dims.items()}

    @property
    def training_inputs(self) -> Mapping[str, tuple[str, Any]]:
        if not self.ranking:
            return {**self.inputs, "label": ("B", np.int32)}
        columns = [column for column in self._columns if column.text != "first"]
        others = {column.name: other_name(column) for column in columns} | {"second": "other"}
        return {**self.inputs, **{name: self.inputs[of] for of, name in others.items()}}

    def serve(self, params: Params, arrays: Batch, **static: int) -> dict[str, Any]:
        """The "probabilities", [B, labels], and for each of the "layers" the attention maps: (index
        of the text, index of the text attended to, weights [B, T, S])."""
        logits, layers = self.model.apply({"params": params}, arrays, method=Matcher.explain)
        attention = [
            [(jnp.int32(a.text), jnp.int32(a.context), a.weights) for a in layer]
            for layer in layers
        ]
        return {"probabilities": nn.softmax(logits), "layers": attention}

    def example_input(self) -> str:
        return "\t".join(" ".join(text.split()) for text in self.data.texts("test")[0])

    def _matched(
        self, params: Params, batch: Mapping[str, Any], key: Array | None = None
    ) -> tuple[Float[Array, "B labels"], Losses]:
        """Logits and further losses; with dropout if there is a key."""
        rngs = None if key is None else {DROPOUT: key}
        return self.model.apply({"params": params}, batch, train=key is not None, rngs=rngs)
