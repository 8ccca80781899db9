"""A generated corpus of reviews with one to five stars.

For quick runs with meaningful scores. A review judges three to six aspects of a place, in one
sentence each, and names two of them that matter to its author; the stars are 3 plus the mean of
these two judgements, from -2 to 2. A judgement is a phrase ("not bad"), and the stars depend on
words that are far from each other. The pairs of aspects that matter in dev and test do not matter
in train. The words are in `synthetic_reviews.toml`.

  The rooms were not good. I found the food superb. What I care about is the food and the service.
  The service, to be honest, was average.
    4 stars
"""

import itertools
import random
from collections.abc import Iterator

from common_jax.data.generated import alternate, bucket_split, capitalized, read_data
from common_jax.data.prepared import Split

_DATA = read_data(__name__)
ASPECTS = _DATA["aspects"].split()
PHRASES = {int(value): phrases for value, phrases in _DATA["phrases"].items()}
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
    pairs = [pair for pair in itertools.permutations(ASPECTS, 2) if split_of(*pair) == split]
    rng = random.Random(f"{seed} {split}")

    def sample(stars):
        return _review(rng, rng.choice(pairs), stars)

    return itertools.islice(alternate(STARS, sample), count)


def _review(rng: random.Random, matter: tuple[str, str], stars: int) -> str:
    """A review whose author cares about two aspects."""
    total = 2 * (stars - 3)
    first = rng.choice([value for value in PHRASES if total - value in PHRASES])
    values = dict(zip(matter, (first, total - first), strict=True))
    other_aspects = [aspect for aspect in ASPECTS if aspect not in matter]
    values |= {
        aspect: rng.choice([*PHRASES]) for aspect in rng.sample(other_aspects, rng.randint(1, 4))
    }
    sentences = [
        rng.choice(_DATA["judgements"]).format(aspect=aspect, phrase=rng.choice(PHRASES[value]))
        for aspect, value in values.items()
    ]
    sentences.append(rng.choice(_DATA["cares"]).format(one=matter[0], two=matter[1]))
    rng.shuffle(sentences)
    return " ".join(f"{capitalized(text)}." for text in sentences)
