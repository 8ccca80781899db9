"""Packing: every example once, no row too wide, little padding, a function of (seed, epoch);
batches in buckets or packed rows, and the cached plans."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csan_jax.data import dataset as csan_data
from csan_jax.data.dataset import TranslationData
from csan_jax.data.packing import PackedPlan, pack
from tests.families.data.corpora import translation


def rows_of(plan, epoch) -> list[list[int]]:
    """The examples of each row that is not empty."""
    return [
        batch.examples[batch.rows == place].tolist()
        for batch in plan.epoch(epoch)
        for place in np.unique(batch.rows)
    ]


@st.composite
def lengths_and_widths(draw):
    """Any lengths up to the widths, often 0, 1 or the width."""
    widths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=2))
    sides = [st.one_of(st.sampled_from([0, 1, w]), st.integers(0, w)) for w in widths]
    return np.array(draw(st.lists(st.tuples(*sides), min_size=1, max_size=120))), widths


@settings(max_examples=150)
@given(
    case=lengths_and_widths(),
    tokens=st.integers(1, 100),
    seed=st.integers(-3, 2**40),
    epoch=st.integers(0, 2**40),
)
def test_every_example_once_in_a_row_that_holds_it(case, tokens, seed, epoch):
    lengths, widths = case
    plan = PackedPlan(lengths, pack(lengths, widths), tokens, seed)
    size = max(1, tokens // max(widths))
    assert plan.rows.tolist() == [size] and plan.shapes.tolist() == [widths]
    batches = plan.epoch(epoch)
    assert len(batches) == plan.batches
    rows = rows_of(plan, epoch)
    assert sorted(itertools.chain(*rows)) == list(range(len(lengths)))
    for row in rows:
        assert (lengths[row].sum(0) <= widths).all()
    for batch in batches:
        assert batch.shape == 0 and (np.diff(batch.rows) >= 0).all()
        assert batch.rows[0] == 0 and batch.rows[-1] < size
        assert np.array_equal(plan.lengths(batch.examples), lengths[batch.examples])
    assert plan.batches == -(-len(rows) // size)
    assert sum(batch.rows[-1] < size - 1 for batch in batches) <= 1


def test_rows_that_can_be_full_are_full():
    """Finds the optimal packing in simple cases."""
    for lengths, rows in (
        ([[1, 1]] * 64, 8),
        ([[8, 8]] * 5, 5),
        ([[5, 3], [3, 5]] * 10, 10),  # each needs the other
        ([[7, 1], [1, 7]] * 6 + [[4, 4]] * 6, 9),
        ([[8, 1]] * 4 + [[1, 1]] * 3, 5),
    ):
        lengths = np.array(lengths)
        assert len(rows_of(PackedPlan(lengths, pack(lengths, [8, 8]), 32), 0)) == rows


def _like_sentences(count: int, spread: float = 0.6, ratio: float = 0.1) -> np.ndarray:
    random = np.random.default_rng(3)
    source = random.lognormal(2.4, spread, count)
    sides = source, source * random.lognormal(ratio, 0.2, count)
    return np.clip(np.round(np.stack(sides, axis=1)), 1, 100).astype(int)


@pytest.mark.parametrize(("spread", "ratio"), [(0.6, 0.1), (0.4, -0.02), (0.25, 0.1)])
def test_little_is_padding(spread, ratio):
    lengths = _like_sentences(20_000, spread, ratio)
    rows = pack(lengths, [128, 128]).repeats.sum()
    fewest = lengths.sum(0).max() / 128  # the longer side fills every row
    assert fewest <= rows < 1.005 * fewest


def test_an_epoch_is_a_function_of_seed_and_epoch():
    lengths = _like_sentences(1500)
    plan, again = (PackedPlan(lengths, pack(lengths, [128, 128]), 512, seed=5) for _ in range(2))
    plan.epoch(3)
    rows_by_epoch = {epoch: rows_of(plan, epoch) for epoch in (2, 0, 1)}
    assert all(rows_by_epoch[epoch] == rows_of(again, epoch) for epoch in rows_by_epoch)
    rows_by_epoch[-1] = rows_of(PackedPlan(lengths, pack(lengths, [128, 128]), 512, seed=6), 0)
    neighbours = {
        epoch: {pair for row in rows for pair in itertools.combinations(sorted(row), 2)}
        for epoch, rows in rows_by_epoch.items()
    }
    for one, other in itertools.combinations(neighbours.values(), 2):
        assert len(one & other) < 0.1 * len(one)  # neighbours change, not the order of rows alone


def test_every_row_and_every_example_of_a_length_may_come_first():
    lengths = np.repeat([[6, 6], [2, 2]], [10, 30], axis=0)
    plan = PackedPlan(lengths, pack(lengths, [8, 8]), 16)
    first = {rows_of(plan, epoch)[0][0] for epoch in range(300)}
    assert len(first & set(range(10))) == 10 and len(first - set(range(10))) > 20
    neighbours = {
        tuple(sorted((batch.examples < 10).sum() for batch in plan.epoch(epoch)))
        for epoch in range(20)
    }
    assert len(neighbours) > 1  # rows of either sort meet in a batch in some epochs more often


@pytest.mark.parametrize(
    ("lengths", "widths"),
    [
        (np.ones((0, 2), int), [8, 8]),
        (np.ones((4, 0), int), []),
        (np.ones((4, 2), int), [8]),
        (np.array([[3, 9]]), [8, 8]),
        (np.zeros((3, 1), int), [0]),
    ],
)
def test_nothing_to_pack(lengths, widths):
    with pytest.raises(ValueError, match="pack"):
        pack(lengths, widths)


def test_a_packing_of_other_lengths():
    packing = pack(np.array([[3, 3], [2, 2]]), [8, 8])
    for lengths in ([[3, 3]], [[3, 3], [3, 3]], [[3, 3], [2, 9]]):
        with pytest.raises(ValueError, match="other lengths"):
            PackedPlan(np.array(lengths), packing, 8)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def prepared(cache, **options) -> TranslationData:
    fields = dict(source="generated", examples=400, holdout_size=30, vocab_size=600, max_length=64)
    return translation(cache, **(fields | dict(batch_tokens=256, max_shapes=8) | options))


def order(data) -> list:
    return [{k: v.tolist() for k, v in batch.items()} for batch in data.train_batches(3).epoch(1)]


@pytest.mark.parametrize("batching", ["buckets", "packed"])
def test_cached_plans_are_reused_and_repaired(cache, batching, monkeypatch):
    data = prepared(cache, batching=batching)
    first = order(data)
    cached = [p for p in (data.path / "train" / "plans").iterdir() if p.name.startswith(batching)]
    for path in cached:
        path.write_bytes(path.read_bytes()[:-40])
    assert cached and order(data) == first

    def fail(*args):
        raise AssertionError("it was kept")

    monkeypatch.setattr(csan_data, "pack", fail)
    monkeypatch.setattr(csan_data, "choose_shapes", fail)
    assert order(data) == first


def test_plans_are_cached_by_parameters(cache):
    widths = [prepared(cache, batching="packed", row_tokens=w).train_batches() for w in (64, 128)]
    assert [batches.plan.shapes.tolist() for batches in widths] == [[[64, 64]], [[128, 128]]]
    plans = [prepared(cache, max_shapes=n).train_batches().plan for n in (1, 3)]
    assert [len(plan.shapes) for plan in plans] == [1, 3]
