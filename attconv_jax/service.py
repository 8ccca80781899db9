"""How a classifier answers: its arrays, program, settings and card."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from attconv_jax.models.base import Matcher
from attconv_jax.predictor import SentenceClassifier, schema_of
from attconv_jax.task import SentenceClassification
from common_jax.data.batches import Batch
from common_jax.deploy.service import WordLevelService, text_columns
from common_jax.fields import join_list
from common_jax.inputs import inputs_to_text
from common_jax.training.task import Params


class SentenceService(WordLevelService[SentenceClassification]):
    """Labels or ranks with the model of a `SentenceClassification`."""

    predictor_class = SentenceClassifier

    def __init__(self, task: SentenceClassification):
        super().__init__(task)
        self.hub_task = "text-ranking" if task.ranking else "text-classification"

    @property
    def settings(self) -> SentenceClassifier.Settings:
        data = self.task.config.data
        texts = [text.name for text in schema_of(data.texts, self.task.ranking).texts]
        fields = [field for field in data.column_fields if field != "label"]
        return SentenceClassifier.Settings(
            labels=join_list(data.names),
            texts=data.texts,
            eval_batch_tokens=data.eval_batch_tokens,
            inputs=inputs_to_text(self.task.config.model.inputs),
            ranking=self.task.ranking,
            max_length=data.max_length,
            escaped_breaks=data.escaped_breaks,
            quotes=data.quotes,
            columns=text_columns(data, dict(zip(texts, fields, strict=True))),
        )

    def serve(self, params: Params, arrays: Batch, **static: Any) -> dict[str, Any]:
        """The "logits" and the "probabilities", [B, labels], and the attention maps of each of the
        "layers": (index of the text, index of the text attended to, weights [B, T, S]); without
        these with the static argument maps=0."""
        task = self.task
        if not static.get("maps", 1):
            logits, _ = task.matched(params, arrays)
            return {"logits": logits, "probabilities": nn.softmax(logits)}
        logits, layers = task.model.apply({"params": params}, arrays, method=Matcher.explain)
        attention = [
            [(jnp.int32(a.text), jnp.int32(a.context), a.weights) for a in layer]
            for layer in layers
        ]
        return {"logits": logits, "probabilities": nn.softmax(logits), "layers": attention}
