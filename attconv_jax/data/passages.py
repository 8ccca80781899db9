"""Sources of ranked sentences from questions about passages (`attconv_jax.data.selection`)."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attconv_jax.data import LABELS, selection
from attconv_jax.data.sources import Example, Source, Table
from common_jax.bad_examples import BadExamples
from common_jax.data import sources
from common_jax.data.questions import QuestionTable, QuestionTables, read_tables
from common_jax.text.squad import Squad, is_squad, read_squad
from common_jax.text.word_tokenizer import ENGLISH, Rule

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig


@dataclasses.dataclass(frozen=True)
class Selection(sources.FileSource):
    """The questions of a file of SQuAD's format, each with all sentences of its passage.

    Attributes:
      rule: of words, by which sentences end.
    """

    rule: Rule = ENGLISH

    def identity(self) -> Any:
        return [super().identity(), selection.IDENTITY]

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        squad = read_squad(self.path, bad_examples, f"{self.place}:")
        return _candidates(squad, self.place, self.rule)


@dataclasses.dataclass(frozen=True)
class SelectionTables(QuestionTables):
    """As `Selection`, of a table's shards with a question in each row."""

    rule: Rule = ENGLISH

    def identity(self) -> Any:
        return [super().identity(), selection.IDENTITY]

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        squad = read_tables(self.shards, bad_examples, f"{self.place}:")
        return _candidates(squad, self.place, self.rule)


def _candidates(squad: Squad, place: str, rule: Rule) -> Iterator[Example]:
    for question, sentence, right in selection.candidates(squad, rule):
        label = LABELS[right]
        group = squad.articles[question.context]
        location = f"{place}: question {question.id}"
        yield Example((question.text, sentence), label, group, location, question.id)


def selections(
    config: "DataConfig", shards: Sequence[Path], rule: Rule, table: Table
) -> list[Source]:
    """The sources of a name's files, SQuAD's or tables of questions; empty for other files.

    Args:
      table: the first of the files as one of questions and sentences.
    """
    if all(map(is_squad, shards)):
        return [Selection(path, rule) for path in shards]
    if config.columns_by_field or table.is_known:
        return []
    questions = tuple(QuestionTable(path, quotes=config.quotes) for path in shards)
    return [SelectionTables(questions, rule)] if questions[0].is_known else []
