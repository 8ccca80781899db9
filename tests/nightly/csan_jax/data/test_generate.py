"""The generated corpus: splits parsed from the English side only; number words against num2words;
dates, times and prices against pairs written by hand."""

import itertools
import random
import re
import tracemalloc

import pytest
from num2words import num2words

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


NUMBERS = [*range(10_000), *random.Random(0).sample(range(10_000, 1_000_000), 5_000), 999_999]


def test_english_numbers_agree_with_num2words():
    # It puts a comma after the thousands; we do not.
    for n in NUMBERS:
        assert say.english_number(n) == num2words(n, lang="en").replace(",", ""), n


def test_german_numbers_agree_with_num2words():
    # It leaves "eins" its s inside 101,000 ("einhunderteinstausend"), which German does not.
    for n in NUMBERS:
        oracle = num2words(n, lang="de").replace("einstausend", "eintausend")
        assert say.german_number(n) == oracle, n


def test_ordinals_agree_with_num2words():
    for day in range(1, 32):
        assert say.english_date(day, 1) == f"{num2words(day, lang='en', to='ordinal')} of January"
        german = num2words(day, lang="de", to="ordinal")
        assert say.german_date(day, 1, "e") == f"{german} Januar"
        assert say.german_date(day, 1, "en") == f"{german}n Januar"


@pytest.mark.parametrize(
    ("n", "gender", "case", "german"),
    [
        (1, "m", "nominative", "ein"),
        (1, "f", "nominative", "eine"),
        (1, "m", "accusative", "einen"),
        (1, "n", "accusative", "ein"),
        (1, "m", "dative", "einem"),
        (1, "f", "dative", "einer"),
        (2, "f", "dative", "zwei"),
        (21, "m", "accusative", "einundzwanzig"),
    ],
)
def test_one_bends_before_a_noun(n, gender, case, german):
    assert say.german_count(n, gender, case) == german


@pytest.mark.parametrize(
    ("year", "english", "german"),
    [
        (1910, "nineteen ten", "neunzehnhundertzehn"),
        (1945, "nineteen forty-five", "neunzehnhundertfünfundvierzig"),
        (1998, "nineteen ninety-eight", "neunzehnhundertachtundneunzig"),
    ],
)
def test_years(year, english, german):
    assert (say.english_year(year), say.german_year(year)) == (english, german)


@pytest.mark.parametrize(
    ("hour", "minute", "english", "german"),
    [
        (1, 0, "one o'clock", "ein Uhr"),
        (12, 0, "twelve o'clock", "zwölf Uhr"),
        (3, 5, "five past three", "fünf nach drei"),
        (1, 10, "ten past one", "zehn nach eins"),
        (3, 15, "quarter past three", "Viertel nach drei"),
        (6, 20, "twenty past six", "zwanzig nach sechs"),
        (3, 25, "twenty-five past three", "fünf vor halb vier"),
        (3, 30, "half past three", "halb vier"),
        (12, 30, "half past twelve", "halb eins"),
        (11, 30, "half past eleven", "halb zwölf"),
        (3, 35, "twenty-five to four", "fünf nach halb vier"),
        (6, 40, "twenty to seven", "zwanzig vor sieben"),
        (12, 45, "quarter to one", "Viertel vor eins"),
        (7, 50, "ten to eight", "zehn vor acht"),
        (4, 55, "five to five", "fünf vor fünf"),
    ],
)
def test_times(hour, minute, english, german):
    assert (say.english_time(hour, minute), say.german_time(hour, minute)) == (english, german)


@pytest.mark.parametrize(
    ("cents", "english", "short", "long"),
    [
        (100, "one euro", "einen Euro", "einen Euro"),
        (150, "one euro and fifty cents", "einen Euro fünfzig", "einen Euro und fünfzig Cent"),
        (
            2175,
            "twenty-one euros and seventy-five cents",
            "einundzwanzig Euro fünfundsiebzig",
            "einundzwanzig Euro und fünfundsiebzig Cent",
        ),
        (30_000, "three hundred euros", "dreihundert Euro", "dreihundert Euro"),
    ],
)
def test_prices(cents, english, short, long):
    assert say.english_price(cents) == english
    assert say.german_price(cents, "short") == short
    assert say.german_price(cents, "long") == long
