"""A trained reader of anybody's text: the half of it that reads and writes text."""

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
      text: as it stands in the context.
      start, end: its characters there, context[start:end].
      probability: p1 p2 of its first and its last word over all of the context, where a word in
        several windows has the largest of its logits.
    """

    text: str
    start: int
    end: int
    probability: float


class QuestionAnswerer(Predictor):
    """Answers questions about contexts of any length; long ones are read in overlapping windows."""

    fields = TEXTS
    options = (
        Option("count", int, "answers to a question, best first (3)", compiled=True),
        Option("vectors", str, "the run's data.vectors, for words that its corpus lacks", "FILE"),
    )

    @dataclasses.dataclass(frozen=True)
    class Settings:
        """What it needs of a run's config, whose names these are.

        Attributes:
          word_dim: numbers of a word's vector.
          word_length: characters of a word that are read.
          window, stride: words of a longer context that are read at once, and from the start of
            one such window to that of the next.
          eval_batch_tokens: context words that are read together.
          on_bad_example: what becomes of a bad row of `vectors`.
          inputs: what the model reads beside words (`common_jax.inputs.inputs_to_text`).
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
          programs: `qanet_jax.data.text.text_arrays` of both texts give `SpanExtraction.decode`'s.
          count: how many answers to give to a question, best first.
          vectors: the file of the run's data.vectors, for words that its corpus lacks; without it
            they are read by their characters alone.

        Raises:
          UserError: for `vectors` where the run trained its own, where `programs` find fewer than
            `count`, or for inputs whose class is not installed.
        """
        require(count >= 1, f"count={count}: at least 1")
        self._known = self._vocabulary = vocabulary
        self._settings, self._count, self._vectors = settings, count, vectors
        self._inputs = columns_of(inputs_from_text(settings.inputs, "settings.inputs"), TEXTS)
        self._looked_up: set[str] = set()
        if vectors and self._vocabulary.table is None:
            raise UserError(f"vectors={vectors}: this run trained its own, and can take no others")
        enough = (found for found in programs.choices("count") if found >= count)
        self._decode = programs(count=next(enough, count))

    @classmethod
    def read_vocabulary(cls, folder: Path) -> Vocabulary:
        return Vocabulary.load(folder)

    def predict(self, lines: Iterable[str], source: str = "lines") -> Iterator[str]:
        """Answers {"context": ..., "question": ...}, a JSON object a line, with one a line:
        answer, start, end, probability, and `next`, a list of the next best alike. An "id" comes
        back with its answer. With `vectors` all lines are read before the first is answered."""
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
          place: where the two come from, for an error.

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
        for (offset, stop), found in zip(cuts, self._decoded(c, q, cuts), strict=True):
            here = pointers[:, offset:stop]
            logits = np.stack([found["start"], found["end"]])
            np.maximum(here, logits[:, : stop - offset], out=here)
            for first, last, score in zip(
                *(found[name] for name in ("first", "last", "score")), strict=True
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
        """Reads the vectors of words that the run lacks, all in one pass through their file."""
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
        """What `SpanExtraction.decode` finds in each window, a few of them read at once."""
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
                own = [found[column.name] for found in arrays]
                batch[column.name] = column.padded(own, rows, widths[column.text])
            found = {name: np.asarray(a) for name, a in self._decode(batch).items()}
            yield from ({name: a[row] for name, a in found.items()} for row in range(len(parts)))

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
    """A line that asks a question.

    Attributes:
      place: of the line.
      id: {"id": ...} as it was given, or nothing.
    """

    context: str
    question: str
    place: str
    id: dict[str, Any]

    @classmethod
    def of(cls, line: str, source: str, number: int) -> "_Request":
        request = parse_json(line, source, number)
        context, question = (request.get(name, str) for name in QuestionAnswerer.fields)
        given = {"id": request.value["id"]} if "id" in request.value else {}
        if given:
            request.get("id", int if type(given["id"]) is int else str)  # whether it can be written
        return cls(context, question, request.place, given)


def _as_json(found: PredictedSpan) -> dict[str, Any]:
    return {
        "answer": found.text,
        "start": found.start,
        "end": found.end,
        "probability": round(found.probability, 6),
    }
