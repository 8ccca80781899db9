"""Cleaning of texts, equal in corpora and predictions, and the warning for overlong ones."""

import logging
import re
import unicodedata

from common_jax.errors import Location

FAR = 2  # times the longest text of training

_BOM = "\ufeff"
# Invisible characters that are neither white space, control nor format characters: fillers, the
# grapheme joiner, inherent vowels, the blank Braille pattern, variation selectors.
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
_OTHER_SPACE = re.compile(r"[^\S ]")
_BLANK_CATEGORIES = ("Cc", "Cf", "Zs", "Zl", "Zp")

_log = logging.getLogger(__name__)


def clean(text: str) -> str:
    """A text without a byte order mark at its start; "" if no character is visible (white space,
    control, format and zero-width characters only)."""
    if "!" <= text[:1] <= "~":  # most texts
        return text
    text = text.removeprefix(_BOM)
    return "" if all(map(_is_blank, text)) else text


def with_blanks(text: str) -> str:
    """A text with a blank for each other white space, such as a tab, CR, NBSP, NEL or U+2028; the
    same object if there is none."""
    return text if text.isprintable() else _OTHER_SPACE.sub(" ", text)


def warn_if_overlong(place: str | Location, length: int, longest: int) -> None:
    """Logs a text far longer than any in training.

    Args:
      longest: of training, or a limit for it, in words or subword pieces; 0 if unknown.
    """
    if longest and length > FAR * longest:
        _log.warning("%s: %d tokens, where training has at most %d", place, length, longest)


def _is_blank(character: str) -> bool:
    return character in _FILLERS or unicodedata.category(character) in _BLANK_CATEGORIES
