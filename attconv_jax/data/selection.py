"""SQuAD-AnSS (section 4.2): selection of the sentence of a passage that answers a question.

Passages are split by Punkt (Kiss & Strunk 2006), trained on them; with the word rule `UNICODE` also
after the sentence-ending marks of all scripts. A sentence is right if an annotator's answer starts
in it. Passages have about five sentences, which agrees with the paper's 448,307 pairs of train, but
not with its 105,980 of SQuAD's dev, ten a passage.
"""

import bisect
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from attconv_jax.data import LABELS
from attconv_jax.data.sources import Example, Source
from common_jax.bad_examples import BadExamples
from common_jax.data import sources
from common_jax.data.corpus import recorded_identity
from common_jax.data.questions import QuestionTables, question_tables
from common_jax.data.tables import Table
from common_jax.text.sentence_splitter import split_after_marks
from common_jax.text.squad import Answer, Question, Squad, is_squad, read_squad
from common_jax.text.word_tokenizer import ENGLISH, Rule, lift_time_limit

# Identifies the output of `candidates` in fingerprints.
IDENTITY = recorded_identity(
    2207, "331988c95e85c310ecea15db26339067ee010b43499cca76bec0f807b2839e49"
)


@dataclasses.dataclass(frozen=True)
class Selection(sources.FileSource):
    """The questions of a file of SQuAD's format, each with all sentences of its passage.

    Attributes:
      rule: of words, by which sentences end.
    """

    rule: Rule = ENGLISH

    def identity(self) -> Any:
        return [super().identity(), IDENTITY]

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        squad = read_squad(self.path, bad_examples, f"{self.place}:")
        return _candidates(squad, self.place, self.rule)


@dataclasses.dataclass(frozen=True)
class SelectionTables:
    """As `Selection`, of a table's shards with a question in each row."""

    tables: QuestionTables
    rule: Rule = ENGLISH

    @property
    def place(self) -> str:
        return self.tables.place

    def identity(self) -> Any:
        return [self.tables.identity(), IDENTITY]

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        return _candidates(self.tables.read(bad_examples), self.place, self.rule)


def _candidates(squad: Squad, place: str, rule: Rule) -> Iterator[Example]:
    for question, sentence, right in candidates(squad, rule):
        label = LABELS[right]
        group = squad.articles[question.context]
        location = f"{place}: question {question.id}"
        yield Example((question.text, sentence), label, group, location, question.id)


def questions_of(tables: Sequence[Table], rule: Rule) -> Sequence[Source]:
    """The sources of the shards of a name if they have questions about passages; else none.

    Args:
      tables: the shards, as tables of questions and sentences.
    """
    paths = [table.path for table in tables]
    if all(map(is_squad, paths)):
        return [Selection(path, rule) for path in paths]
    if not tables[0].columns and not tables[0].is_known:
        unnamed = f"{', '.join(map(str, paths))}:"
        questions = question_tables(paths, {}, tables[0].quotes, unnamed)
        if questions.shards[0].is_known:
            return [SelectionTables(questions, rule)]
    return []


class Candidate(NamedTuple):
    """A question and a sentence of its passage.

    Attributes:
      right: whether an answer starts in it.
    """

    question: Question
    sentence: str
    right: bool


def candidates(squad: Squad, rule: Rule = ENGLISH) -> Iterator[Candidate]:
    """All sentences of each question's passage, in order, question by question."""
    cuts = split_by_punkt(squad.contexts)
    if rule != ENGLISH:
        texts = zip(squad.contexts, cuts, strict=True)
        cuts = [
            [s for span in spans for s in split_after_marks(text, *span)] for text, spans in texts
        ]
    for question in squad.questions:
        context = squad.contexts[question.context]
        spans = cuts[question.context]
        starts = [start for start, _ in spans]
        right = {bisect.bisect_right(starts, _first(answer)) - 1 for answer in question.answers}
        for number, (start, end) in enumerate(spans):
            yield Candidate(question, context[start:end], number in right)


def split_by_punkt(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """The sentences of each text as (start, end) offsets, by Punkt trained on all texts.

    Each character that is not white space is in exactly one sentence.
    """
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer  # takes seconds

    lift_time_limit()
    trainer = PunktTrainer()
    trainer.INCLUDE_ALL_COLLOCS = True
    trainer.train("\n\n".join(texts), finalize=True)
    tokenizer = PunktSentenceTokenizer(trainer.get_params())
    return [list(tokenizer.span_tokenize(text)) for text in texts]


def _first(answer: Answer) -> int:
    """The offset of an answer's first character that is not white space."""
    return answer.start + len(answer.text) - len(answer.text.lstrip())
