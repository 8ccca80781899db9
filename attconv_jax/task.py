"""Labels of texts and of pairs, and ranked sentences, as a task."""

from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attconv_jax.config import Config
from attconv_jax.data.dataset import YES, LabelledData
from attconv_jax.data.text import TEXTS
from attconv_jax.models.attentive_convolution import SPREAD, AttentiveConvNet
from attconv_jax.predictor import Judge
from attconv_jax.score import score_labels, score_ranking
from common_jax.data.batches import Batch
from common_jax.layers import DROPOUT
from common_jax.scopes import part
from common_jax.training.task import Params, Scored
from common_jax.training.worded import WordedTask

EXAMPLES = 5  # shown after an evaluation


class Judgement(WordedTask[Config]):
    """Trains a matching model to label texts, or pairs of them, or to rank sentences."""

    config_class = Config
    data: LabelledData
    comparison = "attconv_jax.compare:LabelComparison"
    predictor_class = Judge

    def __init__(self, config: Config):
        super().__init__(config)
        self.ranking = config.data.form == "ranking"
        self.metric_names = ("precision_at_1",) if self.ranking else ("accuracy",)
        self.data = LabelledData(config.data, config.model)
        dtype = jnp.dtype(config.train.compute_dtype)
        self.model = AttentiveConvNet(config.model, len(config.data.names), dtype)

    def init(self, key: Array) -> Params:
        """Fresh parameters; after `prepare` words begin with the vectors that a file has, and what
        it lacks with random ones as widely spread."""
        texts = [jnp.ones((1, 2), jnp.int32)] * self.config.data.texts
        params = self.model.init(key, texts, train=False)["params"]
        if (begun := self.data.vectors() if self.data.prepared else None) is not None:
            numbers, vectors = begun
            table = nn.unbox(params["words"]) * (vectors.std() / SPREAD)
            table = table.at[numbers].set(vectors)
            params["words"] = nn.meta.replace_boxed(params["words"], table)
        return params

    def loss(self, params: Params, batch: Batch, key: Array) -> dict[str, Float[Array, ""]]:
        """The label's cross-entropy; or, of ranked sentences, how much less than `margin` the one
        that answers is likelier than the other (section 4.2). Summed."""
        real = batch["index"] >= 0
        if self.ranking:
            both = [jnp.concatenate([batch["first"]] * 2)]
            both.append(jnp.concatenate([batch["second"], batch["other"]]))
            likely = nn.softmax(self._logits(params, both, key))[:, YES]
            right, wrong = jnp.split(likely, 2)
            losses = jnp.maximum(0.0, self.config.margin - right + wrong)
        else:
            logits = self._logits(params, self._texts(batch), key)
            with part("loss"):
                losses = -jnp.take_along_axis(
                    nn.log_softmax(logits), batch["label"][:, None], axis=1
                )[:, 0]
        loss = jnp.sum(losses, where=real)
        return {"loss": loss, "nll": loss, "weight": real.sum().astype(jnp.float32)}

    def predict_step(self, params: Params, batch: Batch, *, final: bool) -> dict[str, Array]:
        return {"probabilities": nn.softmax(self._logits(params, self._texts(batch)))}

    def score(self, split: str, predictions: Mapping[str, np.ndarray]) -> Scored:
        corpus, likely = self.data.corpus(split), predictions["probabilities"]
        names, texts = self.config.data.names, self.data.texts(split)
        measure = score_ranking if self.ranking else score_labels
        metrics, notes, results = measure(corpus, likely, names)
        gold = corpus.column("label")
        lines = ["\t".join(("gold", "label", *names))]
        for label, chances in zip(gold, likely, strict=True):
            rounded = (f"{chance:.6f}" for chance in chances)
            lines.append("\t".join((names[label], names[chances.argmax()], *rounded)))
        shown = range(0, len(texts), max(1, len(texts) // EXAMPLES))
        examples = [
            "\n  ".join(texts[at]) + f"\n  -> {names[likely[at].argmax()]} = {names[gold[at]]}"
            for at in shown[:EXAMPLES]
        ]
        files = {".predictions.tsv": "\n".join(lines) + "\n"}
        return Scored(metrics, notes, files, examples, results)

    def evaluated(self, split: str) -> Any:
        gold = self.data.corpus(split).column("label").tolist()
        return [self.config.data.names, gold, self.data.texts(split)]

    @property
    def settings(self) -> Judge.Settings:
        data = self.config.data
        return Judge.Settings(",".join(data.names), data.texts, data.evaluation_positions)

    @property
    def inputs(self) -> Mapping[str, tuple[str, Any]]:
        shapes = dict(zip(TEXTS, ("B, T", "B, S"), strict=True))
        return {name: (shapes[name], np.int32) for name in TEXTS[: self.config.data.texts]}

    def answer(self, params: Params, arrays: Batch, **static: int) -> dict[str, Any]:
        """The "probabilities", [B, labels], and for each of the "layers" the texts that attended:
        (its number, that of the text attended to, the weights [B, T, S])."""
        texts, explain = self._texts(arrays), AttentiveConvNet.explain
        logits, layers = self.model.apply({"params": params}, texts, method=explain)
        seen = [
            [(jnp.int32(a.text), jnp.int32(a.context), a.weights) for a in layer]
            for layer in layers
        ]
        return {"probabilities": nn.softmax(logits), "layers": seen}

    def request(self) -> str:
        return "\t".join(" ".join(text.split()) for text in self.data.texts("test")[0])

    def _texts(self, batch: Batch) -> list[Array]:
        return [batch[name] for name in TEXTS if name in batch]

    def _logits(
        self, params: Params, texts: Sequence[Array], key: Array | None = None
    ) -> Float[Array, "B labels"]:
        """With dropout if there is a key."""
        rngs = None if key is None else {DROPOUT: key}
        return self.model.apply({"params": params}, texts, train=key is not None, rngs=rngs)
