"""SQuAD v1.1 (Rajpurkar et al., EMNLP 2016): passages, questions, and answers that are spans.

Adversarial SQuAD (Jia & Liang, EMNLP 2017) has the same form, with ids "original-variant".
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from common_jax.errors import UserError
from common_jax.text.json_files import Node, read_json

_TEXTS = ("id", "context", "question")  # of a dataset's features


@dataclasses.dataclass(frozen=True)
class Answer:
    """A span of a passage.

    Attributes:
      start: in characters of the passage.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a passage.

    Attributes:
      context: the passage's number.
      answers: several people's, equal ones included; any of them is right.
    """

    id: str
    text: str
    context: int
    answers: tuple[Answer, ...]


@dataclasses.dataclass(frozen=True)
class Squad:
    """Passages, and questions about them; no id occurs twice."""

    contexts: list[str]
    questions: list[Question]


class Faults(Protocol):
    """What is told of bad examples: `common_jax.faults.Faults`."""

    def bad(self, kind: str, place: str) -> None: ...


class Dataset(Protocol):
    """What is read of TensorFlow Datasets: `common_jax.data.tfds.Dataset`."""

    name: str
    texts: tuple[str, ...]

    def source(self, split: str, key: str) -> Sequence[Mapping[str, Any]]: ...


def read_squad(path: str | Path, faults: Faults, *, answered: bool = True) -> Squad:
    """Reads a JSON file of SQuAD's form, plain or gzipped; fields that SQuAD lacks are ignored.

    Reported to `faults` are an empty passage (all its questions with it), an empty question, one
    without answers, and one with an answer that is empty or not where its `answer_start` says;
    nothing is ever moved. What is left out is the whole question.

    Args:
      answered: whether a question must have answers; False to predict alone. Those that it has
        must be right all the same.

    Raises:
      UserError: a file that cannot be read, is not JSON or not of this form, or an id that occurs
        twice; and whatever `faults` raises.
    """
    builder = _Builder(faults, answered)
    for article in read_json(path).nodes("data"):
        for paragraph in article.nodes("paragraphs"):
            context = builder.context(paragraph.get("context", str), paragraph.place)
            for question in paragraph.nodes("qas"):
                answers = [
                    (answer.get("text", str), answer.get("answer_start", int))
                    for answer in question.nodes("answers", default=[])
                ]
                builder.question(_id(question), question.get("question", str), context, answers)
    return builder.squad


def read_squad_dataset(
    dataset: Dataset, split: str, key: str, faults: Faults, *, answered: bool = True
) -> Squad:
    """Reads a split of a dataset of TensorFlow Datasets with the features of "squad/v1.1".

    Passages are numbered as they first occur. Bad examples are as in `read_squad`.

    Args:
      key: the config key that named the split.

    Raises:
      UserError: a dataset with other features, an unknown split, or as `read_squad`.
    """
    builder, numbers = _Builder(faults, answered), dict[str, int | None]()
    missing = [name for name in _TEXTS if name not in dataset.texts]
    if missing:
        raise UserError(
            f"data.tfds={dataset.name}: not of SQuAD's form: it has the texts "
            f"{', '.join(dataset.texts) or 'of none'}, and not {', '.join(missing)}"
        )
    for number, row in enumerate(dataset.source(split, key)):
        place = f"{dataset.name} {split}:{number + 1}"
        name, context, question = (row[text].decode() for text in _TEXTS)
        if context not in numbers:
            numbers[context] = builder.context(context, place)
        answers = _spans(row.get("answers"), dataset.name)
        builder.question((name, place), question, numbers[context], answers)
    return builder.squad


class _Builder:
    """Gathers what is good, whichever form it came in."""

    def __init__(self, faults: Faults, answered: bool):
        self.squad = Squad([], [])
        self._faults, self._answered = faults, answered
        self._ids: set[str] = set()

    def context(self, text: str, place: str) -> int | None:
        """The number of a new passage; None if it is bad."""
        if trouble := _trouble(text):
            self._faults.bad(f"{trouble} context", place)
            return None
        self.squad.contexts.append(text)
        return len(self.squad.contexts) - 1

    def question(
        self,
        identity: tuple[str, str],
        text: str,
        context: int | None,
        answers: Iterable[tuple[str, int]],
    ) -> None:
        """Takes a question.

        Args:
          identity: its id, and its place for messages.
          context: the number of its passage; None leaves it out too.
          answers: text and start of each.
        """
        name, place = identity
        if name in self._ids:
            raise UserError(f"{place}: the id {name!r} a second time; each question has its own")
        self._ids.add(name)
        if context is None:
            return
        spans = tuple(Answer(*answer) for answer in answers)
        if trouble := _trouble(text):
            self._faults.bad(f"{trouble} question", place)
        elif self._answered and not spans:
            self._faults.bad("no answers", place)
        elif wrong := [n for n, a in enumerate(spans) if _wrong(a, self.squad.contexts[context])]:
            kind = _wrong(spans[wrong[0]], self.squad.contexts[context])
            self._faults.bad(kind, f"{place}.answers[{wrong[0]}]")
        else:
            self.squad.questions.append(Question(name, text, context, spans))


def _id(question: Node) -> tuple[str, str]:
    return question.get("id", str), question.place


def _spans(answers: Any, name: str) -> list[tuple[str, int]]:
    """The answers of a dataset's row, a dict of two lists."""
    try:
        texts, starts = answers["text"], answers["answer_start"]
    except (TypeError, KeyError, IndexError) as error:
        raise UserError(
            f"data.tfds={name}: not of SQuAD's form: no answers with text and answer_start"
        ) from error
    return [(text.decode(), int(start)) for text, start in zip(texts, starts, strict=True)]


def _trouble(text: str) -> str:
    """What is wrong with a text, "" if nothing is."""
    if not text.strip():
        return "empty"
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can write half a surrogate pair; no file can hold it
        return "half a character in the"
    return ""


def _wrong(answer: Answer, context: str) -> str:
    """What is wrong with an answer, "" if nothing is."""
    if not answer.text.strip():
        return "empty answer"
    if answer.start >= 0 and context.startswith(answer.text, answer.start):
        return ""
    if answer.text in context:
        return "answer not at its answer_start, though elsewhere in its context"
    return "answer not in its context"
