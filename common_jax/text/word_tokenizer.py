"""Words of a text as character offsets, by one of two rules.

`ENGLISH`: NLTK's Treebank tokens. As in BiDAF (Seo et al. 2017, Bidirectional Attention Flow for
Machine Comprehension) and its successors, they are split at dashes, slashes, quotation marks,
currency signs and units, because answers of SQuAD begin and end inside such tokens ("1995–1998",
"and/or", "25°C").

`UNICODE`: these, further split by the properties of their characters, for all scripts: Hangul and
scripts that put no spaces between words into single characters; all punctuation and symbols, as in
host names, from words; and letters from digits ("v2", "100km"). Decimal numbers, initials,
abbreviations and contractions stay. No grapheme cluster (Unicode Standard Annex 29) is split.

A rule never changes, so that a trained model gets the words that it was trained on; other words are
a new rule.
"""

import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any, Literal

import regex

from common_jax.text.sentence_splitter import split_sentences

Rule = Literal["english", "unicode"]
ENGLISH: Rule = "english"
UNICODE: Rule = "unicode"

_CUT = (
    "-‐‑‒–—―−﹣－"  # dashes and the minus sign
    "/\\⁄∕／"
    "~∼～"
    '"“”„‟‘’‚‛«»‹›`´″′〝〞＂「」『』'
    "$¢£¤¥฿₠₡₢₣₤₥₦₧₨₩₪₫€₭₮₯₰₱₲₳₴₵₸₹₺₻₼₽₾₿＄￠￡￥￦"
    "°º%％‰‱℃℉"
    "+±×=…·•|§½¼¾⟨⟩"
    "\u200b\ufeff"  # zero width
    "。｡、，．・！？：；（）【】《》〈〉"
)
_PIECE = re.compile(rf"([{re.escape(_CUT)}])\1*|[^{re.escape(_CUT)}]+")

# After a full stop before a note or without a space ("magnet.[5]", "globe.:62",
# "stories.Political"), unless it is an initial's; and around a colon between a word and a number
# ("City:57–60").
_HIDDEN = re.compile(
    r"(?<!\b[^\W\d_]\.)(?<=[^\s.]\.)(?=[\"'”’»)\]]*+(?:[\[(]|:\d))"
    r"|(?<=[^\W\d_A-Z]{3}\.)(?=[A-Z][a-z])"
    r"|(?<=[^\s\d])(?=:\d)|(?<=\D:)(?=\d)"
)

# Text that NLTK splits only at spaces, before such commas and before the full stop: splitting it
# without NLTK is several times as fast.
_PLAIN = re.compile(
    r"(?:(?!(?:cannot|gimme|gonna|gotta|lemme|wanna)\b)[a-z0-9]++(?: ?, ++| *+))++\.?",
    re.ASCII | re.IGNORECASE,
)
_PLAIN_WORD = re.compile(r"[^ ,.]+|[,.]")

_LONGEST = 10_000  # characters given to NLTK at once: it limits the time of its patterns

# Scripts without spaces between words, those of UAX 14's class SA (Thai, Lao, Khmer, Burmese and
# others) included; and Hangul, as particles follow nouns without a space.
_UNSPACED = r"[\p{Script=Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Line_Break=SA}]"
_LETTER = rf"[[\p{{L}}\p{{M}}]--{_UNSPACED}]"
# Treebank tokens that the rule `UNICODE` leaves whole: contractions, initials, abbreviations.
_WHOLE = regex.compile(
    rf"n't|'{_LETTER}+|(?:{_LETTER}{{1,2}}\.)+{_LETTER}{{0,2}}|{_LETTER}+\.", regex.V1 | regex.I
)
_SPLIT = regex.compile(
    rf"(?=[{_UNSPACED}])\X"
    rf"|(?:(?={_LETTER})\X)+"
    r"|\p{N}+(?:,\p{N}+)+(?:\.\p{N}+)?|(?<![\p{N}]\.)\p{N}++\.\p{N}++(?!\.\p{N})|\p{N}+"
    r"|([[\p{P}\p{S}]--\p{So}])\1*|\X",
    regex.V1,
)
_CLUSTER = regex.compile(r"\X")


def split_words(text: str, rule: Rule = ENGLISH) -> list[tuple[int, int]]:
    """The words of a text as (start, end) offsets, in order: text[start:end] is the word.

    Words are not empty and contain no white space; every other character of the text is in exactly
    one. Accepts any string.
    """
    return _treebank_words(text) if rule == ENGLISH else _unicode_words(text)


def _unicode_words(text: str) -> list[tuple[int, int]]:
    spans = []
    for start, end in _treebank_words(text):
        word = text[start:end]
        if (word.isascii() and (word.isalpha() or word.isdigit())) or _WHOLE.fullmatch(word):
            spans.append((start, end))
        else:
            spans += [match.span() for match in _SPLIT.finditer(text, start, end)]
    return spans if text.isascii() else _join_clusters(text, spans)


def _join_clusters(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The words, joined where one ends inside a grapheme cluster."""
    ends = {match.end() for match in _CLUSTER.finditer(text)}
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and joined[-1][1] == start and start not in ends:
            start = joined.pop()[0]
        joined.append((start, end))
    return joined


def _treebank_words(text: str) -> list[tuple[int, int]]:
    spans = []
    for start, end in _parts(text):
        if _PLAIN.fullmatch(text, start, end):
            spans += [match.span() for match in _PLAIN_WORD.finditer(text, start, end)]
            continue
        tokenizer = _treebank()
        # NLTK replaces each straight quotation mark by two characters; it splits at ” the same way.
        plain = text[start:end].replace('"', "”")
        at = 0
        for token in tokenizer.tokenize(plain):
            # It drops spaces and keeps the length of all else ('' becomes ``).
            while plain[at].isspace():
                at += 1
            piece = plain[at : at + len(token)]
            spans += [(start + at + a, start + at + b) for a, b in _cut(piece)]
            at += len(token)
    return spans


def _parts(text: str) -> Iterator[tuple[int, int]]:
    """Parts for single calls of NLTK: sentences, split at `_HIDDEN` ends and after `_LONGEST`."""
    for begin, end in split_sentences(text):
        cuts = (match.start() for match in _HIDDEN.finditer(text, begin, end))
        for start, stop in itertools.pairwise((begin, *cuts, end)):
            while stop - start > _LONGEST:
                space = text.rfind(" ", start + 1, start + _LONGEST)
                middle = space if space > 0 else start + _LONGEST
                yield start, middle
                start = middle
            yield start, stop


def _cut(token: str) -> list[tuple[int, int]]:
    return [match.span() for match in _PIECE.finditer(token)]


@functools.cache
def _treebank() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer  # takes seconds: SciPy comes along

    lift_time_limit()
    return NLTKWordTokenizer()


def lift_time_limit() -> None:
    """Lets NLTK's regular expressions run as long as they need.

    NLTK (3.10.4) ends a match after five seconds by the clock, also on a busy machine or in a
    process that was suspended. A caller limits the length of a text by a stranger.
    """
    from nltk import redos

    redos.DEFAULT_TIMEOUT = None
