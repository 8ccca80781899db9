"""Imports go down only, without cycles: contracts in pyproject.toml; heavy modules are lazy."""

import ast
import logging.config
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
PAPERS = {name for name in PACKAGES if name.endswith("_jax")} - {"common_jax"}
FILES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
}
SERVER = {"starlette", "uvicorn"}  # of the extra `serve`
SERVERS = ("launch.serve.",)  # the packages that import it
TRACKERS = {"tensorboardX", "wandb", "trackio", "mlflow"}
HEAVY = {"pyarrow", "tensorflow_datasets", "nltk", "ray", "sacremoses", *TRACKERS, *SERVER}


def imports(path: Path, in_functions: bool = True) -> set[str]:
    """The full names that a file imports."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not in_functions:
            node.body = []
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def tops(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def test_the_contracts_of_layers_hold(monkeypatch):
    monkeypatch.chdir(ROOT)
    # it disables all loggers that exist, of which later tests read the records
    monkeypatch.setattr(logging.config, "dictConfig", lambda config: None)
    assert lint_imports(no_cache=True) == 0  # it prints what is wrong


def test_the_contracts_have_all_packages_and_each_folder_of_modules_is_one():
    with (ROOT / "pyproject.toml").open("rb") as file:
        linter = tomllib.load(file)["tool"]["importlinter"]
    assert {*linter["root_packages"]} == PACKAGES
    assert {*linter["contracts"][0]["layers"][3].split(" | ")} == PAPERS
    assert [path for path in FILES if not (path.parent / "__init__.py").exists()] == []


def test_heavy_modules_are_imported_in_functions_and_the_servers_extra_by_servers():
    heavy = {name: tops(imports(path, False)) & HEAVY for name, path in MODULES.items()}
    users = {name for name, modules in heavy.items() if modules}
    users |= {name for name, path in MODULES.items() if tops(imports(path)) & SERVER}
    assert users and all(name.startswith(SERVERS) for name in users)
    assert set().union(*heavy.values()) == SERVER


def test_nothing_above_io_asks_whether_a_folder_is_in_a_bucket():
    """`common_jax.io.folder.Folder` answers by doing."""
    asks = re.compile(r"\b(in_bucket|BucketPath|BucketFolder)\b|gs://(?!BUCKET)")  # that is of help
    asking = {name for name, path in MODULES.items() if asks.search(path.read_text("utf-8"))}
    assert {name for name in asking if not name.startswith("common_jax.io.")} == set()


BUILDING = re.compile(
    r"_jax\.data\.(prepare|sources|synthetic.*|triviaqa|selection|moses|squad_anss)$"
    r"|^common_jax\.data\.(sources|tfds|holdout|sampling|generated)$"
)
LOADS = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*sys.modules)
"""


def test_configs_and_readers_of_prepared_corpora_load_nothing_that_builds_one():
    readers = {f"{paper}.data.dataset" for paper in PAPERS} & MODULES.keys()
    assert len(readers) >= 3
    readers |= {name for name in MODULES if name.startswith("configs.")}
    command = [sys.executable, "-c", LOADS, *readers]
    loaded = {*subprocess.check_output(command, cwd=ROOT, text=True).split()}
    building = {name for name in MODULES if BUILDING.search(name)}
    assert readers <= loaded and len(building) > 9 and not loaded & building
