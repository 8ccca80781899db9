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
        longest = np.array([lengths[number] for number in members]).max(1)
        assert max(widths) == padded_width(int(longest.max()))
        assert max(widths) < 2 * padded_width(int(longest.min()))
        for number in members:
            assert all(n <= w for n, w in zip(lengths[number], widths, strict=True))
    assert sorted(indices) == list(range(150))


def test_many_requests_have_few_shapes_and_little_padding():
    random = np.random.default_rng(0)
    contexts = np.minimum(400, random.gamma(8, 17, 10_000).astype(int) + 20)
    questions = random.integers(5, 35, 10_000)
    lengths = list(zip(contexts.tolist(), questions.tolist(), strict=True))
    batches = [g for start in range(0, 10_000, 512) for g in groups(lengths[start:][:512], 12800)]
    assert len({(rows, widths) for _, rows, widths in batches}) < 40
    positions = sum(rows * sum(widths) for _, rows, widths in batches)
    assert positions < 1.5 * np.sum(lengths)


def test_a_small_group_has_the_fewest_rows():
    (group,) = groups([(5,)] * 3, 10_000)
    assert group.rows == 4
    assert [g.members for g in groups([(900,), (900,)], 500)] == [[0], [1]]  # too long: alone
    assert list(groups([], 500)) == []


def test_padding():
    assert padded([[3, 4], [], [5]], 4, 3).tolist() == [[3, 4, 0], [0, 0, 0], [5, 0, 0], [0, 0, 0]]
