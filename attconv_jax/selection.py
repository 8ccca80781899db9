"""SQuAD-AnSS (section 4.2): which sentence of a passage holds the answer to a question.

Sentences are Punkt's (Kiss & Strunk 2006), trained on the passages themselves, so that nothing is
downloaded. The one in which an answer starts is right; where several people answered, each of
theirs is.
"""

import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from common_jax.text.squad import Squad

LABELS = ("no", "yes")  # whether a sentence holds the answer


class Candidate(NamedTuple):
    """A sentence for a question.

    Attributes:
      question: its number in the file.
      answers: whether an answer starts in it.
      article: of the passage, by number; questions about one article stay together.
    """

    question: int
    sentence: str
    answers: bool
    article: str


def candidates(squad: Squad) -> Iterator[Candidate]:
    """Every sentence of each question's passage, in order, question by question."""
    cuts = split_by_punkt(squad.contexts)
    for number, question in enumerate(squad.questions):
        context, spans = squad.contexts[question.context], cuts[question.context]
        starts = [start for start, _ in spans]
        right = {bisect.bisect_right(starts, answer.start) - 1 for answer in question.answers}
        for at, (start, end) in enumerate(spans):
            article = str(squad.articles[question.context])
            yield Candidate(number, context[start:end], at in right, article)


def split_by_punkt(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """The sentences of each text as (start, end) offsets, as Punkt learns them from all of them."""
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer  # takes seconds

    trainer = PunktTrainer()
    trainer.INCLUDE_ALL_COLLOCS = True
    trainer.train("\n\n".join(texts), finalize=True)
    tokenizer = PunktSentenceTokenizer(trainer.get_params())
    return [list(tokenizer.span_tokenize(text)) or [(0, len(text))] for text in texts]
