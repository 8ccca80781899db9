"""What a person must read to trust a number stays short, and in rooms that can change one.

These are the modules that the training loop and a paper's task, config, preparation and model
import, inside functions too, but not those that are named as text ("package.module:Class").
"""

import functools

import grimp
import pytest

from tests.test_layers import MODULES, PACKAGES

LONGEST = {"csan_jax": 13_797, "qanet_jax": 13_798, "attconv_jax": 13_905}  # lines, comments too
MODELS = {
    "csan_jax": "csan_jax.attention.area",
    "qanet_jax": "qanet_jax.models.qanet",
    "attconv_jax": "attconv_jax.models.attentive_convolution",
}
ROOMS = {
    *(f"common_jax.{name}" for name in ("attention", "data", "io", "metrics", "text", "training")),
    *("attconv_jax.data", "attconv_jax.models", "csan_jax.attention", "csan_jax.data"),
    *("qanet_jax.data", "qanet_jax.models"),
}
ANSWERS = ("service", "predictor", "engine", "compare", "deploy", "trackers")


@functools.cache
def graph():
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)


def path_of_a_number(paper):
    """The modules that the loop and a paper import, with their packages."""
    names = ("task", "config", "data.prepare")
    starts = ["common_jax.training.loop", MODELS[paper], *(f"{paper}.{name}" for name in names)]
    modules = {*starts}.union(*map(graph().find_upstream_modules, starts))
    parts = [module.split(".") for module in modules]
    return modules | {".".join(part[:n]) for part in parts for n in range(1, len(part))}


@pytest.mark.parametrize("paper", LONGEST)
def test_the_path_of_a_number_is_short(paper):
    lines = (MODULES[name].read_text("utf-8").count("\n") for name in path_of_a_number(paper))
    assert sum(lines) <= LONGEST[paper]


@pytest.mark.parametrize("paper", LONGEST)
def test_only_rooms_that_can_change_a_number_are_on_its_path(paper):
    modules = path_of_a_number(paper)
    rooms = {".".join(module.split(".")[:2]) for module in modules if module.count(".") > 1}
    assert rooms <= ROOMS
    assert not [module for module in modules if module.split(".")[1:2] in [[n] for n in ANSWERS]]
    assert not [module for module in modules if module.split(".")[0] in ("launch", "configs")]
