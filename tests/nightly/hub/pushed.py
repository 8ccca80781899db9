"""A hub of this machine, and an export that was pushed to it."""

import huggingface_hub.constants as constants
import pytest

from common_jax.deploy import foreign
from common_jax.training.loop import train
from common_jax.training.run_writer import RunWriter
from launch.export import __main__ as export
from tests.nightly.hub import emulator
from tests.toy import Toy, four_steps

NAME = "hf://ada/adder"
UNREACHABLE = "http://127.0.0.1:9"
LINES = ["123", "4567"]


def at(patch, url):
    """Sets HF_ENDPOINT, which huggingface_hub reads when it is imported."""
    patch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub, with an empty cache on this machine."""
    with emulator.running() as hub, pytest.MonkeyPatch.context() as patch:
        at(patch, hub.url)
        patch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        patch.setenv("HF_TOKEN", emulator.TOKEN)
        trusted = (*foreign.PACKAGES, "tests")  # of the toy
        patch.setattr(foreign, "PACKAGES", trusted)
        yield hub


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pushed")
    train(Toy(four_steps(folder)), RunWriter(folder / "run"))
    return folder


@pytest.fixture(scope="module")
def pushed(hub, folder):
    out = folder / "export"
    export.main(["--workdir", str(folder / "run"), "--out", str(out), "--push", NAME])
    return f"{NAME}@{hub.branches['ada/adder']['main']}"
