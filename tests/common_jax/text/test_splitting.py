"""Sentences and words: hand-split text, NLTK itself, complete coverage; and cleaning of texts."""

import logging

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from nltk import redos
from nltk.tokenize import NLTKWordTokenizer

from attconv_jax.data.selection import split_by_punkt
from common_jax.text import word_tokenizer
from common_jax.text.cleaning import clean, warn_if_overlong
from common_jax.text.sentence_splitter import split_sentences
from common_jax.text.word_tokenizer import UNICODE, split_words


def parts_of(split, text: str, *rule) -> list[str]:
    return [text[start:end] for start, end in split(text, *rule)]


# "|" marks the end of a part and is not part of the text.
SENTENCES = [
    "It rains.| It pours!| Does it?!| No.",
    "Mr. Smith met Dr. J. R. Jones of the U.S. Army on Jan. 5 at 8 p.m. sharp.| They left.",
    "He lives in the U.S.| The city is Washington, D.C.| It is large.",
    "Acme Inc. and others e.g. sell approx. 5 items, etc. to him.| See Fig. 3, pp. 4 and vol. 2.",
    "The answer is no.| Objects of art.| We met in Mar.| Ships are here.",
    "E. I. du Pont wrote to St. Louis.| Saturn V.| The Saturn IB flew.",
    "The non-U.S. Army (Gen. Lee, Ph.D. student) left.| Et al. Smith vs. Jones.",
    '"Why?" he asked.| "Because," she said.| "It rains."| (It does.)| [It did.]',
    "He said “Go.”| ‘No.’| “Yes.”| Yahoo! is a firm.",
    "The globe.:62–64, 66 Many saw it.".replace("66 ", "66| "),
    "One.[citation needed]| Two.[5][note 6]| Three [7] of “four”:8 are here.",
    "Prices rose... and fell.| But then...| He stopped…| We did not.",
    "What a careless redundancy.| they have it.",
    "1. First of all.| 2. Then the rest.",
    "日本。|「はい。」|中国！？| 終わり",
    "3.14 is pi.| 2.72 is e.| Version 2.0 is out.",
    "A heading|\n\nA man, a plan|\n \nno stop here",
    "One\nsentence\r\nin three lines.",
    " \t It begins late.| \n",
    "| \n",
    "",
]
WORDS = [
    "The |dog|'s |tail|, |it |did|n't |wag|.| |Dogs|' |tails |can|not|.",
    "“|Go|!|” |he |said|, |\"|now|\"|.| ``|Yes|''| |'|maybe|'|.",
    "\"|a |'|b|\"| c|''|d|\"",  # on which NLTK's own offsets fail
    "Mr. |Smith |of |the |U.S. |left |at |5 |p.m. |sharp|.| |He |is |here|.",
    "From |1995|–|1998|, |and|/|or |well|-|being|—|as |it |was|--|said|~|5|.",
    "$|5.50|, |€|3,000|, |£|7m|, |US|$|20|, |25|°|C |or |50|%|, |2|½ |and |6.7|+|.",
    "(|see |[|5|]|)|; |#|1 |@ |you|: |a|*|b |{|c|}|...| |d",
    "The |magnet|.|[|5|]| |It |rose|.|:|62| |The |end|.|”|[|6|]| |U.S.|[|7|]",
    "Many |stories|.|They |are |on |Amazon.com|, |said |M.Sc. |Lee|.|”|:|5",
    "New |York |City|:|57|–|60 |at |10:30 |o'clock|.",
    "gon|na |ca|n't |we|'ve |I|'m |rock |'n |roll",
    "日本|。|中国|、|「|はい|」",
    "مرحبا |بالعالم |👩‍🚀 |e\u0301 |\u200fx |\u200b\u200b|y",
    "tab|\t|new|\n|nbsp|\u00a0|thin|\u2009|\x1c|x",
    "",
    " |\n",
]
ALL_SCRIPTS = [
    "我|去|了|北|京|。|你|呢|？|《|长|城|》|iPhone|15",
    "東|京|タ|ワ|ー|に|、|3|月|5|日|。|佐|々|木|ｶ|ﾅ",
    "서|울|은| 수|도|이|다|.| \u1112\u1161\u11ab|국",
    "ฉั|น| ก|รุ|ง|เ|ท|พ|ฯ| กำ|ลั|ง| ລ|າ|ວ| မြ|န်|မ|ာ|။",
    "ذهبت |إلى |القاهرة|، |هل |تعرفها|؟ |می\u200cخواهم|؛ |ہے|۔",
    "दिल्ली |में |है|। |हाँ|! |भारत|॥",
    "¿|Dónde| está|?| ¡|Aquí|!| «|hola|»| l|'|Italie| ··|",
    "www|.|example|.|com|, |node|.|js| a|@|b|.|org|, |snake|_|case|, |C|++",
    "Python| 3.11|, |v|3.11|, |v|3|.|11|.|4|, |192|.|168|.|0|.|1|, |12|.|05|.|2020",
    "pre|-|1990|, |mid|-|June|, |US|$|5|, |the| 1990|s|, |100|km|, |11|:|28|, |1,700.5|, |3.5|%",
    "Mr.| Smith| did|n't| leave| the| U.S.| at| 5| p.m.| I|'ve| a| Ph.D|...| end|!|!",
    "👩‍👩‍👧|🇰🇷|🇯🇵|#️⃣|5️⃣| 👍🏽|👍🏽| cafe\u0301|!\ufe0f",
]


@pytest.mark.parametrize(
    ("case", "split"),
    [(case, (split_sentences,)) for case in SENTENCES]
    + [(case, (split_words,)) for case in WORDS]
    + [(case, (split_words, UNICODE)) for case in ALL_SCRIPTS],
)
def test_by_hand(case, split):
    split, *rule = split
    expected = [part.strip() for part in case.split("|") if part.strip()]
    assert parts_of(split, case.replace("|", ""), *rule) == expected


ANY_TEXT = st.text() | st.text(st.characters(codec=None))  # lone surrogates too


@given(ANY_TEXT | st.text(st.sampled_from(list(" \n\t.!?…。\"'”’)[](:5aAbcSt\u2029\x1c\x85-"))))
def test_each_character_is_in_one_sentence(text):
    spans = split_sentences(text)
    ends = [0, *(end for _, end in spans), len(text)]
    starts = [0, *(start for start, _ in spans), len(text)]
    for start, end in spans:
        assert start < end and not text[start].isspace() and not text[end - 1].isspace()
    for end, start in zip(ends[:-1], starts[1:], strict=True):
        assert not text[end:start].strip()  # also refuses an overlap that hides a character
        assert end <= start


_LETTERS = st.text(st.sampled_from(list(" \n\t.,:;!?'\"`´’“-–/~$%°()[]<>{}&*#@\\+0aAbsStTmnN")))


@given(ANY_TEXT | _LETTERS)
def test_each_character_is_in_one_word(text):
    covered = []
    for start, end in split_words(text):
        assert start < end
        covered += range(start, end)
    assert covered == [i for i, character in enumerate(text) if not character.isspace()]


_SCRIPTS = st.text(
    st.sampled_from(list("aé\u0301\u200d\ufe0f👩🇰🇷👍🏽#*5.,'’ \n我々ーกุำक्षि한\u1112\u1161ل،؟।「"))
)


@given(ANY_TEXT | _LETTERS | _SCRIPTS)
def test_all_scripts_are_split_further_and_between_grapheme_clusters(text):
    spans = split_words(text, UNICODE)
    covered = [at for start, end in spans for at in range(start, end)]
    assert covered == [i for i, character in enumerate(text) if not character.isspace()]
    clusters, ends = {match.end() for match in regex.finditer(r"\X", text)}, {e for _, e in spans}
    assert all(text[end].isspace() for end in ends - clusters)
    assert {end for _, end in split_words(text)} & clusters <= ends


_SIMPLE = ["A", "dog", "ran,", ",", "3", "10,", "cannot", "Wanna", "gotta", "wannabe", "a1"]
_SPECIAL = ["The", "dog's", "tail,", "gonna", "can't", "I'm", "(see)", "5:", "a;", "'tis", "dogs'"]


@given(st.lists(st.sampled_from(_SIMPLE)) | st.lists(st.sampled_from([*_SIMPLE, *_SPECIAL])))
def test_one_sentence_that_holds_nothing_to_cut_is_as_nltk_has_it(words):
    text = " ".join(words) + "."
    assert parts_of(split_words, text) == NLTKWordTokenizer().tokenize(text)


def test_a_long_text_without_sentences_is_cut_between_words():
    words = ["word", "another", "x"] * 10_000
    assert parts_of(split_words, " ".join(words)) == words


SHOWN = ["a", " a \u200b", "\u200ba", "é\n", "\u00a0.", "𝟘", "\U0001f600\ufe0f"]
INVISIBLE = (
    "\u200b\u200c\u200d\u2060\u200e\u202e\u00ad\x00\x07\x7f\x85\u2028\u3000\u115f\u2800\ufe0f"
)


@pytest.mark.parametrize("text", [*SHOWN, "", " \t\r\n", *INVISIBLE, INVISIBLE, "\ufeff \ufeff"])
def test_a_text_that_looks_blank_is_empty_and_any_other_is_kept(text):
    kept = text if text in SHOWN else ""
    assert clean(text) == kept
    assert clean(f"\ufeff{text}") == kept


def test_overlong_texts(caplog):
    for length in (0, 5, 10, 11):
        warn_if_overlong(f"here:{length}", length, 5)
    warn_if_overlong("there:1", 10**6, 0)
    assert caplog.messages == ["here:11: 11 tokens, where training has at most 5"]
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", [".", ". ", "A. ", ".)", "[1]", ".[", ":1", "\n", "\n ", "。", "\0"]
)
def test_long_texts_take_linear_time(unit):
    text = unit * 100_000  # by a quadratic rule, minutes
    assert all(start < end for start, end in split_sentences(text))


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "'", '"', "''\"``", ".", ").", "a.[", ":1", " ", "\n", "😀"])
def test_long_texts(unit):
    text = unit * (30_000 // len(unit))
    covered = sum(end - start for start, end in split_words(text))
    assert covered == len("".join(text.split()))


@pytest.mark.slow
@pytest.mark.parametrize("split", [split_words, lambda text: split_by_punkt([text])])
def test_nltk_has_no_time_limit_as_on_a_busy_machine(monkeypatch, split):
    text = "(one) " * 1500 + "Another. " * 300
    word_tokenizer._treebank.cache_clear()
    monkeypatch.setattr(redos, "DEFAULT_TIMEOUT", 1e-9)
    with pytest.raises(TimeoutError):
        redos.compile("(a|b|ab)*c").search("ab" * 100_000)
    assert len(list(split(text)))
