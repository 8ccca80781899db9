"""How a reader answers: its arrays, programs, settings and card."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from common_jax.data.batches import Batch
from common_jax.deploy.service import WordLevelService, text_columns
from common_jax.inputs import inputs_to_text
from common_jax.training.task import Params
from qanet_jax.layers import ATTENTION
from qanet_jax.predictor import QuestionAnswerer
from qanet_jax.task import SpanExtraction


class ReadingService(WordLevelService[SpanExtraction]):
    """Answers questions with the model of a `SpanExtraction`."""

    predictor_class = QuestionAnswerer
    hub_task = "question-answering"

    @property
    def settings(self) -> QuestionAnswerer.Settings:
        config = self.task.config
        data = dataclasses.replace(config.data, **self.task.decoding)
        return QuestionAnswerer.Settings(
            word_dim=config.words.dim,
            word_length=config.word_length,
            window=data.window,
            stride=data.stride,
            eval_batch_tokens=data.eval_batch_tokens,
            on_bad_example=data.on_bad_example,
            inputs=inputs_to_text(config.model.inputs),
            question_length=data.question_length,
            answer_length=data.answer_length,
            quotes=data.quotes,
            columns=text_columns(data, {"context": "context", "question": "question"}),
        )

    def programs(self, values: Sequence[int] = ()) -> Sequence[Mapping[str, int]]:
        return [{"count": count} for count in sorted(set(values or (3,)))]

    def serve(self, params: Params, arrays: Batch, **static: Any) -> dict[str, Any]:
        """`SpanExtraction.decode`; with the static argument `attention` instead the "attention",
        [B, N, M], of each word of the context over the question's, if the reader has it."""
        task = self.task
        if "attention" not in static:
            return task.decode(params, arrays, **{**task.decoding, **static})
        texts, examples = task.read(arrays)
        apply = functools.partial(task.model.apply, {"params": params}, *texts, train=False)
        _, stored = apply(**examples, mutable=[ATTENTION])
        return dict(zip(["attention"], jax.tree.leaves(stored), strict=False))
