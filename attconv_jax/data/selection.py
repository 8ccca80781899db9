"""SQuAD-AnSS (section 4.2): selection of the sentence of a passage that answers a question.

Passages are split by Punkt (Kiss & Strunk 2006), trained on them; with the word rule `UNICODE` also
after the sentence-ending marks of all scripts. A sentence is right if an annotator's answer starts
in it. Passages have about five sentences, which agrees with the paper's 448,307 pairs of train, but
not with its 105,980 of SQuAD's dev, ten a passage.
"""

import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from common_jax.data.corpus import recorded_identity
from common_jax.text.sentence_splitter import split_after_marks
from common_jax.text.squad import Answer, Question, Squad
from common_jax.text.word_tokenizer import ENGLISH, Rule, lift_time_limit

# Identifies the output of `candidates` in fingerprints (`attconv_jax.data.sources`).
IDENTITY = recorded_identity(
    2207, "331988c95e85c310ecea15db26339067ee010b43499cca76bec0f807b2839e49"
)


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
