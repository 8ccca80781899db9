"""The plan: best shapes against brute force, every example once, purity in (seed, epoch); and the
shapes of requests' batches."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from common_jax.data.epoch_plan import BucketPlan, Mixture, choose_shapes
from common_jax.data.padding import groups, padded, padded_width


def _positions(lengths, shapes) -> int:
    """The positions of a choice of shapes, with each example in the smallest shape that fits it."""
    fitting = [[sum(shape) for shape in shapes if _fits(row, shape)] for row in lengths]
    return sum(min(sizes, default=10**9) for sizes in fitting)


def _fits(row, shape) -> bool:
    return all(a <= b for a, b in zip(row, shape, strict=True))


def _nested(shapes) -> bool:
    return all(_fits(one, other) for one, other in itertools.pairwise(shapes))


def _brute_force(lengths, max_shapes) -> int:
    """The fewest positions over all choices of at most `max_shapes` nested shapes."""
    widths = [sorted({max(1, n) for n in column}) for column in zip(*lengths, strict=False)]
    grid = list(itertools.product(*widths))  # lexicographic, hence in order of any nesting
    choices = itertools.chain.from_iterable(
        itertools.combinations(grid, k) for k in range(1, max_shapes + 1)
    )
    return min(_positions(lengths, shapes) for shapes in choices if _nested(shapes))


@settings(max_examples=150)
@given(data=st.data(), columns=st.integers(1, 3), max_shapes=st.integers(1, 3))
def test_shapes_are_the_best_nested_ones(data, columns, max_shapes):
    most = {1: 12, 2: 5, 3: 3}[columns]
    rows = st.tuples(*[st.integers(0, most)] * columns)
    lengths = data.draw(st.lists(rows, min_size=1, max_size=12))
    shapes = choose_shapes(np.array(lengths), max_shapes).tolist()
    assert 1 <= len(shapes) <= max_shapes and _nested(shapes)
    assert _positions(lengths, shapes) == _brute_force(lengths, max_shapes)


@pytest.mark.parametrize(
    ("lengths", "shapes"),
    [([[7, 7]] * 10, [[7, 7]]), ([[0, 0]] * 3, [[1, 1]]), ([[3, 4], [9, 9]], [[3, 4], [9, 9]])],
)
def test_no_useless_shapes(lengths, shapes):
    assert choose_shapes(np.array(lengths), 8).tolist() == shapes


@pytest.mark.parametrize(("shape", "shapes"), [((0, 2), 3), ((4, 0), 3), ((4, 2), 0)])
def test_nothing_to_choose(shape, shapes):
    with pytest.raises(ValueError, match="needs lengths and max_shapes"):
        choose_shapes(np.ones(shape, int), shapes)


LENGTHS = hnp.arrays(
    np.int64, st.tuples(st.integers(1, 200), st.just(2)), elements=st.integers(0, 30)
)


@settings(max_examples=100)
@given(
    lengths=LENGTHS,
    max_shapes=st.integers(1, 5),
    tokens=st.integers(1, 200),
    seed=st.one_of(st.none(), st.integers(-3, 2**40)),
    epoch=st.integers(0, 2**40),
    size=st.none() | st.integers(1, 60),
)
def test_every_example_once_in_a_shape_that_holds_it(
    lengths, max_shapes, tokens, seed, epoch, size
):
    plan = BucketPlan(lengths, choose_shapes(lengths, max_shapes), tokens, seed, batch_size=size)
    batches = plan.epoch(epoch)
    assert len(batches) == plan.batches
    assert sorted(row for batch in batches for row in batch.examples) == list(range(len(lengths)))
    for batch in batches:
        widths = plan.shapes[batch.shape]
        rows = size or max(1, tokens // widths.max())
        assert plan.rows[batch.shape] == rows and 1 <= len(batch.examples) <= rows
        assert (lengths[batch.examples] <= widths).all()
    not_full = [b for b in batches if len(b.examples) < plan.rows[b.shape]]
    assert len(not_full) <= 1 and all(b.shape == len(plan.shapes) - 1 for b in not_full)


def test_shapes_that_are_not_nested():
    lengths = np.array([[5, 1]] * 5 + [[1, 5]] * 4 + [[6, 6]])
    plan = BucketPlan(lengths, np.array([[6, 6], [5, 2], [2, 5]]), 10, 0)
    rows = sorted(row for batch in plan.epoch(0) for row in batch.examples)
    assert rows == list(range(10))
    with pytest.raises(ValueError, match=r"example 9 of lengths \[6 6\] fits no shape"):
        BucketPlan(lengths, np.array([[5, 2], [2, 5]]), 10, 0)


@pytest.mark.parametrize("seed", [None, 0, 9])
def test_the_order_is_that_of_plain_loops(seed):
    """The order must not change between versions: runs resume from checkpoints in this order."""
    lengths = np.random.default_rng(2).integers(1, 30, (300, 2))
    plan = BucketPlan(lengths, choose_shapes(lengths, 5), 100, seed)
    shape_of = [(lengths[i] <= plan.shapes).all(1).argmax() for i in range(300)]
    for epoch in (3, 0, 3):  # whatever was asked before
        members = [[i for i in range(300) if shape_of[i] == shape] for shape in range(5)]
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed or 0, epoch])))
        if seed is None:
            members = [sorted(rows, key=lambda i: lengths[i].max()) for rows in members]
        else:
            members = [random.permutation(rows).tolist() for rows in members]
        batches = []
        for shape, rows in enumerate(members):
            while len(rows) >= plan.rows[shape] or (rows and shape == 4):
                batches.append((shape, rows[: plan.rows[shape]]))
                del rows[: plan.rows[shape]]
            if shape < 4:
                members[shape + 1][:0] = rows
        if seed is not None:
            batches = [batches[i] for i in random.permutation(len(batches))]
        assert [(batch.shape, batch.examples.tolist()) for batch in plan.epoch(epoch)] == batches


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=2, max_size=3),
    weights=st.lists(st.floats(0.1, 5), min_size=3, max_size=3),
    seed=st.integers(0, 5),
)
def test_a_mixture_draws_in_its_shares(sizes, weights, seed):
    """Shares are exact up to a draw of each shape; a corpus repeats only after all of it, of which
    each shape has a draw."""
    corpus = np.repeat(np.arange(len(sizes)), sizes)
    weights = weights[: len(sizes)]
    lengths = np.random.default_rng(seed).integers(1, 9, (len(corpus), 1))
    shapes = np.array([[4], [8]])
    plan = BucketPlan(lengths, shapes, 0, seed, batch_size=4, mixture=Mixture(corpus, weights))
    examples = lambda epoch: np.concatenate([b.examples for b in plan.epoch(epoch)])
    drawn = [examples(epoch) for epoch in range(4)]
    assert np.array_equal(examples(2), drawn[2])
    expected = len(corpus) * np.array(weights) / sum(weights)
    for epoch in drawn:
        shares = np.bincount(corpus[epoch], minlength=len(sizes))
        np.testing.assert_allclose(shares, expected, atol=len(shapes))
        drawn_kinds = {*zip(corpus[epoch], lengths[epoch, 0] > 4, strict=True)}
        assert drawn_kinds == {*zip(corpus, lengths[:, 0] > 4, strict=True)}
        assert len(plan.epoch(0)) == plan.batches
    times = np.bincount(np.concatenate(drawn), minlength=len(corpus))
    for number in range(len(sizes)):
        for wide in (False, True):
            own = times[(corpus == number) & ((lengths[:, 0] > 4) == wide)]
            assert own.size == 0 or own.max() - own.min() <= 1


def test_widths_of_requests_hold_their_length_and_are_few():
    lengths = range(1, 1000)
    widths = [padded_width(n) for n in lengths]
    assert all(n <= w <= 1.5 * n + 8 for n, w in zip(lengths, widths, strict=True))
    assert sorted(set(widths))[:7] == [8, 12, 16, 24, 32, 48, 64]


@pytest.mark.parametrize("texts", [1, 2])
def test_each_request_is_in_one_group_that_holds_it(texts):
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
    (group,) = groups([(5,)] * 3, 10_000)
    assert group.rows == 4  # the fewest
    assert [g.members for g in groups([(900,), (900,)], 500)] == [[0], [1]]  # too long: alone
    assert list(groups([], 500)) == []
    assert padded([[3, 4], [], [5]], 4, 3).tolist() == [[3, 4, 0], [0, 0, 0], [5, 0, 0], [0, 0, 0]]


@pytest.mark.slow
def test_long_columns_stay_fast_and_hold_every_example():
    random = np.random.default_rng(0)
    lengths = np.minimum(random.lognormal(5, 1, (200_000, 2)).astype(int), 3000)
    shapes = choose_shapes(lengths, 8)
    assert len(shapes) == 8 and (shapes[-1] == lengths.max(0)).all()
    fits = (lengths[:, None] <= shapes).all(-1)
    positions = np.where(fits, shapes.sum(-1), 10**9).min(1).sum()
    assert positions < len(lengths) * lengths.max(0).sum() / 2  # in one shape
