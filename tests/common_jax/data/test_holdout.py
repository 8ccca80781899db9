"""Held-out groups and reservoir samples: of the requested number, a function of the seed."""

import collections
import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from common_jax.data.holdout import ShuffledGroups, SmallestHashes
from common_jax.data.sampling import reservoir
from common_jax.errors import UserError

RULES = (ShuffledGroups, SmallestHashes)
each_rule = pytest.mark.parametrize("rule", RULES)


def hold_out(rule, groups, splits, size, seed):
    held_out = rule(splits, size, seed, "examples")
    for group in groups:
        held_out.add(str(group))
    rows = {split: part.tolist() for split, part in held_out.rows("here").items()}
    assert all(part == sorted(part) for part in rows.values())
    return rows


@each_rule
@given(
    groups=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    size=st.integers(1, 12),
    seed=st.integers(0, 3),
)
def test_whole_groups_are_held_out(rule, groups, size, seed):
    sizes = collections.Counter(groups)
    try:
        parts = hold_out(rule, groups, ["dev", "test"], size, seed)
    except UserError as error:
        assert f"data.holdout_size={size}: " in str(error)
        if rule is ShuffledGroups:
            assert "hold out fewer" in str(error)
            assert len(groups) <= 2 * (size + max(sizes.values()) - 1)
        else:
            assert len(sizes) <= 2 * size and f"has {len(sizes)} distinct examples" in str(error)
        return
    assert list(parts) == ["train", "dev", "test"] and parts["train"]
    assert sorted(n for part in parts.values() for n in part) == list(range(len(groups)))
    groups_by_split = {split: {groups[n] for n in part} for split, part in parts.items()}
    assert sum(map(len, groups_by_split.values())) == len(sizes)  # none is in two
    for split in ("dev", "test"):
        if rule is ShuffledGroups:
            assert len(parts[split]) >= size
            assert any(len(parts[split]) - sizes[group] < size for group in groups_by_split[split])
        else:
            assert len(groups_by_split[split]) == size
    assert hold_out(rule, groups, ["dev", "test"], size, seed) == parts


@each_rule
def test_another_seed_holds_out_others_and_fewer_splits_the_same(rule):
    groups = [f"text {n}" for n in range(50)]
    chosen = {tuple(hold_out(rule, groups, ["dev"], 10, seed)["dev"]) for seed in range(9)}
    assert len(chosen) == 9
    both, alone = (hold_out(rule, groups, splits, 10, 0) for splits in (["dev", "test"], ["dev"]))
    assert both["dev"] == alone["dev"] and len(alone["train"]) == 40


def test_the_choice_is_the_same_as_ever():
    """Corpora prepared before have these splits."""
    groups = [f"text {n // 2}" for n in range(40)]
    dev = {rule: hold_out(rule, groups, ["dev"], 4, 1)["dev"][::2] for rule in RULES}
    assert dev == {ShuffledGroups: [16, 24], SmallestHashes: [12, 18, 32, 38]}


@given(strata=st.lists(st.sampled_from("aab"), min_size=1, max_size=60), size=st.integers(1, 9))
def test_each_stratum_has_its_share_of_the_held_out_groups(strata, size):
    held_out = ShuffledGroups(["dev", "test"], size, 0, "examples")
    for number, stratum in enumerate(strata):
        held_out.add(str(number), stratum)
    if len(strata) <= 2 * size:
        return
    parts = held_out.rows("here")
    for stratum, count in collections.Counter(strata).items():
        held = sum(strata[n] == stratum for split in ("dev", "test") for n in parts[split])
        assert abs(held - 2 * size * count / len(strata)) <= 1


@pytest.mark.parametrize(("groups", "size"), [(300, 30), (200, 20), (9000, 500), (199, None)])
@each_rule
def test_the_size_is_a_tenth_or_leaves_four_fifths_to_train_on(rule, groups, size):
    held_out = rule(["dev", "test"], 500, 0, "examples")
    for number in range(groups):
        held_out.add(str(number))
    if size:
        assert held_out.fit_size("here") == size == len(held_out.rows("here")["test"])
    else:
        with pytest.raises(UserError, match=r"here: 199 .* 20 .* 80%"):
            held_out.fit_size("here")


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: np.random.default_rng(seed).integers,
        lambda seed: random.Random(seed).randrange,
    ],
    ids=["numpy", "python"],
)
def test_a_sample_is_the_same_again_of_distinct_items_and_has_each_as_often(draw):
    for size in (5, 9):
        assert reservoir(range(5), size, draw(0)) == [0, 1, 2, 3, 4]
    sample = reservoir(iter(range(10_000)), 1000, draw(0))
    assert sample == reservoir(range(10_000), 1000, draw(0))
    assert len(set(sample)) == 1000
    assert abs(sum(sample) / 1000 - 5000) < 5 * 10_000 / (12 * 1000) ** 0.5
    counts = collections.Counter[int]()
    for seed in range(2000):
        sample = reservoir(iter(range(20)), 6, draw(seed))
        assert len(set(sample)) == 6
        counts.update(sample)
    assert scipy.stats.chisquare([counts[n] for n in range(20)]).pvalue > 1e-3
