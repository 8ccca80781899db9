"""A trained model that answers questions about anybody's text."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from common_jax.data.requests import padded, padded_width, rows_for
from common_jax.errors import UserError
from common_jax.faults import Faults
from common_jax.text.json_files import parse_json
from common_jax.text.vectors import read_vectors
from common_jax.training.task import Params, Predictor
from qanet_jax.data import text_arrays
from qanet_jax.prepare import Text, windows

if TYPE_CHECKING:
    from qanet_jax.task import SpanExtraction


@dataclasses.dataclass(frozen=True)
class Found:
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


class Reader(Predictor):
    """Answers questions about contexts of any length; long ones are read in overlapping windows."""

    fields = ("context", "question")

    def __init__(
        self, task: "SpanExtraction", params: Params, *, count: int = 3, vectors: str = ""
    ):
        """
        Args:
          count: how many answers to give to a question, best first.
          vectors: the file of the run's data.vectors, for words that its corpus lacks; without it
            they are read by their characters alone.

        Raises:
          UserError: for `vectors` where the run trained its own.
        """
        self._task, self._params, self._count = task, params, count
        self._lexicon, self._vectors = task.data.lexicon, vectors
        self._looked_up: set[str] = set()
        if vectors and self._lexicon.table is None:
            raise UserError(f"vectors={vectors}: this run trained its own, and can take no others")
        self._decode = jax.jit(lambda params, batch: task.decode(params, batch, count))

    def predict(self, lines: Iterable[str], source: str = "lines") -> Iterator[str]:
        """Answers {"context": ..., "question": ...}, a JSON object a line, with one a line:
        answer, start, end, probability, and `next`, a list of the next best alike. An "id" comes
        back with its answer. With `vectors` all lines are read before the first is answered."""
        numbered = enumerate(lines, start=1)
        requests: Iterable[_Request] = (_Request.of(line, source, n) for n, line in numbered)
        if self._vectors:
            requests = list(requests)
            texts = (Text.of(text) for r in requests for text in (r.context, r.question))
            self._look_up(word for text in texts for word in text.words)
        for request in requests:
            best, *others = self.answer(request.context, request.question, place=request.place)
            answer = _as_json(best) | {"next": [_as_json(other) for other in others]}
            yield json.dumps({**request.id, **answer}, ensure_ascii=False)

    def answer(self, context: str, question: str, *, place: str = "") -> list[Found]:
        """The best answers to a question, best first.

        Args:
          place: where the two come from, for an error.

        Raises:
          UserError: if either has no word.
        """
        c, q = Text.of(context), Text.of(question)
        for name, text in zip(self.fields, (c, q), strict=True):
            if not text.words:
                raise UserError(f"{place}: the {name} has no word".removeprefix(": "))
        self._look_up([*c.words, *q.words])
        config = self._task.config.data
        cuts = windows(len(c.words), config.window, config.stride)
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
            answers.append(Found(context[start:end], start, end, probability))
        return answers

    def _look_up(self, words: Iterable[str]) -> None:
        """Reads the vectors of words that the run lacks, all in one pass through their file."""
        if not self._vectors:
            return
        new = set(words) - self._looked_up
        self._looked_up |= new
        known = self._task.data.lexicon
        if lacking := [word for word in sorted(new) if word not in known]:
            config = self._task.config
            faults = Faults(config.data.on_bad_example)
            more = read_vectors(self._vectors, lacking, config.model.word_dim, faults)
            self._lexicon = self._lexicon.extended(more)

    def _decoded(
        self, context: Text, question: Text, cuts: Sequence[tuple[int, int]]
    ) -> Iterator[dict[str, np.ndarray]]:
        """What `SpanExtraction.decode` finds in each window, a few of them read at once."""
        config = self._task.config.data
        width = min(padded_width(max(stop - start for start, stop in cuts)), config.window)
        rows = rows_for(len(cuts), width, config.evaluation_positions)
        for at in range(0, len(cuts), rows):
            parts = [context.part(*cut) for cut in cuts[at : at + rows]]
            questions = [question] * len(parts)
            batch = self._encoded("context", parts, rows, width)
            batch |= self._encoded("question", questions, rows, padded_width(len(question.words)))
            found = jax.device_get(self._decode(self._params, batch))
            yield from ({name: a[row] for name, a in found.items()} for row in range(len(parts)))

    def _encoded(
        self, name: str, texts: Sequence[Text], rows: int, width: int
    ) -> dict[str, np.ndarray]:
        """A batch's arrays of one of its texts, padded to `rows` and to `width` words."""
        lexicon, length = self._lexicon, self._task.config.data.word_length
        words = padded([lexicon.words(text.words) for text in texts], rows, width)
        characters = np.zeros((rows, width, length), np.int32)
        for row, text in enumerate(texts):
            characters[row, : len(text.words)] = lexicon.characters(text.words, length)
        return text_arrays(name, words, characters, lexicon)


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
        context, question = (request.get(name, str) for name in Reader.fields)
        given = {"id": request.value["id"]} if "id" in request.value else {}
        if type(given.get("id")) is str:
            request.get("id", str)  # whether it can be written
        return cls(context, question, request.place, given)


def _as_json(found: Found) -> dict[str, Any]:
    return {
        "answer": found.text,
        "start": found.start,
        "end": found.end,
        "probability": round(found.probability, 6),
    }
