"""Batching of training pairs in buckets or packed rows, and the cached plans."""

import numpy as np
import pytest

from common_jax.errors import UserError
from common_jax.fields import from_mapping
from csan_jax.config import DataConfig
from csan_jax.data import dataset as csan_data
from csan_jax.data.dataset import TranslationData


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def prepared(cache, **options) -> TranslationData:
    fields = dict(source="generated", examples=400, holdout_size=30, vocab_size=600, max_length=64)
    config = DataConfig(cache_dir=str(cache), batch_tokens=256, **(fields | options))
    data = TranslationData(config)
    data.prepare()
    return data


def order(data) -> list:
    return [{k: v.tolist() for k, v in batch.items()} for batch in data.train_batches(3).epoch(1)]


def test_packed_and_bucketed_batches_hold_the_same_pieces(cache):
    pieces = {}
    for batching in ("buckets", "packed"):
        data = prepared(cache, batching=batching)
        epoch = data.train_batches().epoch(0)
        pieces[batching] = [
            np.sort(np.concatenate([b[side][b[side] != 0] for b in epoch]))
            for side in ("source", "target")
        ]
    for one, other in zip(*pieces.values(), strict=True):
        assert np.array_equal(one, other)
    columns = [f"{side}{end}" for side in ("source", "target") for end in ("", "_segments")]
    shapes = {"index": (2,), **dict.fromkeys(columns, (2, 128))}
    assert all({name: a.shape for name, a in batch.items()} == shapes for batch in epoch)


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


@pytest.mark.parametrize(
    "options", [{"max_length": 129}, {"row_tokens": 63}, {"row_tokens": 300}, {"batching": "rows"}]
)
def test_refused(options):
    fields = dict(dir="d", batching="packed", max_length=64, batch_tokens=256)
    with pytest.raises(UserError, match=r"data\.(row_tokens|batching)=\S+: ") as error:
        from_mapping(DataConfig, fields | options, "data.")
    assert "\n" not in str(error.value)
    if "batching" not in options:
        DataConfig(**(fields | options | {"batching": "buckets"}))
