"""Export of a Transformer to CTranslate2 (github.com/OpenNMT/CTranslate2), and its inference.

CTranslate2 (extra "ctranslate2") decodes on CPUs and CUDA GPUs. It supports plain attention only,
and beam search without a length penalty: its own differs from that of `csan_jax.decode`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from common_jax.deploy.bounded_program import InputTooLargeError
from common_jax.deploy.model_format import ModelFormat
from common_jax.deploy.predictor import CompiledFunctions, Compute, available_cores
from common_jax.errors import UserError, missing_extra
from common_jax.fields import require
from csan_jax.data.subwords import END, PAD, UNKNOWN

POSITIONS = 1024  # the longest text, of the table of position encodings
PADDING_LOGIT = -1e9  # logit of padding
SPECIAL = {END: "</s>", UNKNOWN: "<unk>"}


class CTranslate2(ModelFormat):
    """A model of CTranslate2."""

    dtypes = ("float32", "int8")
    form = (
        "A model of CTranslate2 in `engine`, which computes it on a CPU or a CUDA GPU; used "
        "without jax, with the extra ctranslate2."
    )

    def require(self, service: Any) -> None:
        require_expressible(service.task.config.model, service.decode.length_penalty)

    def write(self, service: Any, params: Any, folder: Path, dtype: str) -> None:
        pieces = service.task.data.target_subwords.size
        write(service.task.model.config, params, folder, dtype, pieces)

    def read(self, folder: Path, vocabulary: Any, settings: Any) -> CompiledFunctions:
        penalty = settings.length_penalty
        extra_length = settings.extra_length
        if penalty is None or extra_length is None:
            raise UserError(f"{folder}: its settings lack length_penalty or extra_length")
        pieces = max(subwords.size for subwords in vocabulary)
        return Engine(folder, pieces, penalty, extra_length)


def require_expressible(model: Any, length_penalty: float) -> None:
    """Raises UserError unless CTranslate2 supports a `ModelConfig` and the length penalty."""
    from csan_jax.attention.causal import Causal

    encoder = model.encoder_attention
    decoder = model.decoder_attention
    require(
        encoder.local_layers == 0,
        f"--format ctranslate2: CTranslate2 has no {type(encoder).__name__} of "
        "model.encoder_attention, only a Transformer's attention",
    )
    require(
        type(decoder) is Causal,
        f"--format ctranslate2: CTranslate2 has no {type(decoder).__name__} of "
        "model.decoder_attention, only a Transformer's attention",
    )
    require(
        length_penalty == 0,
        f"--format ctranslate2: CTranslate2 has another length penalty than that of "
        f"length_penalty={length_penalty:g}; --length_penalty 0 exports a translator without one",
    )


def write(model: Any, params: Mapping[str, Any], folder: Path, dtype: str, pieces: int) -> None:
    """Writes a CTranslate2 model.

    Args:
      model: a `csan_jax.config.ModelConfig`, with both vocabulary sizes set.
      params: of `csan_jax.model.Transformer`.
      folder: a new one.
      dtype: of the weights: "float32", or "int8", symmetric, by output channel.
      pieces: of the target; further rows of its table are not generated.

    Raises:
      UserError: if the package is missing.
    """
    import jax

    from common_jax.layers import EPSILON

    # Embeddings, positions and the output layer.
    specs = _package("ctranslate2.specs.transformer_spec")
    pre_norm = model.norm == "pre"
    layers = model.encoder_layers, model.decoder_layers
    spec = specs.TransformerSpec.from_config(layers, model.num_heads, pre_norm=pre_norm)
    params = jax.tree.map(lambda values: np.array(values, np.float32), params)
    encodings = _encodings(model)
    source = params["target_embedding" if model.tie == "all" else "source_embedding"]
    output = params["output_embedding" if model.tie == "none" else "target_embedding"]
    encoder = spec.encoder
    decoder = spec.decoder
    encoder.embeddings[0].weight = source.copy()  # weights are changed in place
    encoder.position_encodings.encodings = encodings + params["source_bias"]
    decoder.embeddings.weight = params["target_embedding"].copy()
    decoder.position_encodings.encodings = encodings
    decoder.start_from_zero_embedding = True
    decoder.projection.weight = output
    numbers = np.arange(len(output))
    is_none = (numbers == PAD) | (numbers >= pieces)
    decoder.projection.bias = np.where(is_none, PADDING_LOGIT, 0).astype(np.float32)

    # Layers, and with pre-norm the norm after the last of them.
    if pre_norm:
        _set_norm(encoder.layer_norm, params["encoder_norm"])
        _set_norm(decoder.layer_norm, params["decoder_norm"])
    for layer, values in zip(encoder.layer, _layers(params["encoder"]), strict=True):
        _set_layer(layer, values)
    for layer, values in zip(decoder.layer, _layers(params["decoder"]), strict=True):
        _set_layer(layer, values)
        query, *memory = (values["cross_attention"][name] for name in ("query", "key", "value"))
        _set_attention(layer.attention, [[query], memory], values["cross_attention"]["out"])
        _set_norm(layer.attention.layer_norm, values["cross_attention_norm"])

    # The vocabularies by number: the pieces' names are not used.
    spec.register_source_vocabulary(names(len(source)))
    spec.register_target_vocabulary(names(len(output)))
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL[END]
    spec.config.layer_norm_epsilon = EPSILON
    spec.validate()
    spec.optimize(quantization=None if dtype == "float32" else dtype)
    folder.mkdir()
    spec.save(str(folder))


def _encodings(model: Any) -> Float[np.ndarray, "positions D"]:
    from common_jax.layers import sinusoids

    if not model.sinusoids:
        return np.zeros((POSITIONS, model.dim), np.float32)
    return np.asarray(sinusoids(POSITIONS, model.dim))


def _layers(stack: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The parameters of each layer of a `common_jax.stack.Stack`."""
    import jax

    layers = stack["layers"]
    for number in range(len(layers["self_attention_norm"]["scale"])):
        yield jax.tree.map(lambda values, at=number: values[at], layers)


def _set_layer(spec: Any, values: Mapping[str, Any]) -> None:
    attention = values["self_attention"]
    feed_forward = values["feed_forward"]
    inputs = [attention[name] for name in ("query", "key", "value")]
    _set_attention(spec.self_attention, [inputs], attention["out"])
    _set_norm(spec.self_attention.layer_norm, values["self_attention_norm"])
    _set_linear(spec.ffn.linear_0, [feed_forward["in"]])
    _set_linear(spec.ffn.linear_1, [feed_forward["out"]])
    _set_norm(spec.ffn.layer_norm, values["feed_forward_norm"])


def _set_attention(spec: Any, inputs: Sequence[Any], out: Mapping[str, Any]) -> None:
    for linear, denses in zip(spec.linear, [*inputs, [out]], strict=True):
        _set_linear(linear, denses)


def _set_linear(spec: Any, denses: Sequence[Mapping[str, Any]]) -> None:
    """Sets the concatenation of dense layers that have the same input."""
    spec.weight = np.concatenate([dense["kernel"].T for dense in denses])
    spec.bias = np.concatenate([dense["bias"] for dense in denses])


def _set_norm(spec: Any, values: Mapping[str, Any]) -> None:
    spec.gamma = values["scale"]
    spec.beta = values["bias"]


def names(count: int) -> list[str]:
    """Each piece's name in CTranslate2's vocabulary: its id, or a special symbol's."""
    return [SPECIAL.get(piece, str(piece)) for piece in range(count)]


class Engine(CompiledFunctions):
    """The programs of a translator, computed by CTranslate2."""

    def __init__(self, folder: Path, pieces: int, length_penalty: float, extra_length: int):
        """
        Args:
          folder: of `write`.
          pieces: number of the vocabulary's pieces, the larger of both sides.
          length_penalty, extra_length: of the search (`csan_jax.config.DecodeConfig`).

        Raises:
          UserError: if the package is missing or cannot read the model.
        """
        package = _package("ctranslate2")
        # One core per batch: on two cores, a batch that uses both takes longer (int8: seven times).
        self.at_once = 1 if package.get_cuda_device_count() else available_cores()
        try:
            self._translator = package.Translator(
                str(folder), device="auto", inter_threads=self.at_once, intra_threads=1
            )
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"{folder}: not a model that CTranslate2 reads: {reason}") from error
        self._folder = folder
        self._extra_length = extra_length
        self._length_penalty = length_penalty
        self._names = names(pieces)
        self._pieces = {name: piece for piece, name in enumerate(self._names)}

    def __call__(self, **static: int | float) -> Compute:
        options: dict[str, Any] = {
            "beam_size": 1,
            "hypotheses": 0,
            "length_penalty": self._length_penalty,
            "extra_length": self._extra_length,
        }
        if unknown := static.keys() - options.keys():
            raise UserError(f"{self._folder}: a CTranslate2 model has no {min(unknown)}")
        beam_size, hypotheses, penalty, extra = (options | static).values()
        if penalty:
            raise UserError(
                f"length_penalty={penalty:g}: CTranslate2 has another length penalty; 0 only"
            )

        def compute(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
            source = np.asarray(arrays["source"])
            rows = [row[row != PAD] for row in source]
            longest = max(map(len, rows))
            if longest > POSITIONS:
                raise InputTooLargeError(f"too long: {longest} pieces, of at most {POSITIONS}")
            ranked = self._search(rows, extra, beam_size, hypotheses or 1)
            pieces, scores = _stacked(ranked, hypotheses or 1)
            if not hypotheses:
                pieces = pieces[:, 0]
                scores = scores[:, 0]
            return {"pieces": pieces, "scores": scores}

        return compute

    def _search(
        self, rows: Sequence[np.ndarray], extra: int, beam_size: int, count: int
    ) -> list[list[tuple[list[int], float]]]:
        """The hypotheses of each row, with end symbol if they have ended; none for an empty row.

        CTranslate2 has one length limit for all rows; a row that exceeds its own is searched again.
        """
        limits = {n: min(len(row) + extra, POSITIONS) for n, row in enumerate(rows) if len(row)}
        ranked: list[list[tuple[list[int], float]]] = [[] for _ in rows]
        if not limits:
            return ranked
        filled = [*limits]
        results = self._translated(
            [rows[n] for n in filled], max(limits.values()), beam_size, count
        )
        for n, result in zip(filled, results, strict=True):
            if any(len(pieces) > limits[n] for pieces, _ in result):
                (result,) = self._translated([rows[n]], limits[n], beam_size, count)
            ranked[n] = result
        return ranked

    def _translated(
        self, rows: Sequence[np.ndarray], limit: int, beam_size: int, count: int
    ) -> list[list[tuple[list[int], float]]]:
        # Only the limit bounds the hypotheses; scores are sums of log-probabilities.
        results = self._translator.translate_batch(
            [[self._names[piece] for piece in row.tolist()] for row in rows],
            beam_size=beam_size,
            num_hypotheses=count,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=limit,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )

        ranked = []
        for result in results:
            scored = zip(result.hypotheses, result.scores, strict=True)
            ranked.append(
                [([self._pieces[name] for name in names], score) for names, score in scored]
            )
        return ranked


def _stacked(
    ranked: Sequence[Sequence[tuple[list[int], float]]], count: int
) -> tuple[Int[np.ndarray, "B n steps"], Float[np.ndarray, "B n"]]:
    """Hypotheses as arrays, padded with 0 and -inf."""
    steps = max((len(pieces) for row in ranked for pieces, _ in row), default=1)
    pieces = np.full((len(ranked), count, steps), PAD, np.int32)
    scores = np.full((len(ranked), count), -math.inf, np.float32)
    for row, hypotheses in enumerate(ranked):
        for slot, (hypothesis, score) in enumerate(hypotheses):
            pieces[row, slot, : len(hypothesis)] = hypothesis
            scores[row, slot] = score
    return pieces, scores


def _package(name: str) -> Any:
    """A module of CTranslate2; raises UserError if it is not installed."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        need = "CTranslate2 is not installed; an export in its format"
        raise missing_extra(need, "ctranslate2") from error
