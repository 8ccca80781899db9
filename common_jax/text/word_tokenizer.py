"""Words of a text as character offsets: NLTK's Treebank tokens, further split.

As in BiDAF (Seo et al. 2017, Bidirectional Attention Flow for Machine Comprehension) and its
successors, tokens are split at dashes, slashes, quotation marks, currency signs and units, because
answers of SQuAD begin and end inside such tokens ("1995–1998", "and/or", "25°C").
"""

import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any

from common_jax.text.sentence_splitter import split_sentences

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


def split_words(text: str) -> list[tuple[int, int]]:
    """The words of a text as (start, end) offsets, in order: text[start:end] is the word.

    Words are not empty and contain no white space; every other character of the text is in exactly
    one. Accepts any string.
    """
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

    return NLTKWordTokenizer()
