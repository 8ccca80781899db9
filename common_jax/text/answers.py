"""The places of answers in passages, in characters (Unicode code points) from 0 as in SQuAD."""

import dataclasses

from common_jax.text.cleaning import clean


@dataclasses.dataclass(frozen=True)
class Answer:
    """A span of a passage.

    Attributes:
      start: in characters of the passage.
    """

    text: str
    start: int


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
