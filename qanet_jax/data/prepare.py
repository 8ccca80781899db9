"""Builds the prepared folder of a reading corpus.

For each split two corpora. `passages`: a passage's words, their characters, and where each word
starts and ends in its text. `questions`: words and characters, the number of the passage, and the
answer's first and last word. In training they are as they come; in evaluation a longer passage is
cut into overlapping windows, and a question is there once for each. `squad.json` keeps the texts
that evaluation scores, and `golds.json` what TriviaQA scores them by. Beside the splits are the
lexicon, and `vectors.json`: how many of the words have vectors.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common_jax.bad_examples import Faults
from common_jax.data.corpus import Writer
from common_jax.data.worded import (
    read_word_vectors,
    require_some,
    tokeniser_identity,
    vectors_identity,
)
from common_jax.text.lexicon import Lexicon
from common_jax.text.squad import Answer, Question, Squad
from common_jax.text.vectors import Vectors
from qanet_jax.data import triviaqa
from qanet_jax.data.sources import Golds, Source, Split, source_of, splits_of
from qanet_jax.data.text import Text, windows

if TYPE_CHECKING:
    from qanet_jax.config import DataConfig, ModelConfig

PASSAGE_COLUMNS = ("words", "characters", "starts", "ends")
QUESTION_COLUMNS = ("words", "characters", "passage", "number", "answer")

_FORMAT = 2  # of the folder; another one prepares everything anew


class Content:
    """A split: its texts as they are and in words, and what was wrong with it.

    Attributes:
      place: what messages call it.
      train: whether it is trained on.
    """

    def __init__(self, source: Source, split: Split, faults: Faults):
        self.place, self.train, self.faults = source.place, split == "train", faults
        self.squad, self.golds = source.read(faults)
        self.contexts = [Text.of(context) for context in self.squad.contexts]
        self.questions = [Text.of(question.text) for question in self.squad.questions]

    def words(self) -> Iterator[str]:
        """All words, as often as they occur."""
        for text in (*self.contexts, *self.questions):
            yield from text.words


class Builder:
    """Builds the folder."""

    def __init__(self, config: "DataConfig", model: "ModelConfig"):
        """Finds the files.

        Raises:
          UserError: if one is missing.
        """
        self._config, self._model = config, model
        self._sources: dict[Split, Source] = {s: source_of(config, s) for s in splits_of(config)}

    def fingerprint(self) -> dict[str, Any]:
        """All that decides the folder's content; reads every file once."""
        config, model = self._config, self._model
        return {
            "span extraction": _FORMAT,
            "words": tokeniser_identity(),
            "triviaqa": triviaqa.IDENTITY,
            "sources": {split: source.identity() for split, source in self._sources.items()},
            "vectors": vectors_identity(config.vectors),
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
        contents = {
            split: Content(source, split, Faults(self._config.on_bad_example))
            for split, source in self._sources.items()
        }
        counts = Counter(contents["train"].words())
        known = self._read_vectors(contents.values(), folder) or self._model.word_rows
        lexicon = Lexicon.make(counts, known, self._model.char_rows)
        lexicon.save(folder)
        for split, content in contents.items():
            _SplitWriter(folder / split, self._config, lexicon, content).write()

    def _read_vectors(self, contents: Iterable[Content], folder: Path) -> Vectors | None:
        """Of all splits' words, since nothing trains them; None where words are trained."""
        if not self._config.vectors:
            return None
        wanted = dict.fromkeys(word for content in contents for word in content.words())
        faults = Faults(self._config.on_bad_example)
        dim = self._model.word_dim
        return read_word_vectors(self._config.vectors, wanted, dim, faults, folder)


class _SplitWriter:
    """Writes one split."""

    def __init__(self, folder: Path, config: "DataConfig", lexicon: Lexicon, content: Content):
        self._folder, self._config, self._lexicon = folder, config, lexicon
        self._content = content

    def write(self) -> None:
        folder, content = self._folder, self._content
        with (
            Writer(folder / "passages", PASSAGE_COLUMNS) as passages,
            Writer(folder / "questions", QUESTION_COLUMNS) as rows,
        ):
            numbers = [self._windows(passages, context) for context in content.contexts]
            for row in self._rows(numbers):
                rows.append(row)
            dropped = content.faults.kinds
            require_some(rows.rows, "questions", folder.name, content.place, dropped)
            rows.meta["dropped"] = dropped
        if not content.train:
            _write_json(folder / "squad.json", dataclasses.asdict(content.squad))
        if content.golds is not None:
            _write_json(folder / "golds.json", content.golds)

    def _windows(self, passages: Writer, context: Text) -> range:
        """Writes a passage, and says which rows it has become."""
        config, before = self._config, passages.rows
        length = len(context.words)
        train = self._content.train
        cuts = [(0, length)] if train else windows(length, config.window, config.stride)
        for start, stop in cuts:
            part = context.part(start, stop)
            starts, ends = zip(*part.spans, strict=True) if part.spans else ((), ())
            passages.append({**self._encoded(part), "starts": starts, "ends": ends})
        return range(before, passages.rows)

    def _rows(self, numbers: list[range]) -> Iterator[dict[str, Any]]:
        """The questions, given each passage's rows: once for each, in training with an answer."""
        content = self._content
        for number, (question, text) in enumerate(
            zip(content.squad.questions, content.questions, strict=True)
        ):
            answer = self._answer(question, text) if content.train else ()
            if answer is not None:
                encoded = {**self._encoded(text), "number": [number], "answer": answer}
                for passage in numbers[question.context]:
                    yield {**encoded, "passage": [passage]}

    def _answer(self, question: Question, text: Text) -> tuple[int, int] | None:
        """The first and last word of the one to find, the first; None if something is too long."""
        content = self._content
        context = content.contexts[question.context]
        span = context.locate(question.answers[0])
        assert span is not None, "an answer that is not blank has a word"
        lengths = {
            "context": len(context.words),
            "question": len(text.words),
            "answer": span[1] - span[0] + 1,
        }
        for name, length in lengths.items():
            limit = getattr(self._config, f"{name}_length")
            if length > limit:
                kind = f"over data.{name}_length={limit} words"
                content.faults.drop(kind, f"{content.place}: question {question.id}")
                return None
        return span

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
