"""SQuAD v1.1 (Rajpurkar et al., EMNLP 2016): passages, questions, and answers that are spans.

Answers begin at characters (Unicode code points) of their passage, from 0. Adversarial SQuAD (Jia &
Liang, EMNLP 2017) has the same form, with ids "original-variant".
"""

import dataclasses
import itertools
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from common_jax.bad_examples import BadExamples
from common_jax.errors import UserError
from common_jax.io.atomic import replace_text, writing
from common_jax.io.files import ending
from common_jax.io.json_files import Node, has_one_value, read_json
from common_jax.text.cleaning import clean

REPEATED = "an id that an earlier question has"  # a reason for rejection
IMPOSSIBLE = "impossible question"  # a reason to skip it

_log = logging.getLogger(__name__)
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
      context: the index of its passage.
      answers: of several annotators, with repetitions; any of them is right.
      unlocated: the texts of further answers, whose place in the passage is unknown.
    """

    id: str
    text: str
    context: int
    answers: tuple[Answer, ...]
    unlocated: tuple[str, ...] = ()

    @property
    def golds(self) -> list[str]:
        """The texts of all answers, by which predictions are scored."""
        return [*(answer.text for answer in self.answers), *self.unlocated]


@dataclasses.dataclass(frozen=True)
class Squad:
    """Passages, and questions about them; no id occurs twice.

    Attributes:
      articles: the title of each passage's article, or its number if it has none; empty if articles
        are unknown.
    """

    contexts: list[str]
    questions: list[Question]
    articles: list[str] = dataclasses.field(default_factory=list)

    def select(self, numbers: Iterable[int]) -> "Squad":
        """The questions with these indices, and only their passages."""
        questions = [self.questions[number] for number in numbers]
        kept = sorted({question.context for question in questions})
        new = {old: number for number, old in enumerate(kept)}
        return Squad(
            [self.contexts[old] for old in kept],
            [dataclasses.replace(q, context=new[q.context]) for q in questions],
            [self.articles[old] for old in kept] if self.articles else [],
        )


@runtime_checkable
class Dataset(Protocol):
    """The part of `common_jax.data.tfds.Dataset` that is used here."""

    name: str
    texts: tuple[str, ...]

    def source(self, split: str, key: str) -> Sequence[Mapping[str, Any]]:
        """The records of a split."""
        ...


def is_squad(path: Path) -> bool:
    """Whether a file is JSON of SQuAD's form, which any JSON that is no table is taken for."""
    return ending(path) == "json" and has_one_value(path)


def read_squad(path: str | Path, bad_examples: BadExamples, unnamed: str = "") -> Squad:
    """Reads a JSON file of SQuAD's format, plain or compressed; other fields are ignored.

    SQuAD 2.0's impossible questions are skipped. A question without an id, as of annotation tools,
    gets "ARTICLE.PARAGRAPH.QUESTION", numbers from 0.

    Rejects passages that are empty or malformed, with all their questions, and questions that are
    empty or malformed, have the id of an earlier one, or no answer that `locate` finds in the
    passage. Other answers that it does not find are counted, and only `golds` has their texts.

    Args:
      unnamed: the start of the id of a question without one.

    Raises:
      UserError: if the file cannot be read, is not JSON, or lacks the lists of the format; or by
        `bad_examples`.
    """
    builder = _Builder(bad_examples)
    for number, article in enumerate(read_json(path).nodes("data")):
        title = _title(article, number)
        for paragraph_number, paragraph in enumerate(article.nodes("paragraphs")):
            text = bad_examples.parse(paragraph.get, "context", str)
            context = None if text is None else builder.context(text, title, paragraph.place)
            for question_number, node in enumerate(paragraph.nodes("qas")):
                if is_impossible(node):
                    bad_examples.skip(IMPOSSIBLE, node.place)
                    continue
                name = f"{unnamed}{number}.{paragraph_number}.{question_number}"
                if question := bad_examples.parse(_question, node, name):
                    builder.question(*question, context, node.place)
    return builder.finish()


class SquadRow(NamedTuple):
    """A question in a row of a table or of a dataset.

    Attributes:
      answers: text and start of each, None if it is unknown; empty for an impossible question.
      title: of the article; "" if it is unknown.
    """

    place: str
    id: str
    context: str
    question: str
    answers: Sequence[tuple[str, int | None]]
    title: str = ""


def read_squad_rows(rows: Iterable[SquadRow], bad_examples: BadExamples) -> Squad:
    """The questions of rows; equal passages of one title are one.

    Questions without an answer are skipped as impossible ones; bad examples are as in `read_squad`.
    """
    builder = _Builder(bad_examples)
    numbers = dict[tuple[str, str], int | None]()
    for row in rows:
        key = row.title, row.context
        if key not in numbers:
            title = row.title or str(len(numbers))
            numbers[key] = builder.context(row.context, title, row.place)
        if not row.answers:
            bad_examples.skip(IMPOSSIBLE, row.place)
            continue
        builder.question(row.id, row.question, row.answers, numbers[key], row.place)
    return builder.finish()


def read_squad_dataset(dataset: Dataset, split: str, key: str, bad_examples: BadExamples) -> Squad:
    """Reads a split of a dataset of TensorFlow Datasets with the features of "squad/v1.1".

    Passages and bad examples are as in `read_squad_rows`.

    Args:
      key: the config key of the split.

    Raises:
      UserError: for a dataset with other features, an unknown split, or as `read_squad`.
    """
    missing = [name for name in _TEXTS if name not in dataset.texts]
    if missing:
        raise UserError(
            f"data.tfds={dataset.name}: not of SQuAD's form: it has the texts "
            f"{', '.join(dataset.texts) or '(none)'}, and not {', '.join(missing)}"
        )

    def read(number: int, record: Mapping[str, Any]) -> SquadRow:
        name, context, question = (record[text].decode() for text in _TEXTS)
        answers = _spans(record.get("answers"), dataset.name)
        return SquadRow(f"{dataset.name} {split}:{number}", name, context, question, answers)

    rows = map(read, itertools.count(1), dataset.source(split, key))
    return read_squad_rows(rows, bad_examples)


def write_squad(path: Path, squad: Squad) -> None:
    """Writes a JSON file of SQuAD's format, atomically: an article for each title, in order."""
    # The questions of each passage, by its number.
    questions: dict[int, list[Question]] = {}
    for question in squad.questions:
        questions.setdefault(question.context, []).append(question)

    # The passages of each title.
    articles: dict[str, list[Any]] = {}
    for number, context in enumerate(squad.contexts):
        qas = [_question_object(question) for question in questions.get(number, ())]
        title = squad.articles[number] if squad.articles else ""
        articles.setdefault(title, []).append({"context": context, "qas": qas})

    data = [{"title": title, "paragraphs": paragraphs} for title, paragraphs in articles.items()]
    text = json.dumps({"version": "1.1", "data": data}, ensure_ascii=False)
    with writing(path):
        replace_text(path, text + "\n")


def _question_object(question: Question) -> dict[str, Any]:
    """A question as SQuAD's JSON has it."""
    answers = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
    return {"id": question.id, "question": question.text, "answers": answers}


def _title(article: Node, number: int) -> str:
    """An article's title, or its number if it has none."""
    title = article.value.get("title") if isinstance(article.value, dict) else None
    return title if title and isinstance(title, str) else str(number)


class _Builder:
    """Collects valid passages and questions and rejects the others."""

    def __init__(self, bad_examples: BadExamples):
        self.squad = Squad([], [])
        self._bad_examples = bad_examples
        self._ids: set[str] = set()
        self._moved = 0  # answers that were not at their start

    def finish(self) -> Squad:
        """All that was collected; logs how many answers were not at their `answer_start`."""
        if self._moved:
            _log.warning(
                "%s answers were not at their answer_start: taken where their text stands once",
                f"{self._moved:,}",
            )
        return self.squad

    def context(self, text: str, article: str, place: str) -> int | None:
        """The index of a new passage; None if it is rejected."""
        if not clean(text):
            self._bad_examples.reject("empty context", place)
            return None
        self.squad.contexts.append(text)
        self.squad.articles.append(article)
        return len(self.squad.contexts) - 1

    def question(
        self,
        name: str,
        text: str,
        answers: Sequence[tuple[str, int | None]],
        context: int | None,
        place: str,
    ) -> None:
        """Adds the question with the id `name` and answers (text, start), unless its passage, with
        the index `context`, was rejected (None)."""
        if context is None:
            return

        # A bad question is rejected; of its answers, one that can be located suffices.
        spans, wrong = self._located(answers, self.squad.contexts[context])
        if name in self._ids:
            self._bad_examples.reject(REPEATED, f"{place} {name!r}")
        elif not clean(text):
            self._bad_examples.reject("empty question", place)
        elif not spans and wrong:
            number, problem = next(iter(wrong.items()))
            self._bad_examples.reject(problem, f"{place}.answers[{number}]")
        elif not spans:
            self._bad_examples.reject("no answers", place)
        else:
            for number, problem in wrong.items():
                self._bad_examples.skip(f"{problem}, beside others", f"{place}.answers[{number}]")
            unlocated = tuple(answers[number][0] for number in wrong)
            self.squad.questions.append(Question(name, text, context, spans, unlocated))
        self._ids.add(name)

    def _located(
        self, answers: Sequence[tuple[str, int | None]], context: str
    ) -> tuple[tuple[Answer, ...], dict[int, str]]:
        """The located answers, and what is wrong with the others by index."""
        spans: list[Answer] = []
        wrong: dict[int, str] = {}
        for number, (text, start) in enumerate(answers):
            try:
                spans.append(locate(text, start, context))
            except ValueError as error:
                wrong[number] = str(error)
            else:
                self._moved += start not in (None, spans[-1].start)
        return tuple(spans), wrong


def is_impossible(question: Node) -> bool:
    """Whether a question of SQuAD 2.0 has no answer in its passage."""
    return isinstance(question.value, dict) and question.value.get("is_impossible") is True


def question_id(node: Node, name: str) -> str:
    """The id of a question, a text or a whole number; `name` if it has none."""
    value = node.value if isinstance(node.value, dict) else {}
    if "question" in value and value.get("id") is None:
        return name
    return str(value["id"]) if type(value.get("id")) is int else node.get("id", str)


def _question(node: Node, name: str) -> tuple[str, str, list[tuple[str, int | None]]]:
    """The id, `name` if there is none, the text, and the answers' texts and starts."""
    answers = [
        (answer.get("text", str), answer.get("answer_start", int))
        for answer in node.nodes("answers", default=[])
    ]
    return question_id(node, name), node.get("question", str), answers


def _spans(answers: Any, name: str) -> list[tuple[str, int | None]]:
    """The answers of a dataset's row, a dict of two lists."""
    try:
        texts = answers["text"]
        starts = answers["answer_start"]
    except (TypeError, KeyError, IndexError) as error:
        raise UserError(
            f"data.tfds={name}: not of SQuAD's form: no answers with text and answer_start"
        ) from error
    return [(text.decode(), int(start)) for text, start in zip(texts, starts, strict=True)]


def locate(text: str, start: int | None, context: str) -> Answer:
    """The span of an answer, at its start or else where its text, perhaps without the blanks around
    it, stands once in the context: tools count in other units, or give no start (None).

    Raises:
      ValueError: if it is not in the context, or several times and not at its start.
    """
    if not clean(text):
        raise ValueError("empty answer")
    if start is not None and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    text = text if text in context else text.strip()
    first = context.find(text)
    if first < 0:
        raise ValueError("answer not in its context")
    if first != context.rfind(text):
        which = "without an answer_start" if start is None else "not at its answer_start"
        raise ValueError(f"answer {which}, and several times in its context")
    return Answer(text, first)
