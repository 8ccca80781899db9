"""The generated pairs, parsed by hand-written patterns and labelled by enumerating bags."""

import collections
import functools
import itertools
import operator
import re
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from attconv_jax.data.synthetic import COLOURS, PLACES, THINGS, generate

COUNTS = {"train": 12_000, "dev": 3_000, "test": 1_500}
SEED = 7

_WORDS = "no", "one", "two", "three", "four", "five", "six", "seven"
NUMBER = {word: n for n, word in enumerate(_WORDS)}
SINGULAR = {t + ("es" if re.search("x$|[sc]h$", t) else "s"): t for t in THINGS if t != "scarf"}
SINGULAR["scarves"] = "scarf"
COMPARE = {
    **{"exactly": operator.eq, "at least": operator.ge},
    **{"at most": operator.le, "no more than": operator.le},
    **{"more than": operator.gt, "fewer than": operator.lt},
}

# Patterns of statements about counts, and about shares of a colour. T stands for several
# things and O is one, C is a colour, P a place, N a number from two, Q a number of several things.
PATTERNS = {
    "count": (
        "there are Q T in the P|there are Q C T in the P|in the P there are Q T",
        "in the P there are Q C T|the P has Q T|the P has Q C T",
        "NONE C O is in the P|NONE O in the P is C",
        "there is ONE C O in the P|ONE O in the P is C",
    ),
    "all": (
        "all N T in the P are C|the N T in the P are all C|the P has exactly N T, all of them C",
        "all of the T in the P are C|every O in the P is C|the T in the P are all C",
    ),
    "none": (
        "none of the N T in the P are C|not one of the N T in the P is C",
        "the P has exactly N T, none of them C",
    ),
    "mixed": (
        "not all N T in the P are C, but at least one is",
        "the P has exactly N T, one or more but not all C",
    ),
    "not all": (
        "at least one O in the P is not C|one or more of the T in the P are not C",
        "the P has at least one O that is not C",
    ),
}
_NUMBERS = "|".join(list(NUMBER)[2:])
GROUPS = {
    "Q": "(?:(?P<how>exactly|at least|at most|no more than|more than|fewer than) "
    rf"(?P<n>{_NUMBERS})"
    rf"|(?P<m>one|{_NUMBERS}) or more|(?P<none>no))",
    "NONE": "(?P<none>not a single)",
    "ONE": "(?P<how>at least) (?P<n>one)",
    "N": rf"(?P<n>{_NUMBERS})",
    "C": rf"(?P<colour>{'|'.join(COLOURS)})",
    "T": rf"(?P<things>{'|'.join(SINGULAR)})",
    "O": rf"(?P<thing>{'|'.join(THINGS)})",
    "P": rf"(?P<place>{'|'.join(PLACES)})",
}
READINGS = [
    (kind, re.compile(re.sub("[A-Z]+", lambda match: GROUPS[match[0]], pattern)))
    for kind, patterns in PATTERNS.items()
    for pattern in "|".join(patterns).split("|")
]

# Bags of as many things as it takes for seven of one colour beside eight of another.
BAGS = [
    collections.Counter(bag)
    for size in range(16)
    for bag in itertools.combinations_with_replacement("abc", size)
]


class Statement(NamedTuple):
    """The condition of a statement, without its thing and place."""

    kind: str
    how: str
    n: int | None
    colour: str | None

    def true(self, bag: collections.Counter, of_nothing: bool) -> bool:
        """Whether the statement holds for a bag; `of_nothing` is the truth of "all" over no
        things."""
        own, total = bag[self.colour], bag.total()
        if self.kind == "count":
            return COMPARE[self.how](own if self.colour else total, self.n)
        shares = {
            "all": own == total if total else of_nothing,
            "none": own == 0 and total > 0,
            "mixed": 0 < own < total,
            "not all": own < total,
        }
        return shares[self.kind] and self.n in (None, total)


@functools.cache
def worlds(statement: Statement, of_nothing: bool) -> frozenset[int]:
    return frozenset(i for i, bag in enumerate(BAGS) if statement.true(bag, of_nothing))


@functools.cache
def read(clause: str) -> tuple[tuple[str, str], Statement]:
    """Parses a clause, uniquely, into thing, place and condition."""
    ((kind, fields),) = [(k, f.groupdict()) for k, p in READINGS if (f := p.fullmatch(clause))]
    thing = fields.get("thing") or SINGULAR[fields["things"]]
    how = fields.get("how") or ("at least" if fields.get("m") else "exactly")
    number = "no" if fields.get("none") else fields.get("n") or fields.get("m")
    n = None if number is None else NUMBER[number]
    return (thing, fields["place"]), Statement(kind, how, n, fields.get("colour"))


def clause(sentence: str) -> str:
    assert sentence[0].isupper() and sentence.endswith(".")
    return sentence[0].lower() + sentence[1:-1]


def judge(premise: str, hypothesis: str, of_nothing: bool = False, empty: bool = True) -> str:
    """The label; without `empty` worlds, there are things of the kind that a share is of."""
    about, statement = read(clause(hypothesis))
    of, fact = read(clause(premise))
    if of != about:
        return "neutral"
    colour = statement.colour and ("a" if statement.colour == fact.colour else "b")
    possible = worlds(fact._replace(colour="a"), of_nothing)
    if statement.kind != "count" and not empty:
        possible = possible - {0}
    holds = worlds(statement._replace(colour=colour), of_nothing)
    if possible <= holds:
        return "entailment"
    return "neutral" if possible & holds else "contradiction"


@pytest.fixture(scope="module")
def corpora() -> dict[str, list[tuple[str, str, str]]]:
    return {split: list(generate(count, SEED, split)) for split, count in COUNTS.items()}


@pytest.mark.parametrize("split", COUNTS)
def test_every_label_is_what_the_english_says(corpora, split):
    for premise, hypothesis, label in corpora[split]:
        assert judge(premise, hypothesis) == label, (premise, hypothesis)


def test_no_label_hangs_on_what_all_says_of_nothing(corpora):
    for premise, hypothesis, label in corpora["dev"]:
        assert judge(premise, hypothesis, of_nothing=True) == label
        assert judge(premise, hypothesis, empty=False) == label


def _abouts(corpus: Iterable[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """The pairs of thing and place of premises and hypotheses."""
    return {read(clause(text))[0] for *texts, _ in corpus for text in texts}


def test_things_in_places_are_held_out(corpora):
    train, dev, test = (_abouts(corpora[split]) for split in COUNTS)
    assert not train & dev and not train & test and not dev & test
    assert len(train | dev | test) == len(THINGS) * len(PLACES)
    assert len(dev) == len(test) == len(THINGS) * len(PLACES) / 10
    for part in range(2):  # each thing and each place occurs in training
        assert {about[part] for about in dev | test} <= {about[part] for about in train}
