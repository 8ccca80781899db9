"""A trained model that answers questions about anybody's text."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from common_jax.errors import UserError
from common_jax.training.task import Params, Predictor
from qanet_jax.prepare import Text, windows

if TYPE_CHECKING:
    from qanet_jax.task import SpanExtraction


@dataclasses.dataclass(frozen=True)
class Found:
    """An answer.

    Attributes:
      text: as it stands in the context.
      start, end: its characters there, context[start:end].
      probability: p1 p2 of its first and its last word, over all of the context.
    """

    text: str
    start: int
    end: int
    probability: float


class Reader(Predictor):
    """Answers questions about contexts of any length; long ones are read in overlapping windows."""

    def __init__(self, task: "SpanExtraction", params: Params, *, count: int = 3):
        """
        Args:
          count: how many answers to give to a question, best first.
        """
        self._task, self._params, self._count = task, params, count
        self._decode = jax.jit(lambda params, batch: task.decode(params, batch, count))

    def predict(self, lines: Iterable[str]) -> Iterator[str]:
        """Answers {"context": ..., "question": ...}, a JSON object a line, with one a line:
        answer, start, end, probability, and `next`, a list of the next best alike. An "id" comes
        back with its answer."""
        for number, line in enumerate(lines, start=1):
            request = _request(line, number)
            best, *others = self.answer(request["context"], request["question"], line=number)
            answer = _as_json(best) | {"next": [_as_json(other) for other in others]}
            given = {"id": request["id"]} if "id" in request else {}
            yield json.dumps({**given, **answer}, ensure_ascii=False)

    def line(self, context: str, question: str) -> str:
        return json.dumps({"context": context, "question": question}, ensure_ascii=False)

    def answer(self, context: str, question: str, *, line: int | None = None) -> list[Found]:
        """The best answers to a question, best first.

        Args:
          line: what an error says of where the two come from.

        Raises:
          UserError: if either has no word.
        """
        place = "" if line is None else f"line {line}: "
        c, q = Text.of(context), Text.of(question)
        for name, text in (("context", c), ("question", q)):
            if not text.words:
                raise UserError(f"{place}the {name} has no word")
        config = self._task.config.data
        cuts = windows(len(c.words), config.window, config.stride)
        batch = self._batch([c.part(*cut) for cut in cuts], q)
        found = jax.device_get(self._decode(self._params, batch))
        total = np.logaddexp.reduce(found["normaliser"][: len(cuts)].astype(np.float64))
        spans: dict[tuple[int, int], float] = {}
        for row, (offset, stop) in enumerate(cuts):
            for first, last, score in zip(
                *(found[name][row] for name in ("first", "last", "score")), strict=True
            ):
                if offset + last < stop:
                    span = offset + int(first), offset + int(last)
                    spans[span] = max(spans.get(span, -np.inf), float(score))
        best = sorted(spans, key=lambda span: -spans[span])[: self._count]
        answers = []
        for span in best:
            start, end = c.spans[span[0]][0], c.spans[span[1]][1]
            probability = float(np.exp(spans[span] - total))
            answers.append(Found(context[start:end], start, end, probability))
        return answers

    def _batch(self, contexts: Sequence[Text], question: Text) -> dict[str, Any]:
        """Windows and the question, in one of few shapes."""
        lexicon, length = self._task.data.lexicon, self._task.config.data.word_length
        rows = 1 << (len(contexts) - 1).bit_length()
        batch: dict[str, Any] = {}
        for name, texts in (("context", contexts), ("question", [question] * len(contexts))):
            width = _width(max(len(text.words) for text in texts))
            words = np.zeros((rows, width), np.int32)
            characters = np.zeros((rows, width, length), np.int32)
            for row, text in enumerate(texts):
                words[row, : len(text.words)] = lexicon.words(text.words)
                characters[row, : len(text.words)] = lexicon.characters(text.words, length)
            batch |= {name: words, f"{name}_characters": characters}
            if lexicon.table is not None:
                batch[f"{name}_vectors"] = lexicon.vectors(words)
        return batch


def _width(length: int) -> int:
    """The next power of two, 16 at least: few shapes, hence few compilations."""
    return max(16, 1 << (length - 1).bit_length())


def _as_json(found: Found) -> dict[str, Any]:
    return {
        "answer": found.text,
        "start": found.start,
        "end": found.end,
        "probability": round(found.probability, 6),
    }


def _request(line: str, number: int) -> dict[str, Any]:
    """A line's context and question."""
    try:
        request = json.loads(line)
    except ValueError as error:
        raise UserError(f"standard input:{number}: not JSON ({error})") from error
    if not isinstance(request, dict) or not all(
        isinstance(request.get(name), str) for name in ("context", "question")
    ):
        raise UserError(f'standard input:{number}: needs {{"context": "...", "question": "..."}}')
    return request
