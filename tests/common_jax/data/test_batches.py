"""Batches against plain loops over the corpus, and a stream that resumes at any position."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from common_jax.data.batches import Batches, stream
from common_jax.data.corpus import Corpus, Writer
from common_jax.data.epoch_plan import BucketPlan, choose_shapes
from csan_jax.data.packing import PackedBatches, PackedPlan, pack

COLUMNS = ("source", "target")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(0)
    with Writer(path, COLUMNS) as writer:
        for _ in range(61):
            writer.append({c: random.integers(1, 99, random.integers(0, 20)) for c in COLUMNS})
    return path


@pytest.fixture(scope="module")
def corpus(path) -> Corpus:
    return Corpus.open(path)


def in_buckets(corpus) -> Batches:
    lengths = corpus.lengths(*COLUMNS)
    return Batches(corpus, COLUMNS, BucketPlan(lengths, choose_shapes(lengths, 3), 64, 0))


def in_packs(corpus) -> Batches:
    lengths = corpus.lengths(*COLUMNS)
    return PackedBatches(corpus, COLUMNS, PackedPlan(lengths, pack(lengths, [32, 30]), 100, 0))


each_kind = pytest.mark.parametrize("make", [in_buckets, in_packs])


def test_batches_hold_the_corpus(corpus):
    batches = in_buckets(corpus)
    epoch = batches.epoch(4)
    assert len(epoch) == len(batches) == len(list(epoch))
    shapes = [
        {"index": (rows,)} | {c: (rows, width) for c, width in zip(COLUMNS, widths, strict=True)}
        for rows, widths in zip(batches.plan.rows, batches.plan.shapes.tolist(), strict=True)
    ]
    assert all({name: a.shape for name, a in batch.items()} in shapes for batch in epoch)
    indices = []
    for number, batch in enumerate(epoch):
        assert all(array.dtype == np.int32 for array in batch.values())
        for at, index in enumerate(batch["index"]):
            for column in COLUMNS:
                tokens = corpus.row(int(index), column).tolist() if index >= 0 else []
                row = batch[column][at].tolist()
                assert row == tokens + [0] * (len(row) - len(tokens))
        own = batch["index"][batch["index"] >= 0].tolist()
        assert batches.examples((4, number)).tolist() == own
        indices += own
    assert sorted(indices) == list(range(61))
    lengths = corpus.lengths("target")
    plan = BucketPlan(lengths, choose_shapes(lengths, 2), 64, seed=None)
    assert list(Batches(corpus, ("target",), plan).epoch(0)[0]) == ["index", "target"]


def test_packed_batches_hold_the_corpus(corpus):
    """Every sentence is restored by its segment ids."""
    packed = in_packs(corpus)
    (rows,), (widths,) = packed.plan.rows.tolist(), packed.plan.shapes.tolist()
    columns = dict(zip(COLUMNS, widths, strict=True)).items()
    shapes = {f"{c}{end}": (rows, width) for c, width in columns for end in ("", "_segments")}
    indices = []
    for number, batch in enumerate(packed.epoch(4)):
        assert {name: array.shape for name, array in batch.items()} == {"index": (rows,)} | shapes
        assert list(batch) == ["index", *shapes]
        assert all(array.dtype == np.int32 for array in batch.values())
        examples = packed.examples((4, number)).tolist()
        indices += examples
        for at, index in enumerate(batch["index"].tolist()):
            if index < 0:
                assert not any(batch[name][at].any() for name in shapes)
                continue
            assert examples[0] == index
            segments = [batch[f"{c}_segments"][at].tolist() for c in COLUMNS]
            following = next((i for i in batch["index"][at + 1 :].tolist() if i >= 0), None)
            size = len(examples) if following is None else examples.index(following)
            for column, row in zip(COLUMNS, segments, strict=True):
                tokens = batch[column][at].tolist()
                expected, numbers = [], []
                for segment, example in enumerate(examples[:size], start=1):
                    sentence = corpus.row(int(example), column).tolist()
                    expected += sentence
                    numbers += [segment] * len(sentence)
                padding = [0] * (len(tokens) - len(expected))
                assert tokens == expected + padding and row == numbers + padding
            del examples[:size]
        assert not examples
    assert sorted(indices) == list(range(61))


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@each_kind
def test_stream_resumes_at_every_position(corpus, make):
    """Also far away; the end of an epoch is the start of the next."""
    batches = make(corpus)
    size = len(batches)
    streamed = list(itertools.islice(stream(batches), 2 * size + 3))
    expected = [(e, b) for e in range(3) for b in range(size)]
    assert [position for position, _ in streamed] == expected[1 : len(streamed) + 1]
    for number, (_, batch) in enumerate(streamed):
        assert same(batch, batches.epoch(number // size)[number % size])
    for done in range(len(streamed) - 2):
        position = streamed[done][0]
        resumed = list(itertools.islice(stream(batches, position), 2))
        for one, (other_place, other) in zip(resumed, streamed[done + 1 :], strict=False):
            assert one[0] == other_place and same(one[1], other)
    for start, (epoch, number) in (((2**30, 1), (2**30, 1)), ((0, size), (1, 0))):
        position, batch = next(stream(batches, start))
        assert position == (epoch, number + 1) and same(batch, batches.epoch(epoch)[number])
    assert np.array_equal(batches.examples((0, size)), batches.examples((1, 0)))
    for position in ((-1, 0), (0, -1), (0, size + 1)):
        with pytest.raises(ValueError, match="position"):
            stream(batches, position)


def test_errors_reach_the_reader(corpus):
    batches = in_buckets(corpus)
    batches.plan.shapes[:] = 1
    with pytest.raises(ValueError, match=r"row \d+ of '\w+' has \d+ tokens, over 1"):
        list(itertools.islice(stream(batches), 10))


PROGRAM = """
import sys
import common_jax.data.batches, common_jax.io.files, csan_jax.data.dataset, csan_jax.data.subwords
print({"jax", "tqdm", "sentencepiece"} & {*sys.modules})
from common_jax.data.corpus import Corpus
from tests.common_jax.data.test_batches import in_buckets, stream
batches = in_buckets(Corpus.open(sys.argv[1]))
streams = [stream(batches) for _ in range(3)]
print([next(s)[0] for s in streams])
streams[0].close()
"""


def test_imports_are_light_and_an_open_stream_does_not_hold_up_the_exit(path):
    command = [sys.executable, "-c", PROGRAM, path]
    done = subprocess.run(command, timeout=60, capture_output=True, text=True)
    assert done.stdout.startswith("set()\n[(0, 1), (0, 1)"), done.stderr
    assert done.returncode == 0, done.stderr
