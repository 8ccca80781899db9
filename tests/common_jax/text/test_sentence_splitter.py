"""Sentence splitting: hand-split text, complete coverage, no exceptions."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.text.sentence_splitter import split_sentences
from tests.real import needs_real_data, real_data

# "|" marks the end of a sentence and is not part of the text.
CASES = [
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


@pytest.mark.parametrize("case", CASES)
def test_by_hand(case):
    text = case.replace("|", "")
    sentences = [text[start:end] for start, end in split_sentences(text)]
    assert sentences == [part.strip() for part in case.split("|") if part.strip()]


@given(
    st.text()
    | st.text(st.characters(codec=None))  # lone surrogates too
    | st.text(st.sampled_from(list(" \n\t.!?…。\"'”’)[](:5aAbcSt\u2029\x1c\x85-")))
)
def test_each_character_is_in_one_sentence(text):
    spans = split_sentences(text)
    ends = [0, *(end for _, end in spans), len(text)]
    starts = [0, *(start for start, _ in spans), len(text)]
    for start, end in spans:
        assert start < end and not text[start].isspace() and not text[end - 1].isspace()
    for end, start in zip(ends[:-1], starts[1:], strict=True):
        assert not text[end:start].strip()  # also refuses an overlap that hides a character
        assert end <= start


@pytest.mark.parametrize(
    "unit", [".", ". ", "A. ", ".)", "[1]", ".[", ":1", "\n", "\n ", "。", "\0"]
)
def test_long_texts_take_linear_time(unit):
    text = unit * 100_000  # by a quadratic rule, minutes
    assert all(start < end for start, end in split_sentences(text))


@needs_real_data
def test_paragraphs_of_wikipedia():
    with gzip.open(real_data("squad/dev-v1.1.json.gz")) as file:
        articles = json.load(file)["data"]
    contexts = [paragraph["context"] for article in articles for paragraph in article["paragraphs"]]
    sentences = [c[start:end] for c in contexts for start, end in split_sentences(c)]
    # About five sentences in a paragraph; few begin in lower case, none end in a title.
    assert 4.5 < len(sentences) / len(contexts) < 5.5
    assert sum(sentence[0].islower() for sentence in sentences) < 0.01 * len(sentences)
    assert not any(sentence.endswith((" Mr.", " Dr.", " Prof.", " Gen.")) for sentence in sentences)
