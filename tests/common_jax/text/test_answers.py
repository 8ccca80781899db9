"""Places of answers: at their start, or where their text stands once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.text.answers import Answer, locate

CONTEXT = "Zoë 😀 wohnt in Köln.\r\nDas heißt „Ecke“, „Ecke“."


@pytest.mark.parametrize("counted", [0, 19, 10**9, -5, None])
@pytest.mark.parametrize("text", ["Köln", "  Köln\t", "😀", "Zoë", "heißt „"])
def test_a_text_that_stands_once_is_taken_there(text, counted):
    """Whatever its start is: in bytes, in units of UTF-16, from 1."""
    plain = text.strip()
    start = CONTEXT.index(plain)
    found = text if text in CONTEXT else plain
    assert locate(text, counted, CONTEXT) == Answer(found, CONTEXT.index(found)) and start >= 0


TEXT = st.text(st.sampled_from("aäe\u0308\n\r😀각 ."), max_size=12)


@given(TEXT, TEXT, TEXT, st.none() | st.integers(-3, 20))
def test_an_answer_is_always_a_span_and_at_its_start_if_it_is_there(before, text, after, start):
    context = before + text + after
    if text.strip():
        assert locate(text, len(before), context) == Answer(text, len(before))
    try:
        answer = locate(text, start, context)
    except ValueError:
        return
    assert context.startswith(answer.text, answer.start) and answer.text.strip()
    at_start = start is not None and start >= 0 and context.startswith(text, start)
    places = [n for n in range(len(context)) if context.startswith(answer.text, n)]
    assert answer == Answer(text, start) if at_start else places == [answer.start]
