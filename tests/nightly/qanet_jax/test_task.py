"""Hard texts, a limiting case, and commands in a shell."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from common_jax.deploy.service import service_of
from launch.train.__main__ import _next_commands
from tests.families.tasks import begun, span_extraction


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return span_extraction(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def params(task):
    return jax.tree.map(jnp.asarray, begun(task).params)


def test_commands_to_type_are_the_shells_own(task):
    """The shells' echo interprets backslashes in different ways; printf '%s' does not."""
    run = SimpleNamespace(path=Path("runs/x"), task=task)
    command = _next_commands(run)[0].partition(" | ")[0]
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
