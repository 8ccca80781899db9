"""Every command and snippet of README and the manual runs on tiny data."""

import subprocess
import sys

import pytest

from tests.docs.manual import PAGES, ROOT, blocks
from tests.launch.tiny_runs import TINY
from tests.nightly.docs.workplace import workplace


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which blocks run, with the runs of the quickstarts, and its environment."""
    folder = tmp_path_factory.mktemp("manual")
    environment = workplace(folder)
    train = "python -m launch.train --config configs"
    for family in TINY:
        run_shell(f"{train}/{family}/quickstart.py", folder, environment)
    seed = "--config.train.seed=1 --workdir runs/attconv/seed1"
    run_shell(f"{train}/attconv/quickstart.py {seed}", folder, environment)
    return folder, environment


def run_shell(text, folder, environment, interpreter=("bash", "-euo", "pipefail")):
    done = subprocess.run(
        [*interpreter, "-c", text], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(blocks(p))], ids=lambda page: str(page.relative_to(ROOT))
)
def test_each_block_runs(page, folder):
    for block in blocks(page):
        if block.needs:
            continue
        if block.language == "sh":
            run_shell(block.text, *folder)
        elif block.language == "python":
            run_shell(block.text, *folder, (sys.executable,))
