"""A made corpus of textual entailment: pairs about counts of coloured things in places.

It stands in for SNLI wherever a run should be quick and its score believable. Each statement is a
condition on how many of a kind of thing there are in a place, by colour; a premise entails a
hypothesis if this holds wherever the premise does, contradicts it if nowhere, and is neutral
otherwise. That is computed over all small worlds (`relation`), so that the labels are true by
construction. What is said of a thing in a place in dev and test is never said in train: no
pair of a thing and a place is in two splits.
"""

import functools
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np

Split = Literal["train", "dev", "test"]
Label = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = get_args(Label)

# One bucket in ten of pairs of a thing and a place for each of dev and test.
BUCKETS = 10
HELD_OUT: dict[int, Split] = {0: "dev", 1: "test"}

THINGS = (
    *("basket", "bell", "book", "bottle", "bowl", "box", "brush", "bucket", "candle", "chair"),
    *("coat", "cup", "drum", "hat", "jar", "kettle", "lamp", "mirror", "pillow", "plate", "rug"),
    *("scarf", "spoon", "stool", "towel", "vase"),
)
PLACES = (
    *("attic", "barn", "bedroom", "cabin", "cellar", "church", "garage", "garden", "hall"),
    *("kitchen", "library", "museum", "office", "school", "shed", "shop", "stable", "tent"),
    *("tower", "workshop"),
)
COLOURS = ("black", "blue", "brown", "green", "grey", "orange", "pink", "red", "white", "yellow")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven")
_PLURALS = {"box": "boxes", "brush": "brushes", "scarf": "scarves"}

MOST = len(NUMBERS) - 1
_LARGEST = MOST + 2  # of one colour in a world: beyond it no statement tells counts apart


class Form(NamedTuple):
    """A kind of statement.

    Attributes:
      text: with the braces `n` (a number's word), `colour`, `things` and `place`.
      holds: whether it does, where `own` things are of the colour and `others` are not.
      numbers: those that `n` may be; just 0 for a form that has none.
    """

    text: str
    holds: Callable[[np.ndarray, np.ndarray, int], np.ndarray]
    numbers: range


_ANY = range(1)
_FEW = range(2, MOST + 1)
PREMISES = (
    Form("exactly {n} {colour} {things} are in the {place}", lambda o, r, n: o == n, _FEW),
    Form("at least {n} {colour} {things} are in the {place}", lambda o, r, n: o >= n, _FEW),
    Form(
        "all {n} {things} in the {place} are {colour}", lambda o, r, n: (o == n) & (r == 0), _FEW
    ),
    Form(
        "none of the {n} {things} in the {place} are {colour}",
        lambda o, r, n: (o == 0) & (r == n),
        _FEW,
    ),
    Form(
        "some but not all of the {n} {things} in the {place} are {colour}",
        lambda o, r, n: (o + r == n) & (o > 0) & (r > 0),
        range(3, MOST + 1),
    ),
)
HYPOTHESES = (
    Form("the {place} has {n} {things}", lambda o, r, n: o + r == n, _FEW),
    Form("the {place} has {n} {colour} {things}", lambda o, r, n: o == n, _FEW),
    Form("there are more than {n} {colour} {things} in the {place}", lambda o, r, n: o > n, _FEW),
    Form("there are fewer than {n} {colour} {things} in the {place}", lambda o, r, n: o < n, _FEW),
    Form("there are no {colour} {things} in the {place}", lambda o, r, n: o == 0, _ANY),
    Form("there are {colour} {things} in the {place}", lambda o, r, n: o > 0, _ANY),
    Form("there are no {things} in the {place}", lambda o, r, n: o + r == 0, _ANY),
    Form(
        "every one of the {things} in the {place} is {colour}",
        lambda o, r, n: (r == 0) & (o > 0),
        _ANY,
    ),
    Form("some of the {things} in the {place} are not {colour}", lambda o, r, n: r > 0, _ANY),
)


class Fact(NamedTuple):
    """A statement of a form about a thing in a place."""

    form: Form
    number: int
    colour: str
    thing: str
    place: str

    def text(self) -> str:
        """In English."""
        things = _PLURALS.get(self.thing, f"{self.thing}s")
        number = NUMBERS[self.number]
        return self.form.text.format(n=number, colour=self.colour, things=things, place=self.place)


def split_of(thing: str, place: str) -> Split:
    """The split in which something is said of a thing in a place."""
    return HELD_OUT.get(zlib.crc32(f"{thing} {place}".encode()) % BUCKETS, "train")


def relation(premise: Fact, hypothesis: Fact) -> Label:
    """What the one says of the other, by all worlds of so many things of either colour and of
    none of the two. What is said of another thing or place says nothing."""
    if (premise.thing, premise.place) != (hypothesis.thing, hypothesis.place):
        return "neutral"
    same = premise.colour == hypothesis.colour
    return _relation(premise.form, premise.number, hypothesis.form, hypothesis.number, same)


@functools.cache
def _relation(premise: Form, n: int, hypothesis: Form, m: int, same: bool) -> Label:
    first, second, rest = np.indices((_LARGEST + 1,) * 3)  # the premise's colour, another, others
    worlds = premise.holds(first, second + rest, n)
    own, others = (first, second + rest) if same else (second, first + rest)
    holds = hypothesis.holds(own, others, m)[worlds]
    if holds.all():
        return "entailment"
    return "neutral" if holds.any() else "contradiction"


def generate(count: int, seed: int, split: Split) -> Iterator[tuple[str, str, Label]]:
    """`count` triples of a premise of two facts, a hypothesis and its label.

    Labels take turns. The same arguments give the same corpus, anywhere; a larger `count` only
    adds to its end.

    Args:
      count: number of pairs, at least 0.
      seed: which pairs; what may be said of what in a split is the same for every seed.
      split: "train", "dev" or "test".

    Raises:
      ValueError: for an unknown split or a negative count.
    """
    if split not in get_args(Split):
        raise ValueError(f"split {split!r} is not one of {', '.join(get_args(Split))}")
    if count < 0:
        raise ValueError(f"count {count} is negative")
    pairs = [(t, p) for t in THINGS for p in PLACES if split_of(t, p) == split]
    for number in range(count):
        rng = random.Random(f"{seed} {split} {number}")
        yield _pair(rng, pairs, LABELS[number % len(LABELS)])


def _pair(
    rng: random.Random, pairs: list[tuple[str, str]], label: Label
) -> tuple[str, str, Label]:
    facts = [_fact(rng, PREMISES, *about) for about in _two(rng, pairs)]
    rng.shuffle(facts)
    premise = ", and ".join(fact.text() for fact in facts)
    while True:
        hypothesis = _hypothesis(rng, facts)
        if _joint(facts, hypothesis) == label:
            return _sentence(premise), _sentence(hypothesis.text()), label


def _two(rng: random.Random, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Two different pairs of a thing and a place, which often share one of the two."""
    first = rng.choice(pairs)
    alike = [pair for pair in pairs if (pair[0] == first[0]) != (pair[1] == first[1])]
    others = alike if alike and rng.random() < 0.5 else [pair for pair in pairs if pair != first]
    return [first, rng.choice(others)]


def _fact(rng: random.Random, forms: tuple[Form, ...], thing: str, place: str) -> Fact:
    form = rng.choice(forms)
    return Fact(form, rng.choice(form.numbers), rng.choice(COLOURS), thing, place)


def _hypothesis(rng: random.Random, facts: list[Fact]) -> Fact:
    """About what one of the facts is about, or about the thing of one in the place of the other."""
    about = rng.choice(facts)
    place = rng.choice(facts).place if rng.random() < 0.3 else about.place
    fact = _fact(rng, HYPOTHESES, about.thing, place)
    colour = about.colour if rng.random() < 0.7 else fact.colour
    return fact._replace(colour=colour)


def _joint(facts: list[Fact], hypothesis: Fact) -> Label:
    """What facts about different things or places say together: at most one says something."""
    said = {relation(fact, hypothesis) for fact in facts} - {"neutral"}
    return said.pop() if said else "neutral"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
