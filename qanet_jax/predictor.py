"""Text interface of the question answerer: encodes text, decodes answers; imports no model."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from common_jax.bad_examples import BadExamples
from common_jax.columns import Quotes
from common_jax.data.padding import Group, grouped, padded
from common_jax.deploy.answer import AttentionMap
from common_jax.deploy.predictor import (
    MIN_PROBABILITY,
    CompiledFunctions,
    Compute,
    Option,
    Predictor,
    checked_probability,
    outputs_of,
)
from common_jax.deploy.schema import UNKNOWN_WORDS, Schema, Text, View, json_schema
from common_jax.errors import Location, UserError, error_context
from common_jax.fields import require
from common_jax.inputs import WIDEST, columns_of, encode, inputs_from_text, padded_inputs
from common_jax.io.json_files import parse_json
from common_jax.io.storage import local_copy
from common_jax.text.cleaning import clean
from common_jax.text.vectors import read_vectors
from common_jax.text.vocabulary import Vocabulary
from qanet_jax.data.text import TEXTS, TokenizedText, text_arrays, windows
from qanet_jax.reading import OUTPUTS, PredictedSpan, Reading, SpanAnswer


class QuestionAnswerer(Predictor):
    """Answers questions about contexts of any length, split into overlapping windows."""

    CHUNK = 64  # questions computed together

    fields = TEXTS
    options = (
        Option("count", int, "answers to each question, best first (3)", compiled=True),
        Option("answer_length", int, "words of the longest answer (the run's)", decoding=True),
        MIN_PROBABILITY,
        Option("vectors", str, "the run's data.vectors, for words that its corpus lacks", "FILE"),
        Option("explain", bool, "also each word's probabilities, and its attention", detail=True),
    )

    @dataclasses.dataclass(frozen=True)
    class Settings:
        """The predictor's part of a run's config.

        Attributes:
          word_dim: dimensions of a word's vector.
          word_length: characters of a word.
          window, stride: length in words of the windows of a longer context, and the distance of
            their starts.
          eval_batch_tokens: context words of a batch.
          on_bad_example: policy for invalid rows of `vectors`.
          inputs: the model's inputs beside words (`common_jax.inputs.inputs_to_text`).
          question_length: longest question of training in words; 0 if unknown. Contexts are split
            into windows.
          answer_length: longest answer in words; 0 if unknown, in older exports.
          quotes: of tables, as of `DataConfig`.
          columns: of tables, as of `Schema`.
        """

        word_dim: int
        word_length: int
        window: int
        stride: int
        eval_batch_tokens: int
        on_bad_example: Literal["error", "skip"]
        inputs: str = ""
        question_length: int = 0
        answer_length: int = 0
        quotes: Quotes = "auto"
        columns: str = ""

        def __post_init__(self):
            for name in ("word_dim", "word_length", "stride", "eval_batch_tokens"):
                require(getattr(self, name) >= 1, f"{name}={getattr(self, name)}: at least 1")
            require(self.word_length <= WIDEST, f"word_length={self.word_length}: at most {WIDEST}")
            require(self.stride <= self.window, f"stride={self.stride}: at most {self.window}")
            inputs_from_text(self.inputs)

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: Settings,
        programs: CompiledFunctions,
        *,
        count: int = 3,
        answer_length: int | None = None,
        min_probability: float | None = None,
        vectors: str = "",
        explain: bool = False,
    ):
        """
        Args:
          programs: from `qanet_jax.data.text.text_arrays` of both texts to the arrays of
            `SpanExtraction.decode`.
          count: number of answers to a question, best first.
          answer_length: longest answer in words; None for the run's.
          min_probability: of an answer; "" is answered instead of a less probable one.
          vectors: the file of the run's data.vectors, for words that its corpus lacks; without it,
            these are represented by their characters only.
          explain: whether to return the probabilities of words.

        Raises:
          UserError: for `vectors` with trained word vectors, if `programs` return fewer than
            `count` answers, or for inputs whose class is not installed.
        """
        # The options against the run's windows and vectors.
        require(count >= 1, f"count={count}: at least 1")
        longest = settings.window - settings.stride  # so that no window cuts an answer
        require(
            answer_length is None or 1 <= answer_length <= max(longest, settings.answer_length),
            f"answer_length={answer_length}: 1 to {longest}, by which windows overlap",
        )
        changed = (
            {}
            if answer_length in (None, settings.answer_length)
            else {"answer_length": answer_length}
        )

        self._least = checked_probability(min_probability)
        self._known = self._vocabulary = vocabulary
        self._settings = settings
        self._count = count
        self._vectors = vectors
        self._explain = explain
        self._attention: Compute | None = None
        self._inputs = columns_of(inputs_from_text(settings.inputs), TEXTS)
        self._looked_up: set[str] = set()
        self._extending = threading.Lock()  # requests of several threads extend the vocabulary
        if vectors and self._vocabulary.table is None:
            raise UserError(f"vectors={vectors}: this run has trained vectors, and reads no others")

        # The program with the fewest answers that are enough.
        self._at_once = programs.at_once
        enough = (available for available in programs.choices("count") if available >= count)
        self._decode = programs(count=next(enough, count), **changed)
        with contextlib.suppress(UserError):  # an export has no program for it
            self._attention = programs(attention=1) if explain else None

    @classmethod
    def read_vocabulary(cls, folder: Path) -> Vocabulary:
        return Vocabulary.load(folder)

    @classmethod
    def tables(cls, vocabulary: Vocabulary) -> dict[str, int]:
        words = {} if vocabulary.table is not None else {"word_embedding": vocabulary.size}
        return {**words, "character_embedding": vocabulary.char_size}

    @property
    def longest(self) -> tuple[int, ...]:
        return 0, self._settings.question_length  # contexts are split into windows

    @property
    def widest(self) -> tuple[int, ...]:
        return self._settings.window, self._settings.question_length

    def widths(self, line: "_Request") -> tuple[int, ...]:  # type: ignore[override]
        context, question = super().widths(line)
        return min(context, self._settings.window), question

    @property
    def reads_all(self) -> bool:  # type: ignore[override]
        """Whether all lines are read before the first answer: with a file of vectors."""
        return bool(self._vectors)  # one pass over the file

    def parse(self, line: str, place: str | Location) -> "_Request":
        """The texts of a line {"context": ..., "question": ...}, with an optional "id"."""
        request = parse_json(clean(line), place)
        context, question = (request.get(name, str) for name in self.fields)
        id_field = {"id": request.value["id"]} if "id" in request.value else {}
        if id_field:
            request.get("id", int if type(id_field["id"]) is int else str)  # checks the type
        with error_context(request.place):
            return self._request(context, question, id_field)

    def _request(self, context: str, question: str, id_field: Mapping[str, Any]) -> "_Request":
        """The words of the texts; raises UserError if one has none."""
        texts = {"context": context, "question": question}
        for name, text in texts.items():
            require(bool(clean(text)), f"the {name} has no word")
        rule = self._vocabulary.rule
        words = [TokenizedText.of(text, rule) for text in texts.values()]
        return _Request(context, words[0], words[1], id_field)

    def answers(self, requests: Sequence["_Request"]) -> Iterator[SpanAnswer]:
        self._look_up(requests)
        chunks = (requests[at : at + self.CHUNK] for at in range(0, len(requests), self.CHUNK))
        for chunk in chunks:
            for request, reading in zip(chunk, self._read(chunk), strict=True):
                best, *following = (span.rounded for span in self._answers_of(reading))
                fields: dict[str, Any] = {
                    **request.id,
                    **vars(best),
                    "next": following,
                    "unknown_words": self._vocabulary.unknown(
                        request.context.words, request.question.words
                    ),
                }
                if self._explain:
                    fields |= {"pointers": reading.pointers(), **self._attended(request)}
                yield SpanAnswer(**fields)

    @property
    def schema(self) -> Schema:
        return Schema(
            title="Questions about a passage (QANet)",
            about="Finds the words of a passage that answer a question.",
            texts=(
                Text("context", "Passage", lines=8, hint="a text in which the answer stands"),
                Text("question", "Question", lines=2, hint="a question on the passage"),
            ),
            line="json",
            output=json_schema(SpanAnswer),
            views=(
                View("span", "", "Answer", of="context"),
                View("table", "next", "Next best answers"),
                UNKNOWN_WORDS,
                View("curves", "pointers", "Probability of each word as first and as last"),
                View("words", "layers", "Context-query attention", of="words"),
            ),
            quotes=self._settings.quotes,
            columns=self._settings.columns,
            explained_length=1000,
            generated="It is trained on generated passages about invented people, villages and "
            "things.",
            outside=(
                "Ada lives in Rome. Ben, her brother, is a painter in Turin.",
                "Who lives in Rome?",
            ),
        )

    def answer(self, context: str, question: str) -> list[PredictedSpan]:
        """The best answers to a question, best first; the first is "" below `min_probability`.

        Raises:
          UserError: if either text has no word.
        """
        (read,) = self._read([self._request(context, question, {})])
        return self._answers_of(read)

    def _answers_of(self, reading: "Reading") -> list[PredictedSpan]:
        """The best answers, of which the first may be ""."""
        best, *following = reading.answers(self._count)
        if best.rounded.probability < self._least:
            best = dataclasses.replace(best, answer="", end=best.start)
        return [best, *following]

    def _read(self, requests: Sequence["_Request"]) -> list["Reading"]:
        """The model's outputs for each request."""
        self._look_up(requests)
        readings = [Reading(request.text, request.context) for request in requests]
        rows = self._windows(requests)
        for window, outputs in zip(rows, self._computed(self._decode, rows, OUTPUTS), strict=True):
            readings[window.number].add(window.start, window.stop, outputs)
        return readings

    def _attended(self, request: "_Request") -> dict[str, Any]:
        """The words and the context-query attention of a request, for `SpanAnswer`; empty without
        attention. A word in several windows has the weights of the last."""
        if self._attention is None:
            return {}
        words = request.context.words, request.question.words
        weights = np.zeros(tuple(map(len, words)))
        rows = self._windows([request])
        for window, outputs in zip(rows, self._computed(self._attention, rows), strict=True):
            if "attention" not in outputs:
                return {}
            length = window.stop - window.start
            weights[window.start : window.stop] = outputs["attention"][:length, : len(words[1])]
        return {"words": [*words], "layers": [[AttentionMap(0, 1, np.round(weights, 4))]]}

    def _look_up(self, requests: Sequence["_Request"]) -> None:
        """Reads the vectors of words that the run lacks, in one pass over the file, which must have
        the run's vectors of the other words."""
        if not self._vectors:
            return
        texts = (text for request in requests for text in (request.context, request.question))
        words = {word for text in texts for word in text.words}
        with self._extending:
            new = words - self._looked_up
            if not new <= self._known.words.keys():
                self._extend(sorted(new))
            self._looked_up |= new

    def _extend(self, words: Sequence[str]) -> None:
        """Reads the vectors of words."""
        bad_examples = BadExamples(self._settings.on_bad_example, option="")
        read = read_vectors(local_copy(self._vectors), words, self._settings.word_dim, bad_examples)
        same = self._known.has_vectors_of(read)
        require(same, f"vectors={self._vectors}: other vectors than the run has; use its file")
        self._vocabulary = self._vocabulary.extended(read)

    def _windows(self, requests: Sequence["_Request"]) -> list["_Window"]:
        size = self._settings.window
        stride = self._settings.stride
        return [
            _Window(number, request, *cut)
            for number, request in enumerate(requests)
            for cut in windows(len(request.context.words), size, stride)
        ]

    def _computed(
        self, compute: Compute, rows: Sequence["_Window"], needed: Sequence[str] = ()
    ) -> list[dict[str, np.ndarray]]:
        """The outputs of a program for each window, computed in batches."""
        # Windows of similar lengths are one batch.
        shapes = [self.widths(row.request) for row in rows]
        computed: list[dict[str, np.ndarray]] = [{} for _ in rows]
        batches = [*grouped(shapes, self._settings.eval_batch_tokens)]
        arrays = (self._batch([rows[at] for at in group.members], group) for group in batches)
        results = outputs_of(compute, arrays, self._at_once, needed)

        # The outputs in the order of the windows, without padding.
        for group, result in zip(batches, results, strict=True):
            outputs = {name: np.asarray(array) for name, array in result.items()}
            for row, at in enumerate(group.members):
                computed[at] = {name: array[row] for name, array in outputs.items()}
        return computed

    def _batch(self, members: Sequence["_Window"], group: Group) -> dict[str, np.ndarray]:
        texts = [(w.request.context.part(w.start, w.stop), w.request.question) for w in members]
        widths = dict(zip(TEXTS, group.widths, strict=True))
        batch: dict[str, np.ndarray] = {}
        for name, column in zip(TEXTS, zip(*texts, strict=True), strict=True):
            batch |= self._encoded(name, column, group.rows, widths[name])
        words = [{name: t.words for name, t in zip(TEXTS, pair, strict=True)} for pair in texts]
        examples = [encode(self._inputs, words_by_text, {}) for words_by_text in words]
        return batch | padded_inputs(self._inputs, examples, group.rows, widths)

    def _encoded(
        self, name: str, texts: Sequence[TokenizedText], rows: int, width: int
    ) -> dict[str, np.ndarray]:
        """A batch's arrays for one of `TEXTS`, padded to `rows` and to `width` words."""
        vocabulary = self._vocabulary
        length = self._settings.word_length
        words = padded([vocabulary.word_ids(text.words) for text in texts], rows, width)
        characters = np.zeros((rows, width, length), np.int32)
        for row, text in enumerate(texts):
            characters[row, : len(text.words)] = vocabulary.char_ids(text.words, length)
        return text_arrays(name, words, characters, vocabulary)


class _Request(NamedTuple):
    """An input line.

    Attributes:
      text: the raw context.
      id: {"id": ...} of the line, or empty.
    """

    text: str
    context: TokenizedText
    question: TokenizedText
    id: Mapping[str, Any]

    @property
    def lengths(self) -> tuple[int, int]:
        """The numbers of words of the context and of the question."""
        return len(self.context.words), len(self.question.words)


class _Window(NamedTuple):
    """A window of a context.

    Attributes:
      number: of its request.
      start, stop: the window's words in the context.
    """

    number: int
    request: _Request
    start: int
    stop: int
