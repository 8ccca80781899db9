"""The generated corpus: German sentences by hand; splits parsed from the English side only."""

import itertools
import re
import tracemalloc

import pytest

from csan_jax.data import synthetic_phrases as say
from csan_jax.data.synthetic import generate

COUNTS = {"train": 30_000, "dev": 8_000, "test": 8_000}

# A phrase, located independently of the generator: the longest run of these words.
_PHRASE_WORDS = {
    *re.findall(r"[a-z']+", " ".join(map(say.english_number, range(1_000))) + " thousand o'clock"),
    *re.findall(r"\w+", " ".join(say.english_date(day, 1) for day in range(1, 32))),
    *(month for month, _, _ in say.MONTHS),
    *["past", "to", "half", "quarter", "euro", "euros", "cent", "cents", "and"],
}
_EDGES = {"of", "to", "and", "past"}  # also between a phrase and the rest of the sentence


def _phrase(english: str) -> str:
    words = english.rstrip(".").split(" ")
    inside = [all(part in _PHRASE_WORDS for part in word.split("-")) for word in words]
    runs = [
        [word for _, word in run]
        for is_phrase, run in itertools.groupby(
            zip(inside, words, strict=True), lambda pair: pair[0]
        )
        if is_phrase
    ]
    longest = max(runs, key=lambda run: (len(run), not set(run) <= _EDGES))
    while longest[0] in _EDGES:
        longest = longest[1:]
    while longest[-1] in _EDGES:
        longest = longest[:-1]
    # A day is held out in every year.
    return re.sub(r" nineteen [a-z-]+$", "", " ".join(longest))


@pytest.fixture(scope="module")
def corpora():
    return {split: list(generate(count, 7, split)) for split, count in COUNTS.items()}


def test_sentences_are_distinct_and_a_function(corpora):
    """The same English sentence has the same translation, in all splits and with any seed."""
    german = dict(itertools.chain(*corpora.values()))
    assert len(german) == sum(COUNTS.values())
    shared = [(en, de) for en, de in generate(COUNTS["train"], 8, "train") if en in german]
    assert len(shared) > 1_000 and all(german[en] == de for en, de in shared)


def test_splits_share_no_phrase(corpora):
    phrases = {split: {_phrase(e) for e, _ in pairs} for split, pairs in corpora.items()}
    assert all(len(values) > 1_000 for values in phrases.values())
    assert not phrases["train"] & phrases["dev"]
    assert not phrases["train"] & phrases["test"]
    assert not phrases["dev"] & phrases["test"]


def test_held_out_phrases_consist_of_words_of_training(corpora):
    words = set(" ".join(e for e, _ in corpora["train"][:20_000]).split(" "))
    for split in ("dev", "test"):
        unseen = {word for e, _ in corpora[split][:5_000] for word in e.split(" ")} - words
        assert {word for word in unseen if "-" not in word} <= set(), split


def test_memory_does_not_grow_with_the_count():
    list(generate(1, 0, "train"))  # fills the table of phrases
    tracemalloc.start()
    stream = generate(2_000_000, 0, "train")
    for _ in itertools.islice(stream, 8_000):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400_000
