"""A generated corpus of textual entailment: pairs about counts of coloured things in places.

For quick runs with meaningful scores. A statement is a condition on the number of things of a kind
in a place, by colour; every thing has one colour. A premise entails a hypothesis that is true in
all worlds where the premise is true, contradicts one that is true in none of them, and is neutral
to the others: labels are computed by enumerating small worlds. Statements are in `synthetic.toml`.
The hypothesis is sampled independently of the label, so that it does not predict the label. Pairs
of thing and place of dev and test do not occur in train. A premise and three hypotheses:

  Not all seven mirrors in the shed are grey, but at least one is.
    entails: There are fewer than seven grey mirrors in the shed.
    contradicts: Every mirror in the shed is grey.
    is neutral to: In the shed there are exactly three grey mirrors.
"""

import functools
import itertools
import operator
import random
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from common_jax.data.generated import alternate, bucket_split, capitalized, read_data
from common_jax.data.prepared import Split

Label = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = get_args(Label)

OTHER_TOPIC = 0.5  # share of neutral pairs whose premise is about another thing or place
NEAR = 0.8  # smallest share of these premises about the same thing, or the same place

_DATA = read_data(__name__)
THINGS, PLACES, COLOURS, NUMBERS = (
    tuple(_DATA[name].split()) for name in ("things", "places", "colours", "numbers")
)
MOST = len(NUMBERS) - 1
# The numbers of things of the premise's colour, of another and of all others, in each world; no
# statement distinguishes counts above `MOST` + 1.
_WORLDS = np.indices((MOST + 2,) * 3)
_COMPARE = {
    **{"==": operator.eq, "<": operator.lt, "<=": operator.le},
    **{">": operator.gt, ">=": operator.ge},
}


class Form(NamedTuple):
    """A form of statement.

    Attributes:
      true_if: the comparisons that make it true, as (count, operator, number or "n").
      numbers: possible values of `n`; only 0 for a form without a number.
      texts: wordings with the fields of `synthetic.toml`.
    """

    true_if: tuple[tuple[str, str, str], ...]
    numbers: tuple[int, ...]
    texts: tuple[str, ...]

    def holds(self, coloured: np.ndarray, others: np.ndarray, n: int) -> np.ndarray:
        """Whether it is true if `coloured` things are of the colour and `others` are not."""
        counts = {"coloured": coloured, "others": others, "all": coloured + others}
        return np.logical_and.reduce(
            [
                _COMPARE[compare](counts[count], n if number == "n" else int(number))
                for count, compare, number in self.true_if
            ]
        )


def _form(
    true_if: str, n: Sequence[int] = (0,), counts: Sequence[str] = (), texts: Sequence[str] = ()
) -> Form:
    terms = (term.split() for term in true_if.split(" and "))
    counted = (shape.format(count) for count in counts for shape in _DATA["counted"])
    return Form(tuple((a, b, c) for a, b, c in terms), tuple(n), (*counted, *texts))


PREMISES = tuple(_form(**form) for form in _DATA["premises"])
HYPOTHESES = tuple(_form(**form) for form in _DATA["hypotheses"])


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
            things=_DATA["plurals"].get(self.thing, f"{self.thing}s"),
            place=self.place,
        )
        return f"{capitalized(text)}."


def split_of(thing: str, place: str) -> Split:
    """The split of statements about a thing in a place; each thing has two places in dev and two in
    test."""
    return bucket_split(THINGS.index(thing) + PLACES.index(place))


def generate(count: int, seed: int, split: Split) -> Iterator[tuple[str, str, Label]]:
    """Streams `count` distinct triples of a premise, a hypothesis and its label.

    Labels alternate. Deterministic on all platforms; a smaller `count` gives a prefix.

    Args:
      seed: of the choice of pairs; the things and places of a split are the same for every seed.
    """
    sample = functools.partial(_pair, random.Random(f"{seed} {split}"), split)
    return ((*pair, label) for pair, label in itertools.islice(alternate(LABELS, sample), count))


def _pair(rng: random.Random, split: Split, label: Label) -> tuple[str, str]:
    """A premise and a hypothesis."""
    topic = rng.choice(_topics(split))
    form = rng.choice(HYPOTHESES)
    hypothesis = Fact(form, rng.choice(form.numbers), rng.choice(COLOURS), *topic)
    if label == "neutral" and rng.random() < OTHER_TOPIC:
        premise = _fact(rng, hypothesis, rng.choice(LABELS))
        thing, place = rng.choice(
            _near_topics(topic) if rng.random() < NEAR else _other_topics(topic)
        )
        premise = premise._replace(thing=thing, place=place)
    else:
        premise = _fact(rng, hypothesis, label)
    return premise.sentence(rng), hypothesis.sentence(rng)


@functools.cache
def _topics(split: Split) -> tuple[tuple[str, str], ...]:
    """The pairs of a thing and a place of a split."""
    return tuple((t, p) for t in THINGS for p in PLACES if split_of(t, p) == split)


@functools.cache
def _other_topics(topic: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """All other pairs of its split."""
    return tuple(other for other in _topics(split_of(*topic)) if other != topic)


@functools.cache
def _near_topics(topic: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The same thing in other places of its split, and other things in the same place."""
    thing, place = topic
    return tuple((t, p) for t, p in _other_topics(topic) if (t == thing) != (p == place))


def _fact(rng: random.Random, hypothesis: Fact, label: Label) -> Fact:
    """A fact about the hypothesis's thing and place for which its label is `label`."""
    premises = _premises_for(hypothesis.form, hypothesis.number, label)
    form, number, same = rng.choice(rng.choice(rng.choice(premises)))
    other_colours = [colour for colour in COLOURS if colour != hypothesis.colour]
    return hypothesis._replace(
        form=form, number=number, colour=hypothesis.colour if same else rng.choice(other_colours)
    )


@functools.cache
def _premises_for(
    form: Form, number: int, label: Label
) -> list[list[list[tuple[Form, int, bool]]]]:
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
    coloured, other_coloured = (first, second + rest) if same else (second, first + rest)
    holds = hypothesis.holds(coloured, other_coloured, m)[possible]
    if holds.all():
        return "entailment"
    return "neutral" if holds.any() else "contradiction"
