"""The span extraction task: model, loss, corpus, decoding and score."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from common_jax.data.batches import Batch
from common_jax.inputs import columns_of
from common_jax.layers import DROPOUT
from common_jax.metrics.classification import calibration_notes
from common_jax.scopes import scope
from common_jax.text.squad import Squad
from common_jax.training.task import Params, Scores, preparation_of
from common_jax.training.word_level import WordLevelTask
from qanet_jax import metrics as spans
from qanet_jax import triviaqa_metrics
from qanet_jax.config import Config
from qanet_jax.data.dataset import ReadingData
from qanet_jax.data.text import TEXTS, input_line
from qanet_jax.layers import Words
from qanet_jax.score import (
    by_question,
    example_results,
    golds_sha256,
    is_adversarial,
    score_squad,
)

EXAMPLES = 5  # answers shown after an evaluation


class SpanExtraction(WordLevelTask[Config]):
    """Trains the config's `model` to extract answers from passages."""

    config_class = Config
    data: ReadingData
    metric_names = ("exact_match", "f1")
    comparison = "qanet_jax.compare:SpanEvaluation"
    service = "qanet_jax.service:ReadingService"
    example_flags = "--context FILE --question TEXT"

    def __init__(self, config: Config):
        super().__init__(config)
        self.data = ReadingData(config)
        self.data.preparation = preparation_of(config)
        self.model = config.model.module(config.words, jnp.dtype(config.train.compute_dtype))
        self._inputs = columns_of(config.model.inputs, TEXTS)
        self.splits = tuple(split for split in self.data.splits if split != "train")

    def init(self, key: Array) -> Params:
        texts, examples = self.read(self.example_arrays())
        return self.model.init(key, *texts, train=False, **examples).get("params", {})

    def logits(
        self, params: Params, batch: Batch, key: Array | None = None
    ) -> tuple[Float[Array, "B N"], Float[Array, "B N"]]:
        """Logits of the answers' first and last words; with dropout if there is a key."""
        return self._outputs(params, batch, key)[:2]

    def _outputs(self, params: Params, batch: Batch, key: Array | None) -> tuple[Any, ...]:
        """The outputs of the model (`ReaderModel.module`)."""
        texts, examples = self.read(batch)
        rngs = None if key is None else {DROPOUT: key}
        return self.model.apply(
            {"params": params}, *texts, train=key is not None, rngs=rngs, **examples
        )

    def read(self, batch: Batch) -> tuple[list[Words], dict[str, Array]]:
        """The texts of a batch, and the model's inputs for examples, by key."""

        def inputs_of(text: str) -> dict[str, Array]:
            return {c.input.key: batch[c.name] for c in self._inputs if c.text == text}

        texts = [
            Words(
                batch[text],
                batch[f"{text}_characters"],
                batch.get(f"{text}_vectors"),
                inputs_of(text),
            )
            for text in TEXTS
        ]
        return texts, inputs_of("")

    def loss(self, params: Params, batch: Batch, key: Array) -> dict[str, Float[Array, ""]]:
        """-log p1[start] - log p2[end] (section 2.2, layer 5), summed, plus the model's losses."""
        *logits, further_losses = (*self._outputs(params, batch, key), {})[:3]
        with scope("pointers"):
            real = batch["index"] >= 0
            pointers = zip(logits, (batch["start"], batch["end"]), strict=True)
            losses = sum(-_log_probability(*pointer) for pointer in pointers)
            nll = jnp.sum(losses, where=real)
        further = {
            name: jnp.sum(row_losses, where=real) for name, row_losses in further_losses.items()
        }
        loss = sum(further.values(), start=nll)
        return {**further, "loss": loss, "nll": nll, "weight": real.sum().astype(jnp.float32)}

    def predict_step(self, params: Params, batch: Batch, *, final: bool) -> dict[str, Array]:
        outputs = self.decode(params, batch, 1, **(self.decoding if final else {}))
        pointers = {name: outputs.pop(name) for name in ("start", "end")}
        outputs["normaliser"] = sum(
            jax.nn.logsumexp(logits, axis=1) for logits in pointers.values()
        )
        if "start" in batch:
            scores = sum(_at(logits, batch[name]) for name, logits in pointers.items())
            outputs["gold"] = jnp.where(batch["start"] >= 0, scores, -jnp.inf)
        return outputs

    def decode(
        self, params: Params, batch: Batch, count: int, answer_length: int | None = None
    ) -> dict[str, Array]:
        """The best `count` spans of each row, [B, k]: `first` and `last` word and `score`
        (unnormalised, comparable between windows of a passage); and the logits, [B, N], of each
        word as `start` and as `end`."""
        start, end = self.logits(params, batch)
        longest = answer_length or self.config.data.answer_length
        first, last, score = best_spans(start, end, longest, count)
        return {"first": first, "last": last, "score": score, "start": start, "end": end}

    def score(self, split: str, predictions: Mapping[str, np.ndarray]) -> Scores:
        squad = self.data.texts(split)
        trivia = self.data.golds(split)
        predicted = self._answers(split, squad, predictions)

        # SQuAD scores questions of one passage, TriviaQA the best answer of several.
        chosen = predicted if trivia is None else by_question(predicted)
        answers = {name: text for name, (text, _) in chosen.items()}
        confidences = {name: confidence for name, (_, confidence) in chosen.items()}
        if trivia is None:
            golds = {q.id: q.golds for q in squad.questions}
            metrics = score_squad(answers, golds, self._is_adversarial(split))
            texts = {q.id: q.text for q in squad.questions}
            question_scores = spans.scores(answers, golds)
            words = {q.id: len(squad.contexts[q.context].split()) for q in squad.questions}
        else:
            golds = {q["QuestionId"]: triviaqa_metrics.golds(q["Answer"]) for q in trivia}
            texts = {q.id.partition("--")[0]: q.text for q in squad.questions}
            metrics = triviaqa_metrics.score(answers, trivia)
            question_scores = spans.scores(answers, golds, triviaqa_metrics.normalize_answer)
            words = {key: len(texts.get(key, "").split()) for key in golds}

        metrics = {**metrics, **self._gold_nll(split, predictions)}

        # The confidence of each answer beside whether it is right.
        calibrated = calibration_notes(
            np.array([confidences.get(key, 0.0) for key in golds]),
            np.array([exact for exact, _ in question_scores.values()]),
        )

        def errors() -> Iterator[dict[str, Any]]:
            for row, (key, (exact, score)) in enumerate(question_scores.items(), start=1):
                if not exact:
                    yield {
                        "row": row,
                        "id": key,
                        "text": texts.get(key, ""),
                        "gold": " | ".join(dict.fromkeys(golds[key])),
                        "predicted": answers.get(key, ""),
                        "probability": round(confidences.get(key, 0.0), 6),
                        "f1": round(100 * score, 2),
                    }

        # Examples at equal distances, with all different answers.
        sample = squad.questions[:: max(1, len(squad.questions) // EXAMPLES)][:EXAMPLES]
        right = [" | ".join(dict.fromkeys(q.golds)) for q in sample]
        return Scores(
            metrics=metrics,
            notes={
                "questions": len(golds),
                "golds_sha256": golds_sha256(golds),
                **calibrated,
                **_by_kind(question_scores, texts, golds, metrics),
            },
            predictions={"json": json.dumps(answers, ensure_ascii=False) + "\n"},
            examples=[
                f"{q.text}\n  -> {predicted[q.id][0]}\n   = {text}"
                for q, text in zip(sample, right, strict=True)
            ],
            results=example_results(question_scores, words, attacked="f1_worst" in metrics),
            errors=errors,
        )

    def _is_adversarial(self, split: str) -> bool:
        data = self.config.data
        return data.adversarial or (data.source == "files" and is_adversarial(getattr(data, split)))

    def _answers(
        self, split: str, squad: Squad, predictions: Mapping[str, np.ndarray]
    ) -> dict[str, tuple[str, float]]:
        """Each question's answer, the span with the best score of all windows, of equal ones the
        first in the text, and its confidence.

        The confidence is the exponential of the score over the sum for all pairs of a start and an
        end in all windows; with one window it is p1 p2. Pairs in overlaps of windows are repeated
        in the sum (`qanet_jax.predictor`, which has the logits, counts each word once).
        """
        # The normaliser of a question, over its windows.
        corpus = self.data.split(split)
        scores = predictions["score"][:, 0].astype(np.float64)
        numbers = corpus.numbers
        totals = _over_windows(np.logaddexp, numbers, predictions["normaliser"])

        # The best span of each question: by score, and of equal ones the first in the text.
        words = np.stack([predictions["first"][:, 0], predictions["last"][:, 0]], axis=1)
        spans = [corpus.characters(at, *pair) for at, pair in enumerate(words.tolist())]
        starts, ends = np.array(spans).T
        order = np.lexsort((ends, starts, -scores, numbers))
        _, at = np.unique(numbers[order], return_index=True)

        answers = {}
        for example in order[at].tolist():
            number = numbers[example]
            question = squad.questions[number]
            start, end = spans[example]
            text = squad.contexts[question.context][start:end]
            answers[question.id] = text, float(np.exp(scores[example] - totals[number]))
        return answers

    def _gold_nll(self, split: str, predictions: Mapping[str, np.ndarray]) -> dict[str, float]:
        """ "nll", the mean of -log p of the first gold answers, in nats, with the normaliser of
        `_answers`; without questions of which no window has the answer, and empty if none has."""
        if "gold" not in predictions:
            return {}
        numbers = self.data.split(split).numbers
        totals = _over_windows(np.logaddexp, numbers, predictions["normaliser"])
        golds = _over_windows(np.maximum, numbers, predictions["gold"])
        return {"nll": float(np.mean((totals - golds)[golds > -np.inf]))}

    @property
    def inputs(self) -> Mapping[str, tuple[str, Any]]:
        """Shape and type of the arrays of the model, with letters for symbolic dims: those of an
        answer (`Service.inputs`)."""
        config = self.config
        inputs: dict[str, tuple[str, Any]] = {}
        dims = dict(zip(TEXTS, ("B, N", "B, M"), strict=True))
        for text, words in dims.items():
            inputs[text] = words, np.int32
            inputs[f"{text}_characters"] = f"{words}, {config.word_length}", np.int32
            if not config.words.rows:
                inputs[f"{text}_vectors"] = f"{words}, {config.words.dim}", np.float32
        return inputs | {column.name: (column.dims(dims), np.int32) for column in self._inputs}

    @property
    def training_inputs(self) -> Mapping[str, tuple[str, Any]]:
        return {**self.inputs, "start": ("B", np.int32), "end": ("B", np.int32)}

    def example_lines(self, split: str, count: int = 1) -> Sequence[str]:
        squad = self.data.texts(split)
        questions = squad.questions[:count]
        return [input_line(squad.contexts[q.context], q.text) for q in questions]


def _by_kind(
    scores: Mapping[str, tuple[bool, float]],
    texts: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
    metrics: Mapping[str, float],
) -> dict[str, Any]:
    """Intervals, and scores by type of question and by length of answer; empty with adversarial
    variants, which are not independent questions."""
    if "f1_worst" in metrics:
        return {}
    # a question of TriviaQA without documents has no text
    types = {key: spans.question_type(texts.get(key, "")) for key in golds}
    lengths = {key: spans.answer_length(answers) for key, answers in golds.items()}
    return {
        "intervals": spans.intervals([*scores.values()]),
        "by_question_type": spans.by_kind(scores, types),
        "by_answer_length": spans.by_kind(scores, lengths),
    }


def _log_probability(logits: Float[Array, "B N"], at: Int[Array, "B"]) -> Float[Array, "B"]:
    return _at(jax.nn.log_softmax(logits), at)


def _at(values: Float[Array, "B N"], at: Int[Array, "B"]) -> Float[Array, "B"]:
    return jnp.take_along_axis(values, at[:, None], axis=1)[:, 0]


def _over_windows(
    joined: np.ufunc, numbers: Int[np.ndarray, "n"], values: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "questions"]:
    """The values of each question's windows, joined; every question has a window."""
    totals = np.full(numbers.max(initial=-1) + 1, -np.inf)
    joined.at(totals, numbers, values.astype(np.float64))
    return totals


def best_spans(
    start: Float[Array, "B N"], end: Float[Array, "B N"], length: int, count: int = 1
) -> tuple[Int[Array, "B k"], Int[Array, "B k"], Float[Array, "B k"]]:
    """The spans with the largest start[s] + end[e] (section 2.2, "Inference"), in time and memory
    linear in N.

    Args:
      start, end: logits; very negative where no span may start or end.
      length: largest number of words in a span.
      count: number of spans; fewer are returned if fewer exist. With a symbolic N `count` spans are
        always returned; invalid ones end after the last word.

    Returns:
      s, e (inclusive) and the scores; spans with equal scores are ordered by start, then by end.
    """
    size = start.shape[1]
    beyond = jnp.finfo(end.dtype).min
    symbolic = not isinstance(size, int)  # of an export, which cannot be compared
    if not symbolic:
        length = min(length, size)
        count = min(count, sum(size - n for n in range(length)))

    # the scores of all spans, [B, N * length]
    padded = jnp.pad(end, ((0, 0), (0, length - 1)), constant_values=beyond)
    scores = jnp.stack([start + padded[:, n : n + size] for n in range(length)], axis=2)
    scores = scores.reshape(start.shape[0], size * length)
    if symbolic:  # for at least `count` spans with any size
        scores = jnp.pad(scores, ((0, 0), (0, count)), constant_values=beyond)

    # the best
    best, spans = jax.lax.top_k(scores, count)
    first = spans // length
    return first, first + spans % length, best
