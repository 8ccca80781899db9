"""Sentences of a text as character offsets, by rules without a trained model.

After Punkt (Kiss & Strunk 2006, Unsupervised Multilingual Sentence Boundary Detection): a full stop
after an abbreviation, an initial or an ordinal ends a sentence only before a frequent sentence
starter, and none before lower case. Punkt learns its lists from text, and NLTK downloads a model;
the lists here are short and English.
"""

import re
from collections.abc import Iterator

import regex

_ENDS = ".!?…"
_WIDE_ENDS = "。！？｡"  # of scripts that put no space between sentences
_OPENERS = "\"'“”‘’«»‹›„‚`([{<「『（【¿¡*"
_CLOSERS = "\"'“”‘’«»‹›`)]}>」』）】*"

# Text between spaces, split after a wide end. Possessive, for linear time.
_CHUNK = re.compile(
    rf"(?=\S)[^\s{_WIDE_ENDS}]*+(?:[{_WIDE_ENDS}]++[{re.escape(_CLOSERS)}]*+)?", re.DOTALL
)
# "[citation needed]" and ":57–60" directly after a sentence's end, as in Wikipedia's plain text.
_NOTE = re.compile(
    rf"(?<=[{_ENDS}{re.escape(_CLOSERS)}])"
    r"(?:\[[^\[\]\n]{1,40}\]|:\d++(?:[:,–-]++ ?\d++)*+)"
)
_BLANK_LINE = re.compile(r"\n[^\S\n]*+\n|\r[^\S\r\n]*+\r|\u2029")
_HYPHEN = re.compile(r"[-‐‑‒–—―/(\[]")  # "non-U.S." ends in the abbreviation "U.S."
# J, U.S, Ph.D, a.m: letters separated by stops, or one upper-case letter.
_INITIALS = re.compile(r"[^\W\d_a-z]|[^\W\d_]{1,2}(?:\.[^\W\d_]{1,2})+")


# Text up to the marks, and what closes with them, that end a sentence in a script other than Latin.
_MARKED = regex.compile(
    rf"\S.*?(?:[\p{{Sentence_Break=STerm}}--[!?]]++[{re.escape(_CLOSERS)}]*+|\Z)",
    regex.V1 | regex.DOTALL,
)


def _list(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ABBREVIATIONS = _list(  # before names
    """
    mr mrs ms messrs mme mlle dr prof rev fr hon pres gov sen rep reps sens supt atty
    gen maj col lt capt cmdr cpl sgt adm brig pvt ven st ste mt ft sr jr esq
    bros ave blvd rd hwy co corp inc ltd llc dept univ assn eds trans
    ibid al cf viz vs lit abbr incl excl esp resp approx gk gr lat ger heb arab
    """
)
_BEFORE_NUMBERS = _list(  # abbreviations before numbers, words elsewhere
    """
    jan feb mar apr jun jul aug sep sept oct nov dec b c d r fl approx ca circa est
    no nos nr v vol vols p pp pg fig figs eq eqs ch chap sec sect art op par
    """
)
_STARTERS = _list(
    """
    The This That These Those It Its He She They We You His Her Their Our My There Here
    In On At By For From With To Of As After Although Though Before During Since While When
    Where What Who Why How If Because However Thus Therefore Hence Then Moreover Furthermore
    Additionally Also But And Or Yet So Nevertheless Instead Later Today Despite Under Until Unlike
    A Some Many Most Several Other Others Another Such Each Both Between Among Following Even Only
    An Again All Any Not Now Once According Like
    """
)


def split_sentences(text: str) -> list[tuple[int, int]]:
    """The sentences of a text as (start, end) offsets, in order.

    Sentences neither begin nor end with a space, and every other character is in exactly one. A
    blank line always ends a sentence. Never raises; the time is linear in the text.
    """
    text = _NOTE.sub(lambda match: ")" * len(match[0]), text)
    spans: list[tuple[int, int]] = []
    start = previous = end = -1  # of the sentence, and of its last chunk
    for match in _CHUNK.finditer(text):
        if start >= 0:
            blank = _BLANK_LINE.search(text, end, match.start())
            if blank or _ends(text[previous:end], match[0], first=previous == start):
                spans.append((start, end))
                start = -1
        if start < 0:
            start = match.start()
        previous, end = match.span()
    return [*spans, (start, end)] if start >= 0 else spans


def split_after_marks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentences of a part of a text that end with a mark of any script (Sentence_Break=STerm of
    Unicode Standard Annex 29), except "!" and "?", whether a space follows or not."""
    return (match.span() for match in _MARKED.finditer(text, start, end))


def _ends(chunk: str, following: str, *, first: bool) -> bool:
    """Whether a sentence ends between `chunk`, which may be its `first`, and `following`."""
    # The mark before closing quotation marks and brackets; only a full stop is ambiguous.
    body = chunk.rstrip(_CLOSERS)
    if not body or body[-1] not in _ENDS + _WIDE_ENDS:
        return False
    if body[-1] in _WIDE_ENDS:
        return True
    following = following.lstrip(_OPENERS)
    goes_on = following[:1].islower()
    if body[-1] != "." or body.endswith(".."):
        return not goes_on

    # A full stop may end an abbreviation, an initial or a number.
    word = _HYPHEN.split(body[:-1].lstrip(_OPENERS))[-1]
    if goes_on:  # a long word that is no abbreviation ends a sentence; the lower case is an error
        return len(word) > 4 and word.isalpha() and word.lower() not in _ABBREVIATIONS
    if word.isdigit() and first:  # the number of a list's item
        return False
    if word.lower() in _BEFORE_NUMBERS and following[:1].isdigit():
        return False
    if word.lower() in _ABBREVIATIONS or _INITIALS.fullmatch(word):
        return following.rstrip(",'’") in _STARTERS
    return True
