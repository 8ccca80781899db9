"""The generated reviews, parsed by hand-written patterns."""

import collections
import itertools
import re

import pytest

from attconv_jax.data.synthetic_reviews import ASPECTS, generate

VALUES = {
    **dict.fromkeys(("awful", "terrible", "really bad", "really poor"), -2),
    **dict.fromkeys(("bad", "poor", "not good", "not nice"), -1),
    **dict.fromkeys(("average", "ordinary", "neither good nor bad"), 0),
    **dict.fromkeys(("good", "nice", "not bad", "not poor"), 1),
    **dict.fromkeys(("superb", "wonderful", "really good", "really nice"), 2),
}
JUDGED = (
    r"the (?P<aspect>\w+), to be honest, was (?P<phrase>.+)",
    r"the (?P<aspect>\w+) was (?P<phrase>.+)",
    r"i found the (?P<aspect>\w+) (?P<phrase>.+)",
    r"(?P<phrase>.+): that is what i thought of the (?P<aspect>\w+)",
)
CARES = r"(what i care about is|only|i go out for) the (\w+) and the (\w+)( matter to me)?"


def read(review):
    """The judgements, and the aspects that matter to the author."""
    values, matter = {}, []
    for sentence in review.lower().removesuffix(".").split(". "):
        if sentence_match := re.fullmatch(CARES, sentence):
            matter.append(sentence_match.group(2, 3))
            continue
        match = next(filter(None, (re.fullmatch(form, sentence) for form in JUDGED)))
        assert match["aspect"] not in values
        values[match["aspect"]] = VALUES[match["phrase"]]
    [matter] = matter
    return values, matter


@pytest.mark.parametrize(("split", "count"), [("train", 3000), ("dev", 500), ("test", 500)])
def test_stars_follow_from_what_matters(split, count):
    reviews = list(generate(count, 3, split))
    assert len({review for review, _ in reviews}) == count
    for review, stars in reviews:
        values, matter = read(review)
        assert stars == 3 + sum(values[aspect] for aspect in matter) / 2
        assert 3 <= len(values) <= 6 and {*values} <= {*ASPECTS}
    assert {*collections.Counter(stars for _, stars in reviews).values()} == {count // 5}


def test_splits_share_no_pair_that_matters():
    pairs = [
        {frozenset(read(review)[1]) for review, _ in generate(1000, 0, split)}
        for split in ("train", "dev", "test")
    ]
    assert not any(one & other for one, other in itertools.combinations(pairs, 2))
    assert {aspect for pair in pairs[0] for aspect in pair} == {*ASPECTS}
