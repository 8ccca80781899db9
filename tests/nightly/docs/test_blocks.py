"""Every command and snippet of README and the manual runs on tiny data; the form of notebooks."""

import ast
import json
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


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param, json.loads(request.param.read_text("utf-8"))["cells"]


def test_it_has_no_outputs_and_its_code_can_be_parsed(notebook):
    _, cells = notebook
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None
        ast.parse("".join(cell["source"]))


def test_the_step_of_the_wheel_sets_its_parameters(notebook):
    path, cells = notebook
    wheel = (ROOT / ".ci" / "wheel").read_text()
    step = wheel.partition(f'{path.name}" ')[2].partition("\n  step")[0]
    (cell,) = (cell for cell in cells if "parameters" in cell["metadata"].get("tags", ()))
    for assigned in ast.parse("".join(cell["source"])).body:
        assert ast.unparse(assigned.targets[0]).strip("()") in step
