"""English and German words for numbers, dates, clock times and prices.

The spelling is consistent. English is British and without commas ("one thousand two hundred and
five", "half past three"); German has "einhundert" and "eintausend", never "hundert" alone, and
numbers below a million as one word. German puts units before tens ("einundzwanzig"), names half
hours by the next hour ("halb vier" is half past three) and inflects ordinals and "ein". The words
are in `synthetic_phrases.toml`.
"""

from typing import Literal

from common_jax.data.generated import read_data

_DATA = read_data(__name__)
_EN = _DATA["english"]
_DE = _DATA["german"]
DEFINITE: dict[str, dict[str, str]] = _DATA["definite"]
INDEFINITE: dict[str, dict[str, str]] = _DATA["indefinite"]
# in English and German, with the number of days
MONTHS = tuple(zip(_EN["months"], _DE["months"], _DATA["days"], strict=True))


def _english_below_1000(n: int) -> str:
    if n < 20:
        return _EN["small"][n]
    if n < 100:
        tens, unit = divmod(n, 10)
        return _EN["tens"][tens - 2] + (f"-{_EN['small'][unit]}" if unit else "")
    hundreds, rest = divmod(n, 100)
    head = f"{_EN['small'][hundreds]} hundred"
    return f"{head} and {_english_below_1000(rest)}" if rest else head


def _german_below_1000(n: int) -> str:
    if n < 20:
        return _DE["small"][n]
    if n < 100:
        tens, unit = divmod(n, 10)
        return (f"{_joined(_DE['small'][unit])}und" if unit else "") + _DE["tens"][tens - 2]
    hundreds, rest = divmod(n, 100)
    head = f"{_joined(_DE['small'][hundreds])}hundert"
    return head + (_german_below_1000(rest) if rest else "")


def _joined(german: str) -> str:
    """A number word before another: "eins" loses its s."""
    return german[:-1] if german.endswith("eins") else german


def _english_ordinal(day: int) -> str:
    head, hyphen, last = _ENGLISH[day].rpartition("-")
    return head + hyphen + _EN["ordinals"].get(last, f"{last}th")


def _german_ordinal_stem(day: int) -> str:
    cardinal = _GERMAN[day]
    return _DE["ordinals"].get(cardinal, cardinal + ("t" if day < 20 else "st"))


# Precomputed, for streams of millions of sentences.
_ENGLISH = tuple(map(_english_below_1000, range(1000)))
_GERMAN = tuple(map(_german_below_1000, range(1000)))
_ENGLISH_ORDINALS = tuple(map(_english_ordinal, range(32)))
_GERMAN_ORDINAL_STEMS = tuple(map(_german_ordinal_stem, range(32)))


def english_number(n: int) -> str:
    """The cardinal 0 <= n < 1,000,000, e.g. "twenty-one thousand three hundred and five"."""
    thousands, rest = divmod(n, 1000)
    if not thousands:
        return _ENGLISH[rest]
    head = f"{_ENGLISH[thousands]} thousand"
    if not rest:
        return head
    return f"{head} and {_ENGLISH[rest]}" if rest < 100 else f"{head} {_ENGLISH[rest]}"


def german_number(n: int) -> str:
    """The cardinal 0 <= n < 1,000,000, standing alone ("eins", "einhunderteins")."""
    thousands, rest = divmod(n, 1000)
    if not thousands:
        return _GERMAN[rest]
    return f"{_joined(_GERMAN[thousands])}tausend{_GERMAN[rest] if rest else ''}"


def german_count(n: int, gender: str, case: str) -> str:
    """The cardinal before a noun: one is inflected like the article ("einen Apfel").

    Not for 101, 1201 etc., whose usage varies ("einhundertein Euro", "einhundertundeine Seite").
    """
    return INDEFINITE[case][gender] if n == 1 else german_number(n)


def english_year(year: int) -> str:
    """A year from 1910 to 1999 in pairs, "nineteen ninety-eight"."""
    return f"nineteen {_ENGLISH[year - 1900]}"


def german_year(year: int) -> str:
    """A year from 1910 to 1999 in hundreds, "neunzehnhundertachtundneunzig"."""
    return f"neunzehnhundert{_GERMAN[year - 1900]}"


def english_date(day: int, month: int) -> str:
    """Without its article: "third of May"; `month` counts from 1."""
    return f"{_ENGLISH_ORDINALS[day]} of {MONTHS[month - 1][0]}"


def german_date(day: int, month: int, ending: Literal["e", "en"]) -> str:
    """Without its article: "dritte Mai" after "der", "dritten Mai" after "am", "des", "zum"."""
    return f"{_GERMAN_ORDINAL_STEMS[day]}{ending} {MONTHS[month - 1][1]}"


def english_time(hour: int, minute: int) -> str:
    """A time on the twelve-hour clock; `hour` 1 to 12, `minute` a multiple of five."""
    if minute == 0:
        return f"{_ENGLISH[hour]} o'clock"
    if minute <= 30:
        return f"{_EN['minutes'][minute // 5 - 1]} past {_ENGLISH[hour]}"
    return f"{_EN['minutes'][11 - minute // 5]} to {_ENGLISH[hour % 12 + 1]}"


def german_time(hour: int, minute: int) -> str:
    """The same in German: "ein Uhr", but "halb eins" and "Viertel nach eins"."""
    if minute == 0:
        return f"{_joined(_GERMAN[hour])} Uhr"
    near = _GERMAN[hour if minute < 25 else hour % 12 + 1]
    return f"{_DE['minutes'][minute // 5 - 1]} {near}"


def english_price(cents: int) -> str:
    """E.g. "three euros and fifty cents", or "three euros" without cents."""
    euros, rest = divmod(cents, 100)
    amount = "one euro" if euros == 1 else f"{english_number(euros)} euros"
    return f"{amount} and {_ENGLISH[rest]} cents" if rest else amount


def german_price(cents: int, style: Literal["short", "long"]) -> str:
    """The price as an accusative: "drei Euro fünfzig" (short), "einen Euro und fünfzig Cent"."""
    euros, rest = divmod(cents, 100)
    amount = f"{german_count(euros, 'm', 'accusative')} Euro"
    if not rest:
        return amount
    return f"{amount} {_GERMAN[rest]}" if style == "short" else f"{amount} und {_GERMAN[rest]} Cent"
