"""How a translator answers: its arrays, programs, settings and card."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common_jax.data.batches import Batch
from common_jax.deploy.service import Service, text_columns
from common_jax.fields import require
from common_jax.training.task import Params
from csan_jax.config import DecodeConfig
from csan_jax.data.subwords import Subwords
from csan_jax.predictor import Translator
from csan_jax.task import Translation


class TranslationService(Service[Translation]):
    """Translates with the model of a `Translation`."""

    predictor_class = Translator
    hub_task = "translation"

    @property
    def decode(self) -> DecodeConfig:
        """The run's search, with the options of `Task.decoding`."""
        return dataclasses.replace(self.task.config.decode, **self.task.decoding)

    @property
    def settings(self) -> Translator.Settings:
        decode = self.decode
        data = self.task.config.data
        pieces = self.task.data.target_subwords.size
        require(
            decode.beam_size <= pieces, f"beam_size={decode.beam_size}: at most {pieces} pieces"
        )
        return Translator.Settings(
            beam_size=decode.beam_size,
            batch_tokens=decode.batch_tokens,
            max_length=data.max_length,
            length_penalty=decode.length_penalty,
            extra_length=decode.extra_length,
            white_space=data.white_space,
            moses_escapes=data.moses_escapes,
            quotes=data.quotes,
            separator=data.separator,
            columns=text_columns(data, {"source": "source"}),
        )

    @property
    def inputs(self) -> Mapping[str, tuple[str, Any]]:
        return {"source": ("B, S", np.int32)}

    @property
    def vocabulary(self) -> list[Subwords]:
        return [self.task.data.source_subwords, self.task.data.target_subwords]

    def programs(self, values: Sequence[int] = ()) -> Sequence[Mapping[str, int]]:
        sizes = sorted(set(values or (1, self.task.config.decode.beam_size)))
        best = [{"beam_size": size} for size in sizes]
        several = [{**beam, "hypotheses": beam["beam_size"]} for beam in best]
        return [*best, *several, {"attention": 1}]

    def serve(self, params: Params, arrays: Batch, **static: Any) -> dict[str, Any]:
        """The best translation of each row and its score; with the static argument `hypotheses`,
        this number of them; with `attention`, the encoder's attention weights instead."""
        task = self.task
        if "attention" in static:
            inputs = {"params": params}, arrays["source"]
            return {"attention": task.model.apply(*inputs, method="encoder_weights")}
        options = {**task.decoding, **static}
        pieces, scores = task.translate(params, arrays["source"], compact=True, **options)
        if "hypotheses" not in static:
            pieces = pieces[:, 0]
            scores = scores[:, 0]
        return {"pieces": pieces, "scores": scores}

    @property
    def languages(self) -> tuple[str, str]:
        data = self.task.config.data
        return data.source_language, data.target_language

    @property
    def card_facts(self) -> Sequence[str]:
        source, target = self.languages
        return [f"translates `{source}` into `{target}`"]
