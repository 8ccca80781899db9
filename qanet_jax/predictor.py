"""Text interface of the question answerer: encodes text, decodes answers; imports no model."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from common_jax.bad_examples import BadExamples
from common_jax.data.requests import batch_rows, padded, padded_width
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.inputs import columns_of, encode, inputs_from_text
from common_jax.io.json_files import parse_json
from common_jax.predictor import CompiledFunctions, Option, Predictor
from common_jax.text.vectors import read_vectors
from common_jax.text.vocabulary import Vocabulary
from qanet_jax.data.text import TEXTS, TokenizedText, text_arrays, windows


@dataclasses.dataclass(frozen=True)
class PredictedSpan:
    """An answer.

    Attributes:
      text: context[start:end].
      start, end: offsets in the context.
      probability: p1 p2 of its first and last word over the complete context, with the largest
        logits of words in several windows.
    """

    text: str
    start: int
    end: int
    probability: float


class QuestionAnswerer(Predictor):
    """Answers questions about contexts of any length, split into overlapping windows."""

    fields = TEXTS
    options = (
        Option("count", int, "answers to a question, best first (3)", compiled=True),
        Option("vectors", str, "the run's data.vectors, for words that its corpus lacks", "FILE"),
    )

    @dataclasses.dataclass(frozen=True)
    class Settings:
        """The predictor's part of a run's config, with its names.

        Attributes:
          word_dim: dimensions of a word's vector.
          word_length: characters of a word.
          window, stride: length in words of the windows of a longer context, and the distance of
            their starts.
          eval_batch_tokens: context words of a batch.
          on_bad_example: policy for invalid rows of `vectors`.
          inputs: of the model, beside words (`common_jax.inputs.inputs_to_text`).
        """

        word_dim: int
        word_length: int
        window: int
        stride: int
        eval_batch_tokens: int
        on_bad_example: Literal["error", "skip"]
        inputs: str = ""

        def __post_init__(self):
            for name in ("word_dim", "word_length", "stride", "eval_batch_tokens"):
                require(getattr(self, name) >= 1, f"{name}={getattr(self, name)}: at least 1")
            require(self.stride <= self.window, f"stride={self.stride}: beyond {self.window} words")

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: Settings,
        programs: CompiledFunctions,
        *,
        count: int = 3,
        vectors: str = "",
    ):
        """
        Args:
          programs: from `qanet_jax.data.text.text_arrays` of both texts to the arrays of
            `SpanExtraction.decode`.
          count: number of answers to a question, best first.
          vectors: the file of the run's data.vectors, for words that its corpus lacks, which
            otherwise are represented only by their characters.

        Raises:
          UserError: for `vectors` with trained word vectors, if `programs` return fewer than
            `count` answers, or for inputs whose class is not installed.
        """
        require(count >= 1, f"count={count}: at least 1")
        self._known = self._vocabulary = vocabulary
        self._settings, self._count, self._vectors = settings, count, vectors
        self._inputs = columns_of(inputs_from_text(settings.inputs, "settings.inputs"), TEXTS)
        self._looked_up: set[str] = set()
        if vectors and self._vocabulary.table is None:
            raise UserError(f"vectors={vectors}: this run trained its own, and supports no others")
        enough = (available for available in programs.choices("count") if available >= count)
        self._decode = programs(count=next(enough, count))

    @classmethod
    def read_vocabulary(cls, folder: Path) -> Vocabulary:
        return Vocabulary.load(folder)

    def predict(self, lines: Iterable[str], source: str = "lines") -> Iterator[str]:
        """Answers {"context": ..., "question": ...}, a JSON object a line, with one a line:
        answer, start, end, probability, and `next`, a list of the next best answers. An "id" is
        returned with the answer. With `vectors`, reads all lines before the first answer."""
        numbered = enumerate(lines, start=1)
        requests: Iterable[_Request] = (_Request.of(line, source, n) for n, line in numbered)
        if self._vectors:
            requests = list(requests)
            texts = (TokenizedText.of(text) for r in requests for text in (r.context, r.question))
            self._look_up(word for text in texts for word in text.words)
        for request in requests:
            best, *others = self.answer(request.context, request.question, place=request.place)
            answer = _as_json(best) | {"next": [_as_json(other) for other in others]}
            yield json.dumps({**request.id, **answer}, ensure_ascii=False)

    def answer(self, context: str, question: str, *, place: str = "") -> list[PredictedSpan]:
        """The best answers to a question, best first.

        Args:
          place: their location, for error messages.

        Raises:
          UserError: if either has no word.
        """
        c, q = TokenizedText.of(context), TokenizedText.of(question)
        for name, text in zip(self.fields, (c, q), strict=True):
            if not text.words:
                raise UserError(f"{place}: the {name} has no word".removeprefix(": "))
        self._look_up([*c.words, *q.words])
        cuts = windows(len(c.words), self._settings.window, self._settings.stride)
        pointers = np.full((2, len(c.words)), -np.inf)  # each word's largest logits
        spans: dict[tuple[int, int], float] = {}
        for (offset, stop), outputs in zip(cuts, self._decoded(c, q, cuts), strict=True):
            here = pointers[:, offset:stop]
            logits = np.stack([outputs["start"], outputs["end"]])
            np.maximum(here, logits[:, : stop - offset], out=here)
            for first, last, score in zip(
                *(outputs[name] for name in ("first", "last", "score")), strict=True
            ):
                if offset + last < stop:
                    span = offset + int(first), offset + int(last)
                    spans[span] = max(spans.get(span, -np.inf), float(score))
        total = np.logaddexp.reduce(pointers, axis=1).sum()
        answers = []
        for span in sorted(spans, key=lambda span: -spans[span])[: self._count]:
            start, end = c.spans[span[0]][0], c.spans[span[1]][1]
            probability = min(1.0, float(np.exp(spans[span] - total)))  # the score is rounded
            answers.append(PredictedSpan(context[start:end], start, end, probability))
        return answers

    def _look_up(self, words: Iterable[str]) -> None:
        """Reads the vectors of words that the run lacks, in one pass over the file."""
        if not self._vectors:
            return
        new = set(words) - self._looked_up
        self._looked_up |= new
        if lacking := [word for word in sorted(new) if word not in self._known]:
            bad_examples = BadExamples(self._settings.on_bad_example)
            more = read_vectors(self._vectors, lacking, self._settings.word_dim, bad_examples)
            self._vocabulary = self._vocabulary.extended(more)

    def _decoded(
        self, context: TokenizedText, question: TokenizedText, cuts: Sequence[tuple[int, int]]
    ) -> Iterator[dict[str, np.ndarray]]:
        """The outputs of `SpanExtraction.decode` for each window, computed in batches."""
        settings = self._settings
        width = min(padded_width(max(stop - start for start, stop in cuts)), settings.window)
        rows = batch_rows(len(cuts), width, settings.eval_batch_tokens)
        for at in range(0, len(cuts), rows):
            parts = [context.part(*cut) for cut in cuts[at : at + rows]]
            questions = [question] * len(parts)
            widths = {"context": width, "question": padded_width(len(question.words)), "": 0}
            batch = self._encoded("context", parts, rows, width)
            batch |= self._encoded("question", questions, rows, widths["question"])
            pairs = [{"context": part.words, "question": question.words} for part in parts]
            arrays = [encode(self._inputs, texts, {}) for texts in pairs]
            for column in self._inputs:
                own = [each[column.name] for each in arrays]
                batch[column.name] = column.padded(own, rows, widths[column.text])
            outputs = {name: np.asarray(a) for name, a in self._decode(batch).items()}
            yield from ({name: a[row] for name, a in outputs.items()} for row in range(len(parts)))

    def _encoded(
        self, name: str, texts: Sequence[TokenizedText], rows: int, width: int
    ) -> dict[str, np.ndarray]:
        """A batch's arrays of one of its texts, padded to `rows` and to `width` words."""
        vocabulary, length = self._vocabulary, self._settings.word_length
        words = padded([vocabulary.word_ids(text.words) for text in texts], rows, width)
        characters = np.zeros((rows, width, length), np.int32)
        for row, text in enumerate(texts):
            characters[row, : len(text.words)] = vocabulary.char_ids(text.words, length)
        return text_arrays(name, words, characters, vocabulary)


@dataclasses.dataclass(frozen=True)
class _Request:
    """An input line.

    Attributes:
      place: its location.
      id: {"id": ...} unchanged, or empty.
    """

    context: str
    question: str
    place: str
    id: dict[str, Any]

    @classmethod
    def of(cls, line: str, source: str, number: int) -> "_Request":
        request = parse_json(line, source, number)
        context, question = (request.get(name, str) for name in QuestionAnswerer.fields)
        id_field = {"id": request.value["id"]} if "id" in request.value else {}
        if id_field:
            request.get("id", int if type(id_field["id"]) is int else str)  # checks the type
        return cls(context, question, request.place, id_field)


def _as_json(span: PredictedSpan) -> dict[str, Any]:
    return {
        "answer": span.text,
        "start": span.start,
        "end": span.end,
        "probability": round(span.probability, 6),
    }
