"""English and German words for numbers, dates, clock times and prices.

The spelling is consistent. English is British and without commas ("one thousand two hundred and
five", "half past three"); German has "einhundert" and "eintausend", never "hundert" alone, and
numbers below a million as one word. German puts units before tens ("einundzwanzig"), names half
hours by the next hour ("halb vier" is half past three) and inflects ordinals and "ein".
"""

from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]

DEFINITE: dict[Case, dict[Gender, str]] = {
    "nominative": {"m": "der", "f": "die", "n": "das"},
    "accusative": {"m": "den", "f": "die", "n": "das"},
    "dative": {"m": "dem", "f": "der", "n": "dem"},
}
INDEFINITE: dict[Case, dict[Gender, str]] = {
    "nominative": {"m": "ein", "f": "eine", "n": "ein"},
    "accusative": {"m": "einen", "f": "eine", "n": "ein"},
    "dative": {"m": "einem", "f": "einer", "n": "einem"},
}
MONTHS = (
    ("January", "Januar", 31),
    ("February", "Februar", 28),
    ("March", "März", 31),
    ("April", "April", 30),
    ("May", "Mai", 31),
    ("June", "Juni", 30),
    ("July", "Juli", 31),
    ("August", "August", 31),
    ("September", "September", 30),
    ("October", "Oktober", 31),
    ("November", "November", 30),
    ("December", "Dezember", 31),
)

_BELOW_20 = (
    ("zero", "null"),
    ("one", "eins"),
    ("two", "zwei"),
    ("three", "drei"),
    ("four", "vier"),
    ("five", "fünf"),
    ("six", "sechs"),
    ("seven", "sieben"),
    ("eight", "acht"),
    ("nine", "neun"),
    ("ten", "zehn"),
    ("eleven", "elf"),
    ("twelve", "zwölf"),
    ("thirteen", "dreizehn"),
    ("fourteen", "vierzehn"),
    ("fifteen", "fünfzehn"),
    ("sixteen", "sechzehn"),
    ("seventeen", "siebzehn"),
    ("eighteen", "achtzehn"),
    ("nineteen", "neunzehn"),
)
_TENS = {
    2: ("twenty", "zwanzig"),
    3: ("thirty", "dreißig"),
    4: ("forty", "vierzig"),
    5: ("fifty", "fünfzig"),
    6: ("sixty", "sechzig"),
    7: ("seventy", "siebzig"),
    8: ("eighty", "achtzig"),
    9: ("ninety", "neunzig"),
}
_ENGLISH_SMALL, _GERMAN_SMALL = zip(*_BELOW_20, strict=True)


def _english_below_1000(n: int) -> str:
    if n < 20:
        return _ENGLISH_SMALL[n]
    if n < 100:
        tens, unit = divmod(n, 10)
        return _TENS[tens][0] + (f"-{_ENGLISH_SMALL[unit]}" if unit else "")
    hundreds, rest = divmod(n, 100)
    head = f"{_ENGLISH_SMALL[hundreds]} hundred"
    return f"{head} and {_english_below_1000(rest)}" if rest else head


def _german_below_1000(n: int) -> str:
    if n < 20:
        return _GERMAN_SMALL[n]
    if n < 100:
        tens, unit = divmod(n, 10)
        return (f"{_joined(_GERMAN_SMALL[unit])}und" if unit else "") + _TENS[tens][1]
    hundreds, rest = divmod(n, 100)
    head = f"{_joined(_GERMAN_SMALL[hundreds])}hundert"
    return head + (_german_below_1000(rest) if rest else "")


def _joined(german: str) -> str:
    """A number word before another: "eins" loses its s."""
    return german[:-1] if german.endswith("eins") else german


# Precomputed, for streams of millions of sentences.
_ENGLISH = tuple(_english_below_1000(n) for n in range(1000))
_GERMAN = tuple(_german_below_1000(n) for n in range(1000))
_IRREGULAR_ENGLISH = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
    "twenty": "twentieth",
    "thirty": "thirtieth",
}


def _english_ordinal(day: int) -> str:
    head, hyphen, last = _ENGLISH[day].rpartition("-")
    return head + hyphen + _IRREGULAR_ENGLISH.get(last, f"{last}th")


_IRREGULAR_GERMAN = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}
_ENGLISH_ORDINALS = tuple(_english_ordinal(day) for day in range(32))
_GERMAN_ORDINAL_STEMS = tuple(
    _IRREGULAR_GERMAN.get(day, _GERMAN[day] + ("t" if day < 20 else "st")) for day in range(32)
)
_ENGLISH_MINUTES = {
    5: "five",
    10: "ten",
    15: "quarter",
    20: "twenty",
    25: "twenty-five",
    30: "half",
}
_GERMAN_MINUTES = {
    5: "fünf nach",
    10: "zehn nach",
    15: "Viertel nach",
    20: "zwanzig nach",
    25: "fünf vor halb",
    30: "halb",
    35: "fünf nach halb",
    40: "zwanzig vor",
    45: "Viertel vor",
    50: "zehn vor",
    55: "fünf vor",
}


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


def german_count(n: int, gender: Gender, case: Case) -> str:
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
        return f"{_ENGLISH_MINUTES[minute]} past {_ENGLISH[hour]}"
    return f"{_ENGLISH_MINUTES[60 - minute]} to {_ENGLISH[hour % 12 + 1]}"


def german_time(hour: int, minute: int) -> str:
    """The same in German: "ein Uhr", but "halb eins" and "Viertel nach eins"."""
    if minute == 0:
        return f"{_joined(_GERMAN[hour])} Uhr"
    near = _GERMAN[hour if minute < 25 else hour % 12 + 1]
    return f"{_GERMAN_MINUTES[minute]} {near}"


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
