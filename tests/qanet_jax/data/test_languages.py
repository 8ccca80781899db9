"""Gold answers in other languages that are whole words, by either rule of words."""

import pytest

from common_jax.text.word_tokenizer import split_words
from qanet_jax.data.text import TokenizedText, unreachable
from tests.multilingual import LANGUAGES, gold_answers

# Of fifty; Arabic's others are behind a particle that is part of the word.
REACHABLE = {
    "Chinese": (10, 50),
    "Japanese": (10, 50),
    "Korean": (20, 50),
    "Thai": (10, 50),
    "Arabic": (10, 40),
    "Hindi": (30, 50),
    "Spanish": (30, 50),
}


def _reachable(language, rule):
    answers = gold_answers(language)
    assert all(text[a.start : a.start + len(a.text)] == a.text for text, a in answers)
    words = [TokenizedText.of(text, rule) for text, _ in answers]
    return sum(
        not unreachable(text, w, [answer]) for w, (text, answer) in zip(words, answers, strict=True)
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_fifty_gold_answers(language):
    counts = tuple(_reachable(language, rule) for rule in ("english", "unicode"))
    print(f"{language:10s} english {counts[0]:2d} of 50, unicode {counts[1]:2d} of 50")
    assert counts == REACHABLE[language]
    answers = [(text, a.start, a.start + len(a.text)) for text, a in gold_answers(language)]
    spans = [split_words(text, "unicode") for text, *_ in answers]
    whole = [
        {start, end} <= {edge for span in words for edge in span}
        for words, (_, start, end) in zip(spans, answers, strict=True)
    ]
    assert sum(whole) == counts[1]  # by exact characters
