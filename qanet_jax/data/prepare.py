"""Builds the prepared folder of a reading corpus.

Each split has two corpora. `passages` has a passage's words, their characters and offsets;
`questions` has words and characters, the index of the passage, the number of the question, and the
answer's first and last word. The model's inputs are further columns, those of words in both
corpora, those of examples in `questions`. In evaluation, longer passages are split into overlapping
windows, and a question is repeated for each. `squad.json` has the texts of evaluated splits, and
`golds.json` the gold answers of TriviaQA. The folder also has the vocabulary, and `vectors.json`,
the coverage of the vectors.
"""

import dataclasses
import functools
import json
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from common_jax.bad_examples import BadExamples
from common_jax.data.corpus import Writer
from common_jax.data.overlaps import write_overlaps
from common_jax.data.prepared import OWN_VOCABULARY, SPLITS, Preparation
from common_jax.data.sources import finish_split
from common_jax.data.word_level import WordLevelBuilder
from common_jax.inputs import columns_of, encode, inputs_to_text
from common_jax.io.paths import as_path, expand_user
from common_jax.io.progress import progress
from common_jax.text.squad import Question
from common_jax.text.vocabulary import Vocabulary
from common_jax.text.word_tokenizer import Rule
from qanet_jax.data import splits_of
from qanet_jax.data.sources import TRIVIAQA, HeldOut, Source, source_of
from qanet_jax.data.text import TEXTS, TokenizedText, unreachable, windows

if TYPE_CHECKING:
    from qanet_jax.config import Config

PASSAGE_COLUMNS = ("words", "characters", "starts", "ends")
QUESTION_COLUMNS = ("words", "characters", "passage", "number", "answer")

_log = logging.getLogger(__name__)

_LEAST_COVERAGE = 0.99  # share of characters with ids; with less there is a warning
EXAMPLES = 3  # reported of answers that are not whole words

_FORMAT = 2  # of the folder; to be incremented to invalidate prepared folders


class SplitText:
    """A split's raw and tokenized texts.

    Attributes:
      place: the source's location for messages.
    """

    def __init__(self, source: Source, split: str, bad_examples: BadExamples, rule: Rule):
        self.place = source.place
        self.train = split == "train"
        self.bad_examples = bad_examples
        content = source.read(bad_examples)
        self.squad = content.squad
        self.golds = content.golds
        self.sizes = content.sizes
        contexts = progress(self.squad.contexts, f"reading {split}", "passages")
        self.contexts = [TokenizedText.of(context, rule) for context in contexts]
        questions = progress(self.squad.questions, f"reading {split}", "questions")
        self.questions = [TokenizedText.of(question.text, rule) for question in questions]

    def words(self) -> Iterator[str]:
        """All words, with repetitions."""
        for text in (*self.contexts, *self.questions):
            yield from text.words

    def digests(self) -> Int[np.ndarray, "n"]:
        """The hash of each question with its passage, in this process."""
        squad = self.squad
        pairs = ((squad.contexts[question.context], question.text) for question in squad.questions)
        return np.fromiter(map(hash, pairs), np.int64, len(squad.questions))

    def unreachable(self) -> tuple[int, list[str]]:
        """The number of questions whose gold answers, of which training has the first, are not
        whole words; and examples."""
        examples = [
            unreachable(
                self.squad.contexts[question.context],
                self.contexts[question.context],
                question.answers[: 1 if self.train else None],
            )
            for question in self.squad.questions
        ]
        examples = [example for example in examples if example]
        return len(examples), [*dict.fromkeys(examples)][:EXAMPLES]


class Builder(WordLevelBuilder):
    """Builds the folder."""

    def __init__(self, config: "Config", preparation: Preparation = OWN_VOCABULARY):
        data = config.data
        inputs = inputs_to_text(config.model.inputs)
        super().__init__(data, config.words, inputs, preparation, splits_of(data))
        self._run = config

    def _source(self, split: Any) -> Source:
        return source_of(self._config, split, self._words.rule)

    @functools.cached_property
    def _sources(self) -> dict[str, Any]:
        """As the base class; dev that is held out of train has the same tables, opened once."""
        sources = super()._sources
        if "dev" in sources and isinstance(train := sources.get("train"), HeldOut):
            sources["dev"] = dataclasses.replace(train, split="dev")
        return sources

    @functools.cached_property
    def _vectors(self) -> str:
        """The file of fixed vectors; "" for none, or if it is missing in an evaluation."""
        file = super()._vectors
        if self._preparation.splits and file and not as_path(expand_user(file)).exists():
            _log.warning("data.vectors=%s: missing; words that the run lacks are unknown", file)
            return ""
        return file

    def settings(self) -> dict[str, Any]:
        config = self._config
        words = self._words
        return {
            "span extraction": _FORMAT,
            "triviaqa": TRIVIAQA,
            "lexicon": [words.dim, words.rows, words.char_rows],
            "limits": [
                *(self._run.word_length, config.context_length, config.question_length),
                *(config.answer_length, config.window, config.stride),
            ],
            **super().settings(),
        }

    def build(self, folder: Path) -> None:
        words = self._words
        contents = {
            split: SplitText(source, split, self._bad_examples(), words.rule)
            for split, source in self._sources.items()
        }
        write_overlaps(folder, {s: contents[s].digests() for s in SPLITS if s in contents})

        # the vocabulary, given or of train
        vectors = None
        if self._vectors:
            everywhere = Counter(word for content in contents.values() for word in content.words())
            vectors = self._read_vectors(everywhere, folder)
        vocabulary = self._given_vocabulary(words.char_rows, vectors)
        if vocabulary is None:
            counts = Counter(contents["train"].words())
            rows = vectors or words.rows, words.char_rows
            vocabulary = Vocabulary.make(counts, *rows, rule=words.rule)
            covered, char_rows = vocabulary.char_coverage(counts)
            if covered < _LEAST_COVERAGE:
                _log.warning(
                    "words.char_rows=%d: %.1f%% of the text's characters are unknown; "
                    "words.char_rows=%d would have a row for each",
                    *(words.char_rows, 100 * (1 - covered), char_rows),
                )
        vocabulary.save(folder)

        for split, content in contents.items():
            _SplitWriter(folder / split, self._run, vocabulary, content).write()


class _SplitWriter:
    def __init__(self, folder: Path, config: "Config", vocabulary: Vocabulary, content: SplitText):
        self._folder = folder
        self._config = config.data
        self._vocabulary = vocabulary
        self._content = content
        self._word_length = config.word_length
        self._inputs = columns_of(config.model.inputs, TEXTS)

    def write(self) -> None:
        folder = self._folder
        content = self._content

        def names(*texts):
            return [column.name for column in self._inputs if column.text in texts]

        passage_columns = *PASSAGE_COLUMNS, *names("context")
        question_columns = *QUESTION_COLUMNS, *names("question", "")
        with (
            Writer(folder / "passages", passage_columns) as passages,
            Writer(folder / "questions", question_columns) as rows,
        ):
            numbers = [self._windows(passages, context) for context in content.contexts]
            for row in self._rows(numbers):
                rows.append(row)
            dropped = content.bad_examples.counts
            finish_split(rows, "questions", folder.name, content.place, dropped)
            rows.meta["sizes"] = content.sizes
            count, examples = content.unreachable()
            answered = sum(bool(question.answers) for question in content.squad.questions)
            rows.meta["unreachable"] = {"count": count, "of": answered, "examples": examples}
        if not content.train:
            squad = dataclasses.asdict(content.squad, dict_factory=_saved)
            _write_json(folder / "squad.json", squad)
        if content.golds is not None:
            _write_json(folder / "golds.json", content.golds)

    def _windows(self, passages: Writer, context: TokenizedText) -> range:
        """Writes a passage; returns its rows."""
        before = passages.rows
        for window in self._context_windows(context):
            starts, ends = zip(*window.spans, strict=True) if window.spans else ((), ())
            passages.append({**self._encoded("context", window), "starts": starts, "ends": ends})
        return range(before, passages.rows)

    def _context_windows(self, context: TokenizedText) -> Iterator[TokenizedText]:
        """The windows of a passage; in training the complete passage."""
        config = self._config
        length = len(context.words)
        train = self._content.train
        cuts = [(0, length)] if train else windows(length, config.window, config.stride)
        return (context.part(*cut) for cut in cuts)

    def _rows(self, numbers: list[range]) -> Iterator[dict[str, Any]]:
        """The rows of questions, one for each row of the passage; in training with answers."""
        content = self._content
        questions = list(zip(content.squad.questions, content.questions, strict=True))
        counted = progress(questions, f"encoding {self._folder.name}", "questions")
        for number, (question, text) in enumerate(counted):
            answer = self._answer(question, text) if content.train else ()
            if answer is not None:
                encoded = {**self._encoded("question", text), "number": [number], "answer": answer}
                context_windows = self._context_windows(content.contexts[question.context])
                for passage, window in zip(numbers[question.context], context_windows, strict=True):
                    inputs = self._inputs_of("", context=window, question=text)
                    yield {**encoded, "passage": [passage], **inputs}

    def _answer(self, question: Question, text: TokenizedText) -> tuple[int, int] | None:
        """The first and last word of the first answer; None if a text is too long."""
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
                reason = f"over data.{name}_length={limit} words"
                content.bad_examples.skip(reason, f"{content.place}: question {question.id}")
                return None
        return span

    def _encoded(self, name: str, text: TokenizedText) -> dict[str, Any]:
        """The columns of one of `TEXTS`."""
        words = self._vocabulary.word_ids(text.words)
        characters = self._vocabulary.char_ids(text.words, self._word_length)
        inputs = self._inputs_of(name, **{name: text})
        return {"words": words, "characters": characters.ravel(), **inputs}

    def _inputs_of(self, owner: str, **texts: TokenizedText) -> dict[str, np.ndarray]:
        """The columns of the model's inputs for one of `TEXTS`, or for examples if ""."""
        columns = [column for column in self._inputs if column.text == owner]
        arrays = encode(columns, {name: text.words for name, text in texts.items()}, {})
        return {name: array.ravel() for name, array in arrays.items()}


def _saved(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object in `squad.json`; `unlocated` is rare, and older folders lack it."""
    return {name: value for name, value in fields if value or name != "unlocated"}


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, ensure_ascii=False) + "\n", "utf-8")
