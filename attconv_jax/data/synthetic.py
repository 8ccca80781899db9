"""A generated corpus of textual entailment: pairs about counts of coloured things in places.

For quick runs with meaningful scores. A statement is a condition on the number of things of a kind
in a place, by colour; every thing has one colour. A premise entails a hypothesis that is true in
all worlds where the premise is true, contradicts one that is true in none of them, and is neutral
to the others: labels are computed by enumerating small worlds. The hypothesis is sampled
independently of the label, so that it does not predict the label. Pairs of thing and place of dev
and test do not occur in train. A premise and three hypotheses:

  Not all seven mirrors in the shed are grey, but at least one is.
    entails: There are fewer than seven grey mirrors in the shed.
    contradicts: Every mirror in the shed is grey.
    is neutral to: In the shed there are exactly three grey mirrors.
"""

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np

from common_jax.data.prepared import Split
from common_jax.data.sources import bucket_split

Label = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = get_args(Label)

OTHER_TOPIC = 0.5  # share of neutral pairs whose premise is about another thing or place
NEAR = 0.8  # smallest share of these premises about the same thing, or the same place

# No word is a hyponym of another, as "chair" is of "seat".
THINGS = (
    *("basket", "bell", "bench", "blanket", "book", "bottle", "bowl", "box", "brush", "bucket"),
    *("candle", "chair", "clock", "coat", "cup", "drum", "hammer", "hat", "jar", "kettle"),
    *("ladder", "lamp", "mirror", "pillow", "plate", "rug", "scarf", "spoon", "towel", "vase"),
)
PLACES = (
    *("attic", "barn", "bedroom", "cabin", "cellar", "church", "garage", "garden", "hall"),
    *("kitchen", "library", "museum", "office", "school", "shed", "shop", "stable", "tent"),
    *("tower", "workshop"),
)
COLOURS = ("black", "blue", "brown", "green", "grey", "orange", "pink", "red", "white", "yellow")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven")
_PLURALS = {"bench": "benches", "box": "boxes", "brush": "brushes", "scarf": "scarves"}

MOST = len(NUMBERS) - 1
# The numbers of things of the premise's colour, of another and of all others, in each world; no
# statement distinguishes counts above `MOST` + 1.
_WORLDS = np.indices((MOST + 2,) * 3)


class Form(NamedTuple):
    """A kind of statement.

    Attributes:
      holds: whether it is true if `o` things are of the colour and `r`, the rest, are not.
      numbers: possible values of `n`; only 0 for a form without a number.
      texts: wordings, with fields for `n` (a number word), `colour`, `thing`, its plural `things`,
        and `place`.
    """

    holds: Callable[[np.ndarray, np.ndarray, int], np.ndarray]
    numbers: range
    texts: tuple[str, ...]


_SOME = range(2, MOST + 1)
_SEVERAL = range(3, MOST + 1)  # "all two" would be "both"


def _counted(*hows: str) -> tuple[str, ...]:
    shapes = (
        "there are {} in the {{place}}",
        "in the {{place}} there are {}",
        "the {{place}} has {}",
    )
    return tuple(shape.format(how) for how in hows for shape in shapes)


# Each implies that there are things of the kind, except for "at most", so that no label depends on
# whether "all" implies existence. "Some" and "not all" do not occur alone, as they are ambiguous.
PREMISES = (
    Form(lambda o, r, n: o == n, _SOME, _counted("exactly {n} {colour} {things}")),
    Form(
        lambda o, r, n: o >= n,
        _SOME,
        _counted("at least {n} {colour} {things}", "{n} or more {colour} {things}"),
    ),
    Form(
        lambda o, r, n: o <= n,
        _SOME,
        _counted("at most {n} {colour} {things}", "no more than {n} {colour} {things}"),
    ),
    Form(
        lambda o, r, n: (o == n) & (r == 0),
        _SEVERAL,
        (
            "all {n} {things} in the {place} are {colour}",
            "the {n} {things} in the {place} are all {colour}",
            "the {place} has exactly {n} {things}, all of them {colour}",
        ),
    ),
    Form(
        lambda o, r, n: (o == 0) & (r == n),
        _SEVERAL,
        (
            "none of the {n} {things} in the {place} are {colour}",
            "not one of the {n} {things} in the {place} is {colour}",
            "the {place} has exactly {n} {things}, none of them {colour}",
        ),
    ),
    Form(
        lambda o, r, n: (o + r == n) & (o > 0) & (r > 0),
        _SEVERAL,
        (
            "not all {n} {things} in the {place} are {colour}, but at least one is",
            "the {place} has exactly {n} {things}, one or more but not all {colour}",
        ),
    ),
)
# The numbers are restricted to those for which each label has a premise.
HYPOTHESES = (
    Form(lambda o, r, n: o == n, _SOME, _counted("exactly {n} {colour} {things}")),
    Form(lambda o, r, n: o > n, _SOME[:-1], _counted("more than {n} {colour} {things}")),
    Form(lambda o, r, n: o < n, _SOME, _counted("fewer than {n} {colour} {things}")),
    Form(lambda o, r, n: o + r == n, _SEVERAL, _counted("exactly {n} {things}")),
    Form(lambda o, r, n: o + r > n, _SEVERAL[:-1], _counted("more than {n} {things}")),
    Form(lambda o, r, n: o + r < n, _SEVERAL[1:], _counted("fewer than {n} {things}")),
    Form(
        lambda o, r, n: o == 0,
        range(1),
        (
            *_counted("no {colour} {things}"),
            "not a single {colour} {thing} is in the {place}",
            "not a single {thing} in the {place} is {colour}",
        ),
    ),
    Form(
        lambda o, r, n: o > 0,
        range(1),
        (
            "there is at least one {colour} {thing} in the {place}",
            "the {place} has one or more {colour} {things}",
            "at least one {thing} in the {place} is {colour}",
        ),
    ),
    Form(
        lambda o, r, n: (r == 0) & (o > 0),
        range(1),
        (
            "all of the {things} in the {place} are {colour}",
            "every {thing} in the {place} is {colour}",
            "the {things} in the {place} are all {colour}",
        ),
    ),
    Form(
        lambda o, r, n: r > 0,
        range(1),
        (
            "at least one {thing} in the {place} is not {colour}",
            "one or more of the {things} in the {place} are not {colour}",
            "the {place} has at least one {thing} that is not {colour}",
        ),
    ),
)


class Fact(NamedTuple):
    """A statement about a thing in a place."""

    form: Form
    number: int
    colour: str
    thing: str
    place: str

    def sentence(self, rng: random.Random) -> str:
        """A random wording."""
        text = rng.choice(self.form.texts).format(
            n=NUMBERS[self.number],
            colour=self.colour,
            thing=self.thing,
            things=_PLURALS.get(self.thing, f"{self.thing}s"),
            place=self.place,
        )
        return f"{text[0].upper()}{text[1:]}."


def split_of(thing: str, place: str) -> Split:
    """The split with statements about a thing in a place; each thing has two places in dev and two
    in test."""
    return bucket_split(THINGS.index(thing) + PLACES.index(place))


def generate(count: int, seed: int, split: Split) -> Iterator[tuple[str, str, Label]]:
    """Streams `count` distinct triples of a premise, a hypothesis and its label.

    Labels alternate. Deterministic on all platforms; a smaller `count` gives a prefix.

    Args:
      seed: of the choice of pairs; the things and places of a split are the same for every seed.
    """
    return itertools.islice(_examples(random.Random(f"{seed} {split}"), split), count)


def _examples(rng: random.Random, split: Split) -> Iterator[tuple[str, str, Label]]:
    pairs: set[tuple[str, str]] = set()
    for label in itertools.cycle(LABELS):
        while (pair := _pair(rng, split, label)) in pairs:
            pass
        pairs.add(pair)
        yield (*pair, label)


def _pair(rng: random.Random, split: Split, label: Label) -> tuple[str, str]:
    """A premise and a hypothesis."""
    about = rng.choice(_abouts(split))
    form = rng.choice(HYPOTHESES)
    hypothesis = Fact(form, rng.choice(form.numbers), rng.choice(COLOURS), *about)
    if label == "neutral" and rng.random() < OTHER_TOPIC:
        premise = _fact(rng, hypothesis, rng.choice(LABELS))
        thing, place = rng.choice(_near(about) if rng.random() < NEAR else _others(about))
        premise = premise._replace(thing=thing, place=place)
    else:
        premise = _fact(rng, hypothesis, label)
    return premise.sentence(rng), hypothesis.sentence(rng)


@functools.cache
def _abouts(split: Split) -> tuple[tuple[str, str], ...]:
    """The pairs of a thing and a place of a split."""
    return tuple((t, p) for t in THINGS for p in PLACES if split_of(t, p) == split)


@functools.cache
def _others(about: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """All other pairs of its split."""
    return tuple(other for other in _abouts(split_of(*about)) if other != about)


@functools.cache
def _near(about: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The same thing in other places of its split, and other things in the same place."""
    thing, place = about
    return tuple((t, p) for t, p in _others(about) if (t == thing) != (p == place))


def _fact(rng: random.Random, hypothesis: Fact, label: Label) -> Fact:
    """A fact about the hypothesis's thing and place for which its label is `label`."""
    ways = _ways(hypothesis.form, hypothesis.number, label)
    form, number, same = rng.choice(rng.choice(rng.choice(ways)))
    others = [colour for colour in COLOURS if colour != hypothesis.colour]
    return hypothesis._replace(
        form=form, number=number, colour=hypothesis.colour if same else rng.choice(others)
    )


@functools.cache
def _ways(form: Form, number: int, label: Label) -> list[list[list[tuple[Form, int, bool]]]]:
    """The premises for a label, as (form, number, whether the colour is the same), grouped by form
    and then by colour, so that forms with many numbers are not sampled more often."""

    def candidates(premise: Form, same: bool) -> list[tuple[Form, int, bool]]:
        relation = functools.partial(_relation, hypothesis=form, m=number, same=same)
        return [(premise, n, same) for n in premise.numbers if relation(premise, n) == label]

    by_form = [[candidates(premise, True), candidates(premise, False)] for premise in PREMISES]
    return [full for by_colour in by_form if (full := list(filter(None, by_colour)))]


def _relation(premise: Form, n: int, hypothesis: Form, m: int, same: bool) -> Label:
    """The label of two statements about the same thing and place; `same`: of the same colour."""
    first, second, rest = _WORLDS
    possible = premise.holds(first, second + rest, n)
    own, others = (first, second + rest) if same else (second, first + rest)
    holds = hypothesis.holds(own, others, m)[possible]
    if holds.all():
        return "entailment"
    return "neutral" if holds.any() else "contradiction"
