"""Locates answers in passages, also if `answer_start` is counted in other units than SQuAD's.

SQuAD counts characters (Unicode code points) from 0. Other tools count bytes of UTF-8, units of
UTF-16, characters of a text with other line ends or in another normal form, or from 1.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from common_jax.text.cleaning import clean


@dataclasses.dataclass(frozen=True)
class Answer:
    """A span of a passage.

    Attributes:
      start: in characters of the passage.
    """

    text: str
    start: int


class _Form(NamedTuple):
    """A form of texts in which offsets are counted.

    Attributes:
      pieces: splits a passage into the smallest pieces that can be converted alone.
      change: converts a text to this form.
      width: the length of a unit in it.
    """

    pieces: Callable[[str], list[str]]
    change: Callable[[str], str | bytes]
    width: int = 1


# A character with its combining marks, or the letters of a Hangul syllable.
_CLUSTER = re.compile(r"[\s\S][\u1160-\u11ff]*")


def _clusters(text: str) -> list[str]:
    pieces: list[str] = []
    for piece in _CLUSTER.findall(text):
        if pieces and unicodedata.combining(piece[0]):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces


FORMS = {
    "in bytes of UTF-8": _Form(list, str.encode),
    "in units of UTF-16": _Form(list, lambda text: text.encode("utf-16-le"), 2),
    "with line ends of one character": _Form(
        re.compile(r"\r\n|[\s\S]").findall, lambda text: text.replace("\r\n", "\n")
    ),
    "with line ends of two characters": _Form(list, lambda text: re.sub(r"\r?\n", "\r\n", text)),
    "in normal form C": _Form(_clusters, lambda text: unicodedata.normalize("NFC", text)),
    "in normal form D": _Form(_clusters, lambda text: unicodedata.normalize("NFD", text)),
}


def locate(answer: Answer, context: str) -> tuple[Answer, str]:
    """The answer as a span of the context, and how its start was counted; "" if in characters.

    If the answer is not at its start, other ways of counting are tried: off by one, without the
    spaces around the answer, and `FORMS`.

    Raises:
      ValueError: if they find no place, or several.
    """
    if not clean(answer.text):
        raise ValueError("empty answer")
    if answer.start >= 0 and context.startswith(answer.text, answer.start):
        return answer, ""
    counted: dict[Answer, str] = {}
    for way, span in _candidates(answer, context):
        counted.setdefault(span, way)
    if len(counted) == 1:
        return next(iter(counted.items()))
    if counted:
        raise ValueError(
            f"answer not at its answer_start, which is {' or '.join(counted.values())}"
        )
    if answer.text in context:
        raise ValueError("answer not at its answer_start, though elsewhere in its context")
    raise ValueError("answer not in its context")


def _candidates(answer: Answer, context: str) -> Iterator[tuple[str, Answer]]:
    """Possible spans of the answer, each with its way of counting."""
    text, start = answer.text, answer.start
    stripped = text.strip()
    leading = len(text) - len(text.lstrip())
    shifts = [("off by one", text, start + shift) for shift in (-1, 1)]
    if stripped != text:
        shifts += [("with blanks around the answer", stripped, start + n) for n in (0, leading)]
    for way, candidate, place in shifts:
        if place >= 0 and context.startswith(candidate, place):
            yield way, Answer(candidate, place)
    for way, form in FORMS.items():
        if (span := _span_in_form(answer, context, form)) is not None:
            yield f"counted {way}", Answer(context[span[0] : span[1]], span[0])


def _span_in_form(answer: Answer, context: str, form: _Form) -> tuple[int, int] | None:
    """The start and end, in characters, of an answer whose start is counted in a form; or None."""
    changed = form.change(answer.text)
    ends = answer.start, answer.start + len(changed) // form.width
    offsets, counted, offset = {0: 0}, 0, 0  # in characters, by those in the form
    for piece in form.pieces(context):
        counted += len(form.change(piece)) // form.width
        offset += len(piece)
        offsets[counted] = offset
        if counted >= ends[1]:
            break
    start, end = (offsets.get(number) for number in ends)
    if start is None or end is None or form.change(context[start:end]) != changed:
        return None
    return start, end
