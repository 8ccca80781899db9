"""Number words against num2words; dates, times and prices against pairs written by hand."""

import random

import pytest
from num2words import num2words

from csan_jax.data import synthetic_phrases as say

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
