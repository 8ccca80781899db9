"""The demos that are slow to load, and all of them in a server."""

import json
import os
import subprocess
import urllib.request

import pytest

from common_jax.deploy import load
from launch.cli import module_command
from tests.launch import commands
from tests.launch.test_demo import CHECKSUMS, INPUTS, answers_in_int8


def test_the_demo_translates():
    translations = load("demo:csan").predict([INPUTS["csan"]])
    assert [*map(str, translations)] == ["In Wien ist es schon neun Uhr."]


@pytest.mark.parametrize("family", ["csan", "qanet"])
def test_trained_models_answer_in_int8_as_in_float32(family, tmp_path):
    expected, actual = answers_in_int8(family, tmp_path)
    if family == "csan":
        assert actual == expected
    else:
        assert actual.to_dict() == commands.close(expected.to_dict(), 0.05)


def test_the_demos_are_served():
    command = [*module_command("serve"), "--demo", "--port", "0"]
    environment = os.environ | {"XLA_FLAGS": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        address = server.stdout.readline().partition(" at ")[2].strip()
        with urllib.request.urlopen(f"{address}v1/models", timeout=60) as response:
            names = [model["name"] for model in json.load(response)["models"]]
        server.terminate()
        assert server.wait(20) == 0
    assert sorted(names) == sorted(CHECKSUMS)
