"""Places of answers whose offsets are counted in other units, against conversions by hand."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.text.answers import Answer, locate

CONTEXT = "Zoë 😀 wohnt in Köln.\r\nDas 각 heißt „Ecke“.\r\nEnde: 3 Äpfel"
NFD = unicodedata.normalize("NFD", CONTEXT)
UNITS = {
    "counted in bytes of UTF-8": lambda text: len(text.encode()),
    "counted in units of UTF-16": lambda text: len(text.encode("utf-16-le")) // 2,
    "counted with line ends of one character": lambda text: len(text.replace("\r\n", "\n")),
    "counted with line ends of two characters": lambda text: len(text.replace("\n", "\r\n")),
}


@pytest.mark.parametrize("text", ["Köln", "각", "„Ecke“", "Ende", "Äpfel", "in Köln.\nDas"])
@pytest.mark.parametrize("way", UNITS)
def test_a_start_in_other_units(text, way):
    two = way.endswith("two characters")
    context = CONTEXT.replace("\r\n", "\n") if two else CONTEXT
    written = text if two else text.replace("\n", "\r\n")
    start = context.index(written)
    counted = UNITS[way](context[:start])
    answer, found_way = locate(Answer(written, counted), context)
    assert answer == Answer(written, start)
    assert found_way in ("", way, "off by one") and (found_way == "") == (counted == start)


@pytest.mark.parametrize(("form", "context"), [("NFC", NFD), ("NFD", CONTEXT)])
@pytest.mark.parametrize("word", ["Köln", "각", "Äpfel"])
def test_a_start_in_another_normal_form(form, context, word):
    """The answer is the passage's own characters."""
    normal = unicodedata.normalize(form, context)
    text = unicodedata.normalize(form, word)
    here = next(w for w in (word, unicodedata.normalize("NFD", word)) if w in context)
    answer, way = locate(Answer(text, normal.index(text)), context)
    assert answer == Answer(here, context.index(here))
    assert way == f"counted in normal form {form[-1]}"


@pytest.mark.parametrize(
    ("text", "shift", "way"),
    [
        ("Köln", 1, "off by one"),
        ("  Köln ", 0, "with blanks around the answer"),
        ("  Köln ", -2, "with blanks around the answer"),
        ("Köln\t", 0, "with blanks around the answer"),
    ],
)
def test_blanks_and_counting_from_one(text, shift, way):
    start = CONTEXT.index("Köln")
    assert locate(Answer(text, start + shift), CONTEXT) == (Answer("Köln", start), way)


@pytest.mark.parametrize(
    ("text", "start", "context", "message"),
    [
        ("aa", 3, "aa....", "answer not at its answer_start, though elsewhere"),
        ("b", 2, "aa....", "answer not in its context"),
        (" ", 0, "aa....", "empty answer"),
        ("aa", -5, "aa....", "answer not at its answer_start, though elsewhere"),
        ("a", 1, "a.a", "which is off by one or off by one"),  # before and after
    ],
)
def test_an_answer_that_has_no_place_or_two(text, start, context, message):
    with pytest.raises(ValueError, match=message):
        locate(Answer(text, start), context)


TEXT = st.text(st.sampled_from("aäe\u0308\n\r😀각 ."), max_size=12)


@given(TEXT, TEXT, TEXT, st.integers(-3, 20))
def test_an_answer_is_always_a_span_and_at_its_start_if_it_is_there(before, text, after, start):
    context = before + text + after
    if text.strip():
        right = Answer(text, len(before))
        assert locate(right, context) == (right, "")
    try:
        answer, _ = locate(Answer(text, start), context)
    except ValueError:
        return
    assert context.startswith(answer.text, answer.start) and answer.text.strip()
