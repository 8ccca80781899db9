"""Templates of the generated corpus: words, their forms, and pairs of sentences with a phrase.

The words and sentences are in `synthetic_templates.toml`. German word order differs from English:
the perfect's participle and a separable prefix are at the end, and after an initial adverbial the
verb precedes its subject.
"""

import dataclasses
import functools
import re
from typing import Literal

from common_jax.data.generated import capitalized, read_data
from csan_jax.data import synthetic_phrases as say

Kind = Literal["number", "date", "time", "price"]
Pair = tuple[str, str]
Forms = dict[str, str]  # of an expression: "english", "german", and others by name


def _noun(english: str, german: str) -> Forms:
    gender, singular, *plurals = german.split()
    forms = {case: f"{article[gender]} {singular}" for case, article in say.DEFINITE.items()}
    forms |= {"english": english, "german": singular, "gender": gender}
    forms |= zip(("plural", "dative_plural"), plurals, strict=False)
    return forms | {"inside": f"in {forms['dative']}".replace("in dem", "im")}


def _counted(n: int, noun: Forms) -> Forms:
    english = noun["english"]
    german = noun["german"]
    if n != 1:
        english += "es" if english.endswith("s") else "s"
    forms = {"english": f"{say.english_number(n)} {english}", "be": "is" if n == 1 else "are"}
    for case, plural in ("accusative", "plural"), ("dative", "dative_plural"):
        count = say.german_count(n, noun["gender"], case)
        forms[case] = f"{count} {german if n == 1 else noun[plural]}"
    return forms


def _phrase(kind: Kind, value: int) -> Forms:
    if kind == "number":
        return {"english": say.english_number(value), "german": say.german_number(value)}
    if kind == "date":
        month, day = divmod(value, 32)
        nominative, oblique = (say.german_date(day, month, ending) for ending in ("e", "en"))
        english = say.english_date(day, month)
        return {"english": english, "german": nominative, "oblique": oblique}
    if kind == "time":
        time = divmod(value, 60)
        return {"english": say.english_time(*time), "german": say.german_time(*time)}
    short, long = (say.german_price(value, style) for style in ("short", "long"))
    return {"english": say.english_price(value), "german": short, "long": long}


_DATA = read_data(__name__)
WEIGHTS: dict[Kind, float] = _DATA["weights"]
RANGES: list[tuple[int, int, float]] = _DATA["ranges"]
WORDS: dict[str, list[Forms]] = {
    name: [{"english": english, "german": german} for english, german in words.items()]
    for name, words in _DATA["expressions"].items()
}
WORDS |= {name: [_noun(*noun) for noun in nouns.items()] for name, nouns in _DATA["nouns"].items()}
WORDS["subjects"] = [
    {"english": english, "german": german, **_DATA["verbs"][verbs]}
    for english, (german, verbs) in _DATA["subjects"].items()
]
WORDS["years"] = [
    {"english": say.english_year(year), "german": say.german_year(year)}
    for year in range(1910, 2000)
]


@dataclasses.dataclass(frozen=True)
class Template:
    """A pair of sentences, as in `synthetic_templates.toml`.

    Attributes:
      kind: of the value: the number itself, 32 * month + day, 60 * hour + minute, or cents.
      words: the lists in `WORDS` by the fields for their words.
      count: the field of the noun after the number, which is then not 101, 201, 1101 etc.
      limit: exclusive upper bound of numbers.
    """

    name: str
    kind: Kind
    words: dict[str, str]
    english: str
    german: str
    count: str = ""
    limit: int = 1_000_000

    @property
    def fillers(self) -> list[list[Forms]]:
        """The words that fit each place of the template."""
        return [WORDS[name] for name in self.words.values()]

    def render(self, value: int, *words: Forms) -> Pair:
        """The sentences for a value and one word of each of `fillers`."""
        fields = dict(zip(self.words, words, strict=True))
        if self.count:
            fields[self.count] = _counted(value, fields[self.count])
        else:
            fields[self.kind] = _phrase(self.kind, value)
        return _fill(self.english, "english", fields), _fill(self.german, "german", fields)


def _fill(text: str, language: Literal["english", "german"], fields: dict[str, Forms]) -> str:
    literals, names = _parse(text, language)
    return capitalized(literals % tuple([fields[field][form] for field, form in names]))


@functools.cache
def _parse(text: str, language: str) -> tuple[str, list[tuple[str, str]]]:
    """The text with "%s" for its fields, and the name and form of each."""
    fields = re.findall(r"\{(\w+)\.?(\w*)\}", text)
    return re.sub(r"\{.*?\}", "%s", text), [(field, form or language) for field, form in fields]


TEMPLATES = [Template(name, **template) for name, template in _DATA["templates"].items()]
