"""Batches in parallel; answers as objects, and as the lines that the commands print."""

import concurrent.futures
import dataclasses
import json
import os
import subprocess
import sys
import threading
from unittest import mock

import jax
import jax.numpy as jnp
import jsonschema
import numpy as np
import pytest

from attconv_jax.predictor import AttentionMap, Label
from common_jax.deploy.answer import Answer
from common_jax.deploy.bounded_program import BoundedProgram, InputTooLargeError
from common_jax.deploy.predictor import outputs_of
from common_jax.deploy.schema import json_schema
from common_jax.errors import UserError
from csan_jax.predictor import Hypothesis, Translation
from qanet_jax.reading import PredictedSpan, SpanAnswer


def test_outputs_are_in_the_order_of_the_batches_and_computed_at_once():
    both = threading.Barrier(2, timeout=30)  # passed only by two computations at a time

    def compute(batch):
        both.wait()
        return {"double": batch["x"] * 2}

    batches = [{"x": np.array([number])} for number in range(6)]
    assert [int(out["double"][0]) for out in outputs_of(compute, batches, 2)] == [*range(0, 12, 2)]


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_error_of_a_batch_is_raised_in_its_turn(at_once):
    def compute(batch):
        if batch["x"] == 1:
            raise InputTooLargeError("too long")
        return batch

    outputs = outputs_of(compute, [{"x": number} for number in range(4)], at_once)
    assert next(outputs) == {"x": 0}
    with pytest.raises(InputTooLargeError):
        next(outputs)


@pytest.mark.parametrize("outputs", [{}, {"y": 1.0}, {"y": np.ones(2)}, {"y": np.ones((1, 3))}])
def test_a_program_without_the_outputs_is_refused(outputs):
    batches = [{"x": np.ones((2, 5))}]
    with pytest.raises(UserError, match="output 'y'"):
        next(outputs_of(lambda _: outputs, batches, 1, ["y"]))
    assert next(outputs_of(lambda _: {"y": np.ones((2, 3))}, batches, 1, ["y"]))["y"].sum() == 6


def test_a_shape_is_compiled_once_for_all_threads():
    traces = []

    @jax.jit
    def square(_, arrays):
        traces.append(arrays["x"].shape)
        return {"y": jnp.square(arrays["x"])}

    program = BoundedProgram(square.lower, 1.0)
    batches = [{"x": np.full(3 + number % 2, number)} for number in range(8)]
    results = [*outputs_of(lambda batch: program({}, batch), batches, 4)]
    assert [int(result["y"][0]) for result in results] == [n**2 for n in range(8)]
    assert sorted(traces) == [(3,), (4,)]


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("compiled", [(1, 8), (2, 8), (4, 12)])
def test_a_larger_program_computes_until_the_own_is_compiled(rows, compiled):
    traces = []

    @jax.jit
    def total(_, arrays):
        traces.append(arrays["x"].shape)
        return {"total": arrays["x"].sum(1) + arrays["y"][:, 0], "layer": [(jnp.int32(3),)]}

    def results(shape):
        x = np.arange(np.prod(shape)).reshape(shape)
        return x.sum(1) + 7, program({}, {"x": x, "y": np.full((shape[0], 2), 7)})

    compiler = mock.create_autospec(concurrent.futures.Executor, instance=True)
    program = BoundedProgram(total.lower, 1.0, None, compiler)
    results(compiled)
    for expected, actual in (results((rows, 6)), results((rows, 6))):
        assert np.array_equal(actual["total"][:rows], expected) and actual["layer"] == [(3,)]
    assert traces == [compiled] and compiler.submit.call_count == 1
    function, *arguments = compiler.submit.call_args.args
    function(*arguments)
    expected, actual = results((rows, 6))
    assert np.array_equal(actual["total"], expected) and traces == [compiled, (rows, 6)]
    results((rows, 13))  # longer than all
    assert traces[2:] == [(rows, 13)] and compiler.submit.call_count == 1


MAPS = [[AttentionMap(None, 0, np.array([[0.25, 0.75]])), AttentionMap(1, 0, np.ones((1, 2)))]]
NEXT = [PredictedSpan("b", 2, 3, 0.25)]


@pytest.mark.parametrize(
    "answer,line",
    [
        (Translation('Grüße "an" alle'), 'Grüße "an" alle'),
        (
            Translation("ü", hypotheses=[Hypothesis("ü", -0.5)]),
            '{"translation": "ü", "hypotheses": [{"translation": "ü", "score": -0.5}]}',
        ),
        (
            SpanAnswer(
                id=7, answer="a", start=0, end=1, probability=0.5, next=NEXT, unknown_words=2
            ),
            '{"id": 7, "answer": "a", "start": 0, "end": 1, "probability": 0.5, "next": '
            '[{"answer": "b", "start": 2, "end": 3, "probability": 0.25}], "unknown_words": 2}',
        ),
        (
            Label("no", {"no": 1.0}, 40.75, 3, [["a", "b"], ["c"]], MAPS),
            '{"label": "no", "probabilities": {"no": 1.0}, "score": 40.75, "unknown_words": 3, '
            '"words": [["a", "b"], ["c"]], "layers": '
            '[[{"text": null, "context": 0, "weights": [[0.25, 0.75]]}, '
            '{"text": 1, "context": 0, "weights": [[1.0, 1.0]]}]]}',
        ),
    ],
)
def test_the_line_has_the_fields_that_an_answer_has(answer, line):
    assert answer.line == str(answer) == line
    assert json.loads(answer.json) == answer.to_dict()
    if line.startswith("{"):
        assert answer.json == line
    jsonschema.validate(json.loads(answer.json), json_schema(type(answer)))


@pytest.mark.parametrize(
    "change",
    [{"start": None}, {"start": 0.5}, {"next": [{"answer": "b"}]}, {"id": [7]}, {"words": [[1]]}],
)
def test_an_answer_of_other_types_does_not_fit_the_schema(change):
    answer = SpanAnswer(
        answer="a", start=0, end=1, probability=0.5, next=[], unknown_words=0
    ).to_dict()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**answer, **change}, json_schema(SpanAnswer))


@dataclasses.dataclass(frozen=True, eq=False)
class Sum(Answer):
    translation: str


def test_answers_are_equal_by_class_and_fields():
    """The plain field alone is the line only of its class."""
    assert Label("a", {"a": 1.0}, 9.5, 0, None, MAPS) == Label("a", {"a": 1.0}, 9.5, 0, None, MAPS)
    assert len({Translation("a"), Translation("a"), Translation("b")}) == 2
    assert Translation("a") != Sum("a") and Translation("a") != "a"
    assert Translation("a").json == Sum("a").line == '{"translation": "a"}'


MANY_SHAPES = """
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from common_jax.deploy import memory_maps
from common_jax.errors import UserError
from common_jax.deploy.bounded_program import BoundedProgram


@jax.jit
def many_kernels(_, arrays):
    x = arrays["x"]
    for number in range(20):
        x = jnp.tanh(x @ x.T @ x) / jnp.sum(x, 0, keepdims=True) + jax.nn.softmax(x * number)
    return {"y": x}


maps = lambda: len(memory_maps._MAPS.read_text().splitlines())
program = BoundedProgram(many_kernels.lower, 1.0)
run = lambda size: program({}, {"x": np.eye(size)})["y"].shape
counts = []
for size in range(3, 15):
    assert run(size) == (size, size)
    counts.append(maps())
    if len(counts) == 2:
        first, second = counts
        memory_maps._LIMIT = Path(sys.argv[1])
        memory_maps._LIMIT.write_text(str(2 * (second + 2 * (second - first))))
print(max(counts) - first, second - first)
"""


FEW_KERNELS = ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the maps of a process")
def test_programs_are_released_before_the_memory_maps_are_used_up(tmp_path):
    env = {k: v for k, v in os.environ.items() if k not in FEW_KERNELS}
    command = [sys.executable, "-c", MANY_SHAPES, tmp_path / "limit"]
    printed = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    most, each = map(int, printed.split())
    assert each > 50 and most < 5 * each  # twelve programs would have eleven times as many
