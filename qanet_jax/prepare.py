"""Builds the prepared folder of a reading corpus.

For each split two corpora. `passages`: a passage's words, their characters, and where each word
starts and ends in its text. `questions`: words and characters, the number of the passage, and the
answer's first and last word. In training they are as they come; in evaluation a longer passage is
cut into overlapping windows, and a question is there once for each. `squad.json` keeps the texts
that evaluation scores, and `golds.json` what TriviaQA scores them by.
"""

import bisect
import dataclasses
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common_jax.data.corpus import Writer, file_identity
from common_jax.errors import UserError
from common_jax.faults import Faults, summary
from common_jax.text.lexicon import Lexicon
from common_jax.text.squad import Answer, Question, Squad
from common_jax.text.vectors import read_vectors
from common_jax.text.words import split_words
from qanet_jax.sources import Golds, Source, Split, source_of, splits_of

if TYPE_CHECKING:
    from qanet_jax.config import DataConfig, ModelConfig

PASSAGE_COLUMNS = ("words", "characters", "starts", "ends")
QUESTION_COLUMNS = ("words", "characters", "passage", "number", "answer")

_FORMAT = 1  # of the folder; another one prepares everything anew


@dataclasses.dataclass(frozen=True)
class Text:
    """A text cut into words.

    Attributes:
      words: as they stand in it.
      spans: start and end of each, in characters.
    """

    words: list[str]
    spans: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str) -> "Text":
        spans = split_words(text)
        return cls([text[start:end] for start, end in spans], spans)

    def part(self, start: int, stop: int) -> "Text":
        """Some of the words; their spans are still the whole text's."""
        return Text(self.words[start:stop], self.spans[start:stop])

    def locate(self, answer: Answer) -> tuple[int, int] | None:
        """The first and last word that an answer has a character of; None if it has no word."""
        end = answer.start + len(answer.text)
        first = bisect.bisect_right(self.spans, answer.start, key=lambda span: span[1])
        last = bisect.bisect_left(self.spans, end, key=lambda span: span[0]) - 1
        return (first, last) if first <= last else None


def windows(length: int, window: int, stride: int) -> list[tuple[int, int]]:
    """Start and stop of windows over `length` words, together over all of them.

    Each but the first starts `stride` words behind the one before; the last ends with the text.
    """
    starts = range(0, max(1, length - window + stride), stride)
    return [(start, min(start + window, length)) for start in starts]


class Builder:
    """What `common_jax.data.corpus.prepare` wants: a fingerprint, and the building itself.

    Attributes:
      seconds: that `build` took; None where it was not needed.
    """

    def __init__(self, config: "DataConfig", model: "ModelConfig"):
        """Finds the files.

        Raises:
          UserError: if one is missing.
        """
        self._config, self._model = config, model
        self.seconds: float | None = None
        self._sources: dict[Split, Source] = {s: source_of(config, s) for s in splits_of(config)}

    def fingerprint(self) -> dict[str, Any]:
        """All that decides the folder's content; reads every file once."""
        config, model = self._config, self._model
        return {
            "span extraction": _FORMAT,
            "sources": {split: source.identity() for split, source in self._sources.items()},
            "vectors": file_identity(config.vectors) if config.vectors else None,
            "lexicon": [model.word_dim, model.word_rows, model.char_rows],
            "limits": [
                *(config.word_length, config.context_length, config.question_length),
                *(config.answer_length, config.window, config.stride),
            ],
            "on_bad_example": config.on_bad_example,
        }

    def build(self, folder: Path) -> None:
        """Fills the empty folder.

        Raises:
          UserError: whatever is wrong with the data.
        """
        began = time.monotonic()
        faults = {split: Faults(self._config.on_bad_example) for split in self._sources}
        read = {split: source.read(faults[split]) for split, source in self._sources.items()}
        texts = {split: _texts(squad) for split, (squad, _) in read.items()}
        lexicon = self._lexicon(texts)
        lexicon.save(folder)
        for split, (squad, golds) in read.items():
            writer = _SplitWriter(folder / split, self._config, lexicon, faults[split])
            writer.write(squad, *texts[split], self._sources[split].place)
            if golds is not None:
                _write_json(folder / split / "golds.json", golds)
        self.seconds = time.monotonic() - began

    def _lexicon(self, texts: Mapping[Split, tuple[list[Text], list[Text]]]) -> Lexicon:
        """Of the training words; the vectors, which nothing trains, of all splits' words too."""
        config, model = self._config, self._model
        counted = texts if config.vectors else {"train": texts["train"]}
        counts = Counter[str]()
        for both in counted.values():
            for text in (*both[0], *both[1]):
                counts.update(text.words)
        if not config.vectors:
            return Lexicon.make(counts, model.word_rows, model.char_rows)
        try:
            vectors = read_vectors(config.vectors, counts, model.word_dim)
        except UserError as error:
            raise UserError(f"data.vectors: {error}") from error
        return Lexicon.make(counts, vectors, model.char_rows)


class _SplitWriter:
    """Writes one split."""

    def __init__(self, folder: Path, config: "DataConfig", lexicon: Lexicon, faults: Faults):
        self._folder, self._config, self._lexicon = folder, config, lexicon
        self._faults, self._train = faults, folder.name == "train"

    def write(self, squad: Squad, contexts: list[Text], questions: list[Text], place: Any) -> None:
        folder = self._folder
        with (
            Writer(folder / "passages", PASSAGE_COLUMNS) as passages,
            Writer(folder / "questions", QUESTION_COLUMNS) as rows,
        ):
            numbers = [self._windows(passages, context) for context in contexts]
            examples = self._answered if self._train else self._asked
            kept = 0
            for row in examples(squad, contexts, questions, numbers, place):
                rows.append(row)
                kept += 1
            if not kept:
                dropped = summary(self._faults.kinds)
                raise UserError(
                    f"{place}: no questions left for {folder.name}"
                    + (f": {dropped}" if dropped else "")
                )
            rows.meta["dropped"] = self._faults.kinds
        if not self._train:
            _write_json(folder / "squad.json", dataclasses.asdict(squad))

    def _windows(self, passages: Writer, context: Text) -> range:
        """Writes a passage, and says which rows it has become."""
        config, before = self._config, passages.rows
        length = len(context.words)
        cuts = [(0, length)] if self._train else windows(length, config.window, config.stride)
        for start, stop in cuts:
            part = context.part(start, stop)
            starts, ends = zip(*part.spans, strict=True) if part.spans else ((), ())
            passages.append({**self._encoded(part), "starts": starts, "ends": ends})
        return range(before, passages.rows)

    def _answered(
        self,
        squad: Squad,
        contexts: Sequence[Text],
        questions: Sequence[Text],
        numbers: Sequence[range],
        place: Any,
    ) -> Iterator[dict[str, Any]]:
        """Training examples: the first answer is the one to find."""
        config = self._config
        for number, (question, text) in enumerate(zip(squad.questions, questions, strict=True)):
            context = contexts[question.context]
            span = context.locate(question.answers[0])
            at = f"{place}: question {question.id}"
            if span is None or not text.words:
                self._faults.bad("an answer or a question without a word", at)
                continue
            lengths = {
                "context": len(context.words),
                "question": len(text.words),
                "answer": span[1] - span[0] + 1,
            }
            limits = {name: getattr(config, f"{name}_length") for name in lengths}
            over = [name for name, length in lengths.items() if length > limits[name]]
            if over:
                kind = f"over data.{over[0]}_length={limits[over[0]]} words"
                self._faults.drop(kind, at)
                continue
            (passage,) = numbers[question.context]
            yield self._row(text, passage, number, span)

    def _asked(
        self,
        squad: Squad,
        contexts: Sequence[Text],
        questions: Sequence[Text],
        numbers: Sequence[range],
        place: Any,
    ) -> Iterator[dict[str, Any]]:
        """Every question, once for each window of its passage."""
        for number, (question, text) in enumerate(zip(squad.questions, questions, strict=True)):
            for passage in numbers[question.context]:
                yield self._row(text, passage, number, ())

    def _row(
        self, text: Text, passage: int, number: int, answer: tuple[int, ...]
    ) -> dict[str, Any]:
        encoded = self._encoded(text)
        return {**encoded, "passage": [passage], "number": [number], "answer": answer}

    def _encoded(self, text: Text) -> dict[str, Any]:
        characters = self._lexicon.characters(text.words, self._config.word_length)
        return {"words": self._lexicon.words(text.words), "characters": characters.ravel()}


def read_golds(folder: Path) -> Golds | None:
    """What an evaluated split of TriviaQA is scored by; None for SQuAD's form."""
    file = folder / "golds.json"
    return json.loads(file.read_text("utf-8")) if file.exists() else None


def read_texts(folder: Path) -> Squad:
    """The texts of an evaluated split, as they were prepared."""
    saved = json.loads((folder / "squad.json").read_text("utf-8"))
    questions = [
        Question(**{**q, "answers": tuple(Answer(**a) for a in q["answers"])})
        for q in saved["questions"]
    ]
    return Squad(saved["contexts"], questions)


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, ensure_ascii=False) + "\n", "utf-8")


def _texts(squad: Squad) -> tuple[list[Text], list[Text]]:
    """The contexts and the questions of a split, in words."""
    return [Text.of(c) for c in squad.contexts], [Text.of(q.text) for q in squad.questions]
