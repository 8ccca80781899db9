"""The classification task: labels of texts and pairs, and rankings of sentences."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from attconv_jax.config import Config
from attconv_jax.data.dataset import YES, LabelledData, other_name
from attconv_jax.data.text import TEXTS
from attconv_jax.models.base import SPREAD, TABLES, Losses, Matcher
from attconv_jax.score import label_errors, ranking_errors, score_labels, score_ranking
from common_jax.data.batches import Batch
from common_jax.fields import join_list
from common_jax.inputs import columns_of
from common_jax.io.parameters import named_parameters
from common_jax.layers import DROPOUT
from common_jax.metrics.classification import probabilities
from common_jax.numerics import random_key
from common_jax.scopes import scope
from common_jax.training.task import Params, Scores, Task, preparation_of
from common_jax.training.word_level import WordLevelTask

EXAMPLES = 5  # shown after an evaluation


class SentenceClassification(WordLevelTask[Config]):
    """Trains a matching model to label texts or pairs, or to rank sentences."""

    config_class = Config
    data: LabelledData
    printed_notes = ("majority_rate", "macro_f1")
    comparison = "attconv_jax.compare:LabelEvaluation"
    service = "attconv_jax.service:SentenceService"

    def __init__(self, config: Config):
        super().__init__(config)
        self.ranking = config.data.format == "ranking"
        self.metric_names = ("precision_at_1",) if self.ranking else ("accuracy",)
        words = config.words
        inputs = config.model.inputs
        self._columns = columns_of(inputs, TEXTS[: config.data.texts])
        self.data = LabelledData(config.data, words, inputs)
        self.data.preparation = preparation_of(config)
        dtype = jnp.dtype(config.train.compute_dtype)
        labels = len(config.data.names)
        self.model = Matcher(config.model, words.rows, words.dim, labels, dtype, words.trained)

    @property
    def fixed(self) -> tuple[str, ...]:
        fixed = 1 if self.config.model.second_table else 0
        return TABLES[:fixed] if self.config.words.trained else TABLES

    def init(self, key: Array) -> Params:
        """Initial parameters; after `prepare`, word vectors are those of `data.vectors`, and random
        ones of the same standard deviation for other words."""
        params = self.model.init(key, self.example_arrays(), train=False)["params"]
        if (initial := self.data.vectors() if self.data.prepared else None) is not None:
            numbers, vectors = initial
            for name in TABLES:
                if name in params:
                    table = nn.unbox(params[name]) * (vectors.std() / SPREAD)
                    table = table.at[numbers].set(vectors)
                    params[name] = nn.meta.replace_boxed(params[name], table)
        return params

    def loss(self, params: Params, batch: Batch, key: Array) -> dict[str, Float[Array, ""]]:
        """Sums over the batch: "nll", the cross-entropy, or for rankings "ranking", those of
        `_ranking_losses`; the model's further losses by name; and "loss", the sum of these."""
        # The loss of each example.
        real = batch["index"] >= 0
        if self.ranking:
            losses, further = self._ranking_losses(params, batch, key)
        else:
            logits, further = self.matched(params, batch, key)
            with scope("loss"):
                losses = -jnp.take_along_axis(
                    nn.log_softmax(logits), batch["label"][:, None], axis=1
                )[:, 0]

        # Sums without padded examples, whose index is -1.
        name = "ranking" if self.ranking else "nll"
        total = jnp.sum(losses, where=real)
        further_sums = {name: jnp.sum(values, where=real) for name, values in further.items()}
        sums = {"loss": sum(further_sums.values(), total), name: total}
        assert not further_sums.keys() & {*sums, "weight"}, (
            f"names of losses: {', '.join(further_sums)}"
        )
        return {**sums, **further_sums, "weight": real.sum().astype(jnp.float32)}

    def _ranking_losses(
        self, params: Params, batch: Batch, key: Array
    ) -> tuple[Float[Array, "B"], Losses]:
        """The loss of each question, and the model's further losses.

        By the config's `loss`, the mean of max(0, margin - p_answer + p_other) over the sentences
        that do not answer (section 4.2), the mean cross-entropy of the answering and of the other
        sentences, or the sum of both.
        """
        config = self.config
        rows = batch["index"].shape[0]
        real = batch["index"] >= 0
        present = (batch["other"] != 0).any(-1)
        logits, further = self.matched(params, self._all_pairs(batch), key)
        right = logits[:rows]
        wrong = logits[rows:].reshape(*present.shape, -1)
        losses = jnp.zeros(rows)

        # The hinge loss, against the sentences of the question or of the whole batch.
        answers = nn.softmax(right)[:, YES]
        negatives = nn.softmax(wrong)[..., YES]
        if config.loss != "cross_entropy" and config.pairs == "question":
            hinges = jnp.maximum(0.0, config.margin - answers[:, None] + negatives)
            losses += mean_of(hinges, present)
        elif config.loss != "cross_entropy":
            hinges = jnp.maximum(0.0, config.margin - answers[:, None] + negatives.reshape(1, -1))
            losses += mean_of(hinges, (present & real[:, None]).reshape(1, -1))

        # The cross-entropy of both kinds of sentences.
        if config.loss != "hinge":
            log_wrong = mean_of(nn.log_softmax(wrong)[..., 1 - YES], present)
            losses -= (nn.log_softmax(right)[:, YES] + log_wrong) / 2

        def of_questions(values: Float[Array, "pairs"]) -> Float[Array, "B"]:
            negatives = mean_of(values[rows:].reshape(present.shape), present)
            return values[:rows] + negatives

        return losses, {name: of_questions(values) for name, values in further.items()}

    @property
    def _other_names(self) -> dict[str, str]:
        """The names of arrays for the sentences that do not answer, by those for the others."""
        columns = [column for column in self._columns if column.text != "first"]
        return {"second": "other", **{column.name: other_name(column) for column in columns}}

    def _all_pairs(self, batch: Batch) -> dict[str, Array]:
        """The questions with answering sentences, followed by those with other sentences."""
        names = [*TEXTS, *(column.name for column in self._columns)]
        count = batch["other"].shape[1]
        other_names = self._other_names

        def joined(name: str) -> Array:
            answers = batch[name]
            negatives = batch.get(other_names.get(name, ""))
            if negatives is None:  # depends on the question only
                negatives = jnp.repeat(answers, count, axis=0)
            return jnp.concatenate([answers, negatives.reshape(-1, *answers.shape[1:])])

        return {name: joined(name) for name in names}

    def predict_step(self, params: Params, batch: Batch, *, final: bool) -> dict[str, Array]:
        return {"logits": self.matched(params, batch)[0]}

    def score(self, split: str, predictions: Mapping[str, np.ndarray]) -> Scores:
        corpus = self.data.corpus(split)
        logits = predictions["logits"].astype(np.float64)
        names = self.config.data.names
        texts = self.data.texts(split)
        metrics, notes, results = (
            score_ranking(corpus, logits) if self.ranking else score_labels(corpus, logits, names)
        )

        # predictions: of equally probable labels the first; probabilities with all digits
        gold = [names[label] for label in corpus.column("label")]
        labels = [names[label] for label in logits.argmax(axis=1)]
        chances = probabilities(logits)
        lines = ["\t".join(("gold", "label", *names))]
        for *both, row in zip(gold, labels, chances.tolist(), strict=True):
            lines.append("\t".join((*both, *map(repr, row))))

        indices = range(0, len(texts), max(1, len(texts) // EXAMPLES))
        examples = [
            "\n  ".join(texts[at]) + f"\n  -> {labels[at]} = {gold[at]}"
            for at in indices[:EXAMPLES]
        ]
        table = "\n".join(lines) + "\n"

        def errors() -> Iterable[Mapping[str, Any]]:
            if self.ranking:
                return ranking_errors(texts, corpus, logits)
            return label_errors(texts, corpus.column("label"), logits, names)

        return Scores(metrics, notes, {"tsv": table}, examples, results, errors=errors)

    def new_parameters(self, source: Task) -> Sequence[str]:
        """The parameters whose shape depends on the number of labels, if the labels differ."""
        data = self.config.data
        if data.names == source.config.data.names:
            return ()
        more = join_list([*data.names, "+".join(data.names)])
        relabelled = dataclasses.replace(data, labels=more)
        tasks = self, type(self)(dataclasses.replace(self.config, data=relabelled))
        current, changed = (
            named_parameters(nn.unbox(jax.eval_shape(task.init, random_key(0)))) for task in tasks
        )
        return [name for name, leaf in current.items() if leaf.shape != changed[name].shape]

    def evaluation_set(self, split: str) -> Any:
        gold = self.data.corpus(split).column("label").tolist()
        return [self.config.data.names, gold, self.data.texts(split)]

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
        rows = f"B, {self.config.data.negatives}"
        inputs = dict(self.inputs)
        for name, other in self._other_names.items():
            dims, kind = inputs[name]
            inputs[other] = dims.replace("B", rows, 1), kind
        return inputs

    def example_lines(self, split: str, count: int = 1) -> Sequence[str]:
        examples = self.data.texts(split)[:count]
        return ["\t".join(" ".join(text.split()) for text in texts) for texts in examples]

    def matched(
        self, params: Params, batch: Mapping[str, Any], key: Array | None = None
    ) -> tuple[Float[Array, "B labels"], Losses]:
        """Logits and further losses; with dropout if there is a key."""
        rngs = None if key is None else {DROPOUT: key}
        return self.model.apply({"params": params}, batch, train=key is not None, rngs=rngs)


def mean_of(values: Float[Array, "*b n"], where: Bool[Array, "*c n"]) -> Float[Array, "*b"]:
    """The mean of the values that `where` selects; 0 if it selects none."""
    count = jnp.maximum(where.sum(-1), 1).astype(values.dtype)
    return jnp.sum(values, -1, where=where) / count
