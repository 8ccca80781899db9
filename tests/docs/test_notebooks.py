"""The form of the notebooks, which .ci/wheel executes."""

import ast
import json

import pytest

from tests.docs.manual import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param, json.loads(request.param.read_text("utf-8"))["cells"]


def tagged(cells, tag):
    (cell,) = (cell for cell in cells if tag in cell["metadata"].get("tags", ()))
    return "".join(cell["source"])


def test_it_has_no_outputs_and_its_code_can_be_parsed(notebook):
    _, cells = notebook
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None
        ast.parse("".join(cell["source"]))


def test_the_step_of_the_wheel_sets_its_parameters(notebook):
    path, cells = notebook
    wheel = (ROOT / ".ci" / "wheel").read_text()
    step = wheel.partition(f'{path.name}" ')[2].partition("\n  step")[0]
    for assigned in ast.parse(tagged(cells, "parameters")).body:
        assert ast.unparse(assigned.targets[0]).strip("()") in step
