"""Cleaning of texts, and the warning for overlong ones."""

import logging

import pytest

from common_jax.text.cleaning import clean, warn_if_overlong


@pytest.mark.parametrize(
    "text", ["a", " a \u200b", "\u200ba", "é\n", "\u00a0.", "𝟘", "\U0001f600\ufe0f"]
)
def test_a_text_that_shows_something_is_kept(text):
    assert clean(text) == text
    assert clean(f"\ufeff{text}") == text


INVISIBLE = (
    "\u200b\u200c\u200d\u2060\u200e\u202e\u00ad\x00\x07\x7f\x85\u2028\u3000\u115f\u2800\ufe0f"
)


@pytest.mark.parametrize("text", ["", " \t\r\n", *INVISIBLE, INVISIBLE, "\ufeff", "\ufeff \ufeff"])
def test_a_text_that_looks_blank_is_empty(text):
    assert clean(text) == ""


def test_overlong_texts(caplog):
    for length in (0, 5, 10, 11):
        warn_if_overlong(f"here:{length}", length, 5, "words")
    warn_if_overlong("there:1", 10**6, 0, "words")
    assert caplog.messages == ["here:11: 11 words, where training has at most 5"]
    assert caplog.records[0].levelno == logging.WARNING
