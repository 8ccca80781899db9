"""Batches: every input is answered as if it were alone."""

import asyncio
import logging
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from common_jax.data.padding import padded_width
from launch.serve.batching import Batcher, batch_size
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from tests.launch.serve.toy_server import Line, Reverser

LINES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=40).map(" ".join)


def batcher(predictor, **limits):
    return Batcher(predictor, Limits(**limits), Metrics())


def ask(one, lines):
    return one.answers([*map(Line, lines)])


@given(st.integers(1, 500), st.integers(1, 100))
def test_sizes_are_few_and_filled(count, most):
    size = batch_size(count, most)
    assert size == most or size in {1, 2, 4, 8, 16, 32, 64}
    assert 1 <= size <= min(count, most) < 2 * size
    assert batch_size(size, most) == size


@settings(max_examples=60)
@given(
    st.lists(st.lists(LINES, min_size=1, max_size=6), min_size=1, max_size=12),
    st.sampled_from([1, 4, 5, 16]),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_an_answer_does_not_depend_on_its_batch(requests, most, late):
    predictor = Reverser()

    async def all_at_once():
        one = batcher(predictor, batch=most)

        async def later(lines, seconds):
            await asyncio.sleep(seconds)
            return await ask(one, lines)

        return await asyncio.gather(
            *(later(r, 0.001 * n) for r, n in zip(requests, late, strict=False))
        )

    answers = asyncio.run(all_at_once())
    assert answers == [[*Reverser().predict(lines)] for lines in requests]
    sizes = {batch_size(count, most) for count in range(1, 100)}
    for batch in predictor.batches:
        assert len(batch) in sizes
        assert len({padded_width(len(line.split())) for line in batch}) == 1


def test_the_longest_waiting_is_first_with_others_of_its_shape():
    predictor = Reverser()
    lines = ["a", "a " * 20, "b", "b " * 20]

    async def requests():
        one = batcher(predictor, batch=4)
        await asyncio.gather(*(ask(one, [line]) for line in lines))

    asyncio.run(requests())
    assert [set(batch) for batch in predictor.batches] == [{"a", "b"}, {lines[1], lines[3]}]


class Gated(Reverser):
    """Answers texts of more than eight words when the gate is open."""

    gate = threading.Event()

    def answers(self, lines):
        if len(lines[0].split()) > 8:
            self.gate.wait(20)
        return super().answers(lines)


def test_a_longer_input_does_not_delay_compiled_ones():
    async def requests():
        one = batcher(Gated())
        one.warm_up(Line("a " * 8))
        longer = asyncio.create_task(ask(one, ["a " * 9]))
        await ask(one, ["a", "b"])
        assert one.compiling and not longer.done()
        Gated.gate.set()
        await longer
        await asyncio.sleep(0.01)
        assert not one.compiling and one._is_compiled((12,))

    asyncio.run(requests())


def test_an_input_that_fails_fails_alone(caplog):
    async def requests():
        one = batcher(Reverser())
        several = [ask(one, [line]) for line in ("a", "a crash", "b")]
        return await asyncio.gather(*several, return_exceptions=True)

    with caplog.at_level(logging.ERROR):
        first, failed, last = asyncio.run(requests())
    assert [answer[0].to_dict()["reversed"] for answer in (first, last)] == ["a", "b"]
    assert isinstance(failed, HTTPException) and failed.status_code == 500
    (record,) = caplog.records
    assert "RuntimeError" in record.getMessage() and "a crash" not in caplog.text


def test_more_than_may_wait_is_refused_and_given_up_inputs_make_room():
    predictor = Reverser(None, Reverser.Settings(delay=0.05))

    async def requests():
        one = batcher(predictor, queue=3, inputs=3, batch=1)
        begun = asyncio.create_task(ask(one, ["a"]))
        await asyncio.sleep(0.01)
        waiting = asyncio.create_task(ask(one, ["b", "b", "b"]))
        await asyncio.sleep(0.01)
        assert one.waiting == 3
        with pytest.raises(HTTPException, match="3 inputs wait"):
            await ask(one, ["c"])
        waiting.cancel()
        await asyncio.sleep(0)
        assert one.waiting == 0
        await asyncio.gather(begun, ask(one, ["d"]))

    asyncio.run(requests())
    assert predictor.batches == [["a"], ["d"]]  # nothing of those that were given up
