"""Batches of requests: all texts, few shapes, no truncation."""

import numpy as np
import pytest

from common_jax.data.padding import groups, padded, padded_width


def test_widths_hold_their_length_and_are_few():
    lengths = range(1, 1000)
    widths = [padded_width(n) for n in lengths]
    assert all(n <= w <= 1.5 * n + 8 for n, w in zip(lengths, widths, strict=True))
    assert sorted(set(widths))[:7] == [8, 12, 16, 24, 32, 48, 64]


@pytest.mark.parametrize("texts", [1, 2])
def test_each_item_is_in_one_group_that_holds_it(texts):
    random = np.random.default_rng(0)
    lengths = [tuple(each) for each in random.integers(1, 200, (150, texts)).tolist()]
    indices = []
    for members, rows, widths in groups(lengths, 500):
        indices += members
        assert len(members) <= rows and rows * max(widths) <= 500
        for number in members:
            assert widths == tuple(padded_width(length) for length in lengths[number])
    assert sorted(indices) == list(range(150))


def test_a_small_group_has_the_fewest_rows():
    (group,) = groups([(5,)] * 3, 10_000)
    assert group.rows == 4
    assert [g.members for g in groups([(900,), (900,)], 500)] == [[0], [1]]  # too long: alone
    assert list(groups([], 500)) == []


def test_padding():
    assert padded([[3, 4], [], [5]], 4, 3).tolist() == [[3, 4, 0], [0, 0, 0], [5, 0, 0], [0, 0, 0]]
