"""Word tokenization: hand-split text, NLTK itself, complete coverage, answers of SQuAD."""

import gzip
import json

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from nltk import redos

from attconv_jax.data.selection import split_by_punkt
from common_jax.text import word_tokenizer
from common_jax.text.word_tokenizer import UNICODE, split_words
from tests.real import needs_real_data, real_data


def _words(text: str, *rule) -> list[str]:
    return [text[start:end] for start, end in split_words(text, *rule)]


# "|" separates words and is not part of the text.
CASES = [
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


@pytest.mark.parametrize("case", CASES)
def test_by_hand(case):
    expected = [part.strip() for part in case.split("|") if part.strip()]
    assert _words(case.replace("|", "")) == expected


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


@pytest.mark.parametrize("case", ALL_SCRIPTS)
def test_all_scripts_by_hand(case):
    expected = [part.strip() for part in case.split("|") if part.strip()]
    assert _words(case.replace("|", ""), UNICODE) == expected


_LETTERS = st.text(st.sampled_from(list(" \n\t.,:;!?'\"`´’“-–/~$%°()[]<>{}&*#@\\+0aAbsStTmnN")))


@given(st.text() | st.text(st.characters(codec=None)) | _LETTERS)
def test_each_character_is_in_one_word(text):
    covered = []
    for start, end in split_words(text):
        assert start < end
        covered += range(start, end)
    assert covered == [i for i, character in enumerate(text) if not character.isspace()]


_SCRIPTS = st.text(
    st.sampled_from(list("aé\u0301\u200d\ufe0f👩🇰🇷👍🏽#*5.,'’ \n我々ーกุำक्षि한\u1112\u1161ل،؟।「"))
)


@given(st.text() | st.text(st.characters(codec=None)) | _LETTERS | _SCRIPTS)
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
    from nltk.tokenize import NLTKWordTokenizer

    text = " ".join(words) + "."
    assert _words(text) == NLTKWordTokenizer().tokenize(text)


@pytest.mark.parametrize("unit", ["a", "'", '"', "''\"``", ".", ").", "a.[", ":1", " ", "\n", "😀"])
def test_long_texts(unit):
    text = unit * (30_000 // len(unit))
    assert sum(end - start for start, end in split_words(text)) == len("".join(text.split()))


def test_a_long_text_without_sentences_is_cut_between_words():
    words = ["word", "another", "x"] * 10_000
    assert _words(" ".join(words)) == words


@pytest.mark.parametrize("split", [split_words, lambda text: split_by_punkt([text])])
def test_nltk_has_no_time_limit_as_on_a_busy_machine(monkeypatch, split):
    text = "(one) " * 1500 + "Another. " * 300
    word_tokenizer._treebank.cache_clear()
    monkeypatch.setattr(redos, "DEFAULT_TIMEOUT", 1e-9)
    with pytest.raises(TimeoutError):
        redos.compile("(a|b|ab)*c").search("ab" * 100_000)
    assert len(list(split(text)))


@needs_real_data
def test_answers_of_squad_begin_and_end_with_words():
    with gzip.open(real_data("squad/dev-v1.1.json.gz")) as file:
        articles = json.load(file)["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]][::6]
    answers = hits = 0
    for paragraph in paragraphs:
        spans = split_words(paragraph["context"])
        starts, ends = ({span[side] for span in spans} for side in (0, 1))
        for answer in [a for question in paragraph["qas"] for a in question["answers"]]:
            begin = answer["answer_start"]
            answers += 1
            hits += begin in starts and begin + len(answer["text"]) in ends
    assert answers > 5000
    assert hits / answers > 0.995
