"""A generated corpus of reviews with one to five stars.

For quick runs with meaningful scores. A review judges three to six aspects of a place, in one
sentence each, and names two of them that matter to its author; the stars are 3 plus the mean of
these two judgements, from -2 to 2. A judgement is a phrase ("not bad"), and the stars depend on
words that are far from each other. The pairs of aspects that matter in dev and test do not matter
in train.

  The rooms were not good. I found the food superb. What I care about is the food and the service.
  The service, to be honest, was average.
    4 stars
"""

import itertools
import random
from collections.abc import Iterator

from common_jax.data.prepared import Split
from common_jax.data.sources import bucket_split

ASPECTS = (
    *("food", "service", "music", "lighting", "parking", "coffee", "decor", "location"),
    *("bread", "wine", "terrace", "bathroom"),
)
PHRASES = {
    -2: ("awful", "terrible", "really bad", "really poor"),
    -1: ("bad", "poor", "not good", "not nice"),
    0: ("average", "ordinary", "neither good nor bad"),
    1: ("good", "nice", "not bad", "not poor"),
    2: ("superb", "wonderful", "really good", "really nice"),
}
JUDGEMENTS = (
    "the {aspect} was {phrase}",
    "I found the {aspect} {phrase}",
    "the {aspect}, to be honest, was {phrase}",
    "{phrase}: that is what I thought of the {aspect}",
)
CARES = (
    "what I care about is the {one} and the {two}",
    "only the {one} and the {two} matter to me",
    "I go out for the {one} and the {two}",
)
STARS = (1, 2, 3, 4, 5)


def split_of(one: str, two: str) -> Split:
    """The split with reviews whose authors care about these two aspects."""
    return bucket_split(ASPECTS.index(one) + ASPECTS.index(two))


def generate(count: int, seed: int, split: Split) -> Iterator[tuple[str, int]]:
    """Streams `count` distinct reviews with their stars.

    Stars alternate. Deterministic on all platforms; a smaller `count` gives a prefix.

    Args:
      seed: of the choice of reviews; the pairs of aspects of a split are the same for every seed.
    """
    return itertools.islice(_reviews(random.Random(f"{seed} {split}"), split), count)


def _reviews(rng: random.Random, split: Split) -> Iterator[tuple[str, int]]:
    pairs = [pair for pair in itertools.permutations(ASPECTS, 2) if split_of(*pair) == split]
    reviews: set[str] = set()
    for stars in itertools.cycle(STARS):
        while (review := _review(rng, rng.choice(pairs), stars)) in reviews:
            pass
        reviews.add(review)
        yield review, stars


def _review(rng: random.Random, matter: tuple[str, str], stars: int) -> str:
    """A review whose author cares about two aspects."""
    total = 2 * (stars - 3)
    first = rng.choice([value for value in PHRASES if total - value in PHRASES])
    values = dict(zip(matter, (first, total - first), strict=True))
    others = [aspect for aspect in ASPECTS if aspect not in matter]
    values |= {aspect: rng.choice([*PHRASES]) for aspect in rng.sample(others, rng.randint(1, 4))}
    sentences = [
        rng.choice(JUDGEMENTS).format(aspect=aspect, phrase=rng.choice(PHRASES[value]))
        for aspect, value in values.items()
    ]
    sentences.append(rng.choice(CARES).format(one=matter[0], two=matter[1]))
    rng.shuffle(sentences)
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in sentences)
