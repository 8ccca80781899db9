"""Hard texts, a limiting case, and commands in a shell."""

import json
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qanet_jax.data.text import input_line
from tests.families.tasks import begun, span_extraction


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return span_extraction(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def params(task):
    return jax.tree.map(jnp.asarray, begun(task).params)


def test_without_a_similarity_attention_is_uniform(task, params):
    """The limiting case of w = 0, in each window of the context."""
    similarity = params["context_query_attention"]["similarity"]
    layer = {"similarity": jax.tree.map(jnp.zeros_like, similarity)}
    explaining = service_of(task).predictor(
        {**params, "context_query_attention": layer}, explain=True
    )
    line = input_line("One two three four . " * 20, "Where is it?")
    ((attended,),) = next(explaining.predict([line])).to_dict()["layers"]
    np.testing.assert_allclose(attended["weights"], np.full((100, 4), 0.25))


def test_commands_to_type_are_the_shells_own(task):
    """The shells' echo interprets backslashes in different ways; printf '%s' does not."""
    command = task.next_commands("runs/x")[0].partition(" | ")[0]
    output = subprocess.check_output(["sh", "-c", command])
    squad = task.data.texts("test")
    assert json.loads(output) == {
        "context": squad.contexts[0],
        "question": squad.questions[0].text,
    }
    assert command.startswith("printf '%s\\n' ")


@pytest.mark.parametrize(
    "context",
    [
        "one",
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd, it is right to left",
        "😀 😀😀 flags 🇩🇪 and e\u0301 combined",
        "x" * 10_000 + " tail",
        "word " * 3000,
    ],
)
def test_any_text_is_answered_with_a_piece_of_it(task, params, context):
    reader = service_of(task).predictor(params)
    (answer, *_) = reader.answer(context, "what is \u2019it\u2019?")
    assert answer.answer and context[answer.start : answer.end] == answer.answer
