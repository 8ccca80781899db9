"""Templates of the generated corpus: words, their agreement, and sentences with a phrase.

A template is a function from a phrase's value and some words to a pair of sentences of at least
five words each; no two templates produce the same pair. German word order differs from English: the
perfect's participle and a separable prefix are at the end, and after an initial adverbial the verb
precedes its subject.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from csan_jax.data import synthetic_phrases as say
from csan_jax.data.synthetic_phrases import DEFINITE, Gender

Kind = Literal["number", "date", "time", "price"]
Pair = tuple[str, str]
YEARS = range(1910, 2000)


class Noun(NamedTuple):
    english: str
    gender: Gender
    german: str
    plural: str = ""
    dative_plural: str = ""

    def the(self, case: say.Case) -> str:
        return f"{DEFINITE[case][self.gender]} {self.german}"


class Subject(NamedTuple):
    english: str
    german: str
    have: str  # this and the following are verbs that agree with the subject
    became: str
    stay: str
    was: str


class Words(NamedTuple):
    """An expression without agreement."""

    english: str
    german: str


def _subject(english: str, german: str, person: Literal["I", "it", "they"]) -> Subject:
    have, became, stay, was = {
        "I": ("habe", "wurde", "bleibe", "was"),
        "it": ("hat", "wurde", "bleibt", "was"),
        "they": ("haben", "wurden", "bleiben", "were"),
    }[person]
    return Subject(english, german, have, became, stay, was)


SUBJECTS = (
    _subject("I", "ich", "I"),
    _subject("she", "sie", "it"),
    _subject("he", "er", "it"),
    _subject("we", "wir", "they"),
    _subject("they", "sie", "they"),
    _subject("my brother", "mein Bruder", "it"),
    _subject("my sister", "meine Schwester", "it"),
    _subject("the woman", "die Frau", "it"),
    _subject("the child", "das Kind", "it"),
    _subject("the teachers", "die Lehrer", "they"),
)
THINGS = (
    Noun("apple", "m", "Apfel", "Äpfel", "Äpfeln"),
    Noun("letter", "m", "Brief", "Briefe", "Briefen"),
    Noun("chair", "m", "Stuhl", "Stühle", "Stühlen"),
    Noun("table", "m", "Tisch", "Tische", "Tischen"),
    Noun("flower", "f", "Blume", "Blumen", "Blumen"),
    Noun("bottle", "f", "Flasche", "Flaschen", "Flaschen"),
    Noun("lamp", "f", "Lampe", "Lampen", "Lampen"),
    Noun("ticket", "f", "Karte", "Karten", "Karten"),
    Noun("book", "n", "Buch", "Bücher", "Büchern"),
    Noun("picture", "n", "Bild", "Bilder", "Bildern"),
    Noun("car", "n", "Auto", "Autos", "Autos"),
    Noun("glass", "n", "Glas", "Gläser", "Gläsern"),
)
CONTAINERS = (
    Noun("basket", "m", "Korb"),
    Noun("box", "f", "Kiste"),
    Noun("parcel", "n", "Paket"),
)
ROOMS = (
    Noun("garden", "m", "Garten"),
    Noun("kitchen", "f", "Küche"),
    Noun("school", "f", "Schule"),
    Noun("house", "n", "Haus"),
)
LANDMARKS = (
    Noun("station", "m", "Bahnhof"),
    Noun("school", "f", "Schule"),
    Noun("church", "f", "Kirche"),
    Noun("museum", "n", "Museum"),
)
EVENTS = (
    Noun("course", "m", "Kurs"),
    Noun("exhibition", "f", "Ausstellung"),
    Noun("journey", "f", "Reise"),
    Noun("concert", "n", "Konzert"),
)
VEHICLES = (
    Noun("train", "m", "Zug"),
    Noun("bus", "m", "Bus"),
    Noun("ship", "n", "Schiff"),
)
TRADED = (
    Words("bought", "gekauft"),
    Words("sold", "verkauft"),
    Words("found", "gefunden"),
    Words("counted", "gezählt"),
    Words("ordered", "bestellt"),
)
WORKED = (
    Words("worked", "gearbeitet"),
    Words("slept", "geschlafen"),
    Words("danced", "getanzt"),
    Words("cooked", "gekocht"),
)
SHOPS = (
    Words("at the market", "auf dem Markt"),
    Words("in the city", "in der Stadt"),
    Words("in this shop", "in diesem Laden"),
)
QUANTITIES = (
    Words("The answer to the question", "Die Antwort auf die Frage"),
    Words("The number on the door", "Die Nummer an der Tür"),
    Words("The result of the exercise", "Das Ergebnis der Übung"),
    Words("The code for the gate", "Der Code für das Tor"),
)
PAPERS = (
    Words("the book", "des Buches"),
    Words("the report", "des Berichts"),
    Words("the newspaper", "der Zeitung"),
)
CITIES = (
    Words("Berlin", "Berlin"),
    Words("Hamburg", "Hamburg"),
    Words("Cologne", "Köln"),
    Words("Munich", "München"),
    Words("Vienna", "Wien"),
)
WEEKDAYS = (
    Words("Monday", "Montag"),
    Words("Tuesday", "Dienstag"),
    Words("Wednesday", "Mittwoch"),
    Words("Thursday", "Donnerstag"),
    Words("Friday", "Freitag"),
    Words("Saturday", "Samstag"),
    Words("Sunday", "Sonntag"),
)
DAYTIMES = (
    Words("morning", "Morgen"),
    Words("afternoon", "Nachmittag"),
    Words("evening", "Abend"),
)
ADVERBS = (Words("already", "schon"), Words("now", "jetzt"), Words("almost", "fast"))
WEIGHTS = (Words("heavy", "schwer"), Words("full", "voll"), Words("old", "alt"))
TURNS = (Words("begins", "beginnt"), Words("ends", "endet"))
WHEN = (Words("is", "ist"), Words("was", "war"))
THIS_YEAR = (Words("this year", "in diesem Jahr"), Words("next year", "im nächsten Jahr"))
READ = (Words("read", "lesen"), Words("copy", "kopieren"), Words("translate", "übersetzen"))


def _english_counted(n: int, noun: Noun) -> str:
    plural = "" if n == 1 else "es" if noun.english.endswith("s") else "s"
    return f"{say.english_number(n)} {noun.english}{plural}"


def _german_counted(n: int, noun: Noun, case: say.Case) -> str:
    plural = noun.dative_plural if case == "dative" else noun.plural
    count = say.german_count(n, noun.gender, case)
    return f"{count} {noun.german if n == 1 else plural}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


@dataclasses.dataclass(frozen=True)
class Template:
    """A sentence pair: `render(value, *words)` for one word of each of `fillers`.

    Attributes:
      kind: of the value: the number itself, 32 * month + day, 60 * hour + minute, or cents.
      counts: whether the number is before a noun, which excludes 101, 201, 1101 etc.
      limit: exclusive upper bound of numbers.
    """

    kind: Kind
    fillers: tuple[Sequence[Any], ...]
    render: Callable[..., Pair]
    counts: bool = False
    limit: int = 1_000_000


TEMPLATES: list[Template] = []


def _template(kind: Kind, *fillers: Sequence[Any], **options: Any) -> Callable:
    def register(render: Callable[..., Pair]) -> Callable[..., Pair]:
        TEMPLATES.append(Template(kind, fillers, render, **options))
        return render

    return register


@_template("number", SUBJECTS, TRADED, THINGS, SHOPS, counts=True)
def _traded(n: int, who: Subject, did: Words, what: Noun, where: Words) -> Pair:
    return (
        f"Yesterday {who.english} {did.english} {_english_counted(n, what)} {where.english}.",
        f"Gestern {who.have} {who.german} {where.german} "
        f"{_german_counted(n, what, 'accusative')} {did.german}.",
    )


@_template("number", THINGS, ROOMS, counts=True)
def _there_are(n: int, what: Noun, room: Noun) -> Pair:
    inside = "in der" if room.gender == "f" else "im"
    return (
        f"There {'is' if n == 1 else 'are'} {_english_counted(n, what)} in the {room.english}.",
        f"{_capital(inside)} {room.german} gibt es {_german_counted(n, what, 'accusative')}.",
    )


@_template("number", CONTAINERS, THINGS, WEIGHTS, counts=True)
def _container(n: int, box: Noun, what: Noun, how: Words) -> Pair:
    return (
        f"The {box.english} with {_english_counted(n, what)} is very {how.english}.",
        f"{_capital(box.the('nominative'))} mit {_german_counted(n, what, 'dative')} "
        f"ist sehr {how.german}.",
    )


@_template("number", QUANTITIES, WHEN)
def _quantity(n: int, what: Words, is_: Words) -> Pair:
    return (
        f"{what.english} {is_.english} {say.english_number(n)}.",
        f"{what.german} {is_.german} {say.german_number(n)}.",
    )


@_template("number", PAPERS, READ, limit=1_000)
def _page(n: int, paper: Words, read: Words) -> Pair:
    return (
        f"Please {read.english} page {say.english_number(n)} of {paper.english}.",
        f"Bitte {read.german} Sie Seite {say.german_number(n)} {paper.german}.",
    )


@_template("date", EVENTS, TURNS, CITIES)
def _event(date: int, event: Noun, turn: Words, city: Words) -> Pair:
    month, day = divmod(date, 32)
    return (
        f"The {event.english} in {city.english} {turn.english} on the "
        f"{say.english_date(day, month)}.",
        f"{_capital(event.the('nominative'))} in {city.german} {turn.german} am "
        f"{say.german_date(day, month, 'en')}.",
    )


@_template("date", WEEKDAYS, THIS_YEAR)
def _weekday(date: int, weekday: Words, year: Words) -> Pair:
    month, day = divmod(date, 32)
    return (
        f"The {say.english_date(day, month)} is a {weekday.english} {year.english}.",
        f"Der {say.german_date(day, month, 'e')} ist {year.german} ein {weekday.german}.",
    )


@_template("date", DAYTIMES, SUBJECTS, WORKED)
def _on_the_evening(date: int, daytime: Words, who: Subject, did: Words) -> Pair:
    month, day = divmod(date, 32)
    return (
        f"On the {daytime.english} of the {say.english_date(day, month)} "
        f"{who.english} {did.english}.",
        f"Am {daytime.german} des {say.german_date(day, month, 'en')} "
        f"{who.have} {who.german} {did.german}.",
    )


@_template("date", SUBJECTS, YEARS)
def _born(date: int, who: Subject, year: int) -> Pair:
    month, day = divmod(date, 32)
    return (
        f"{_capital(who.english)} {who.was} born on the {say.english_date(day, month)} "
        f"{say.english_year(year)}.",
        f"{_capital(who.german)} {who.became} am {say.german_date(day, month, 'en')} "
        f"{say.german_year(year)} geboren.",
    )


@_template("date", SUBJECTS, CITIES)
def _stays(date: int, who: Subject, city: Words) -> Pair:
    month, day = divmod(date, 32)
    return (
        f"{_capital(who.english)} will stay in {city.english} until the "
        f"{say.english_date(day, month)}.",
        f"{_capital(who.german)} {who.stay} bis zum {say.german_date(day, month, 'en')} "
        f"in {city.german}.",
    )


@_template("time", VEHICLES, CITIES, WEEKDAYS)
def _departure(time: int, vehicle: Noun, city: Words, weekday: Words) -> Pair:
    return (
        f"The {vehicle.english} to {city.english} leaves at {say.english_time(*divmod(time, 60))} "
        f"on {weekday.english}.",
        f"{_capital(vehicle.the('nominative'))} nach {city.german} fährt am {weekday.german} "
        f"um {say.german_time(*divmod(time, 60))} ab.",
    )


@_template("time", WEEKDAYS, DAYTIMES, LANDMARKS)
def _meeting(time: int, weekday: Words, daytime: Words, place: Noun) -> Pair:
    return (
        f"We will meet at {say.english_time(*divmod(time, 60))} on {weekday.english} "
        f"{daytime.english} in front of the {place.english}.",
        f"Wir treffen uns am {weekday.german}{daytime.german.lower()} "
        f"um {say.german_time(*divmod(time, 60))} vor {place.the('dative')}.",
    )


@_template("time", ADVERBS, CITIES)
def _time_there(time: int, adverb: Words, city: Words) -> Pair:
    return (
        f"In {city.english} it is {adverb.english} {say.english_time(*divmod(time, 60))}.",
        f"In {city.german} ist es {adverb.german} {say.german_time(*divmod(time, 60))}.",
    )


@_template("price", THINGS, SHOPS)
def _costs(cents: int, what: Noun, where: Words) -> Pair:
    return (
        f"The {what.english} costs {say.english_price(cents)} {where.english}.",
        f"{_capital(what.the('nominative'))} kostet {where.german} "
        f"{say.german_price(cents, 'short')}.",
    )


@_template("price", SUBJECTS, THINGS)
def _paid(cents: int, who: Subject, what: Noun) -> Pair:
    return (
        f"{_capital(who.english)} paid {say.english_price(cents)} for the {what.english}.",
        f"{_capital(who.german)} {who.have} für {what.the('accusative')} "
        f"{say.german_price(cents, 'long')} bezahlt.",
    )
