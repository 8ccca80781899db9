"""The floors of the house: imports go down only, papers are apart, heavy modules are lazy."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
PAPERS = {name for name in PACKAGES if name.endswith("_jax")} - {"common_jax"}
FLOORS = {"common_jax": 0, **dict.fromkeys(PAPERS, 1), "configs": 2, "launch": 3}
HEAVY = {"tensorflow_datasets", "tensorboardX", "nltk", "ray", "sacremoses", "grain"}
FILES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
LIBRARY = [path for path in FILES if path.relative_to(ROOT).parts[0] in {"common_jax", *PAPERS}]


def imported(tree: ast.AST, package: str, inside_functions: bool = True) -> Iterator[str]:
    """Full names of what a module imports.

    Args:
      tree: the module's syntax.
      package: the package that it is in, from which relative imports start.
      inside_functions: whether imports in functions count too.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(module, package)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported(node, package, inside_functions)


def faults(source: str, package: str) -> list[str]:
    """What a module of `package` imports that its floor forbids."""
    home = package.split(".")[0]
    forbidden = []
    for name in imported(ast.parse(source), package):
        top = name.split(".")[0]
        sibling = top != home and {top, home} <= PAPERS
        if top == "tests" or sibling or FLOORS.get(top, 0) > FLOORS[home]:
            forbidden.append(name)
    return forbidden


def heavy_at_import(source: str, package: str) -> set[str]:
    """The heavy modules that importing a module of `package` would load."""
    names = imported(ast.parse(source), package, inside_functions=False)
    return {name.split(".")[0] for name in names} & HEAVY


def _package(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).parent.parts)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_package_has_its_floor():
    assert set(FLOORS) == PACKAGES
    assert len(FILES) > 10


def test_every_folder_of_modules_is_a_package():
    # The build leaves out those that are not.
    assert [path for path in FILES if not (path.parent / "__init__.py").exists()] == []


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_imports_go_down_only(path):
    assert faults(path.read_text(encoding="utf-8"), _package(path)) == []


@pytest.mark.parametrize("path", LIBRARY, ids=_name)
def test_heavy_modules_wait_until_they_are_needed(path):
    assert heavy_at_import(path.read_text(encoding="utf-8"), _package(path)) == set()


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / "common_jax" / "text").rglob("*.py")), ROOT / "common_jax" / "faults.py"],
    ids=_name,
)
def test_text_is_read_and_written_without_a_model(path):
    # An exported model needs the text alone.
    names = set(imported(ast.parse(path.read_text(encoding="utf-8")), _package(path)))
    tops = {name.split(".")[0] for name in names}
    ours = {".".join(name.split(".")[:2]) for name in names if name.startswith("common_jax.")}
    assert not tops & {"jax", "flax", "optax", "orbax"}
    assert ours <= {"common_jax.text", "common_jax.errors", "common_jax.faults"}


@pytest.mark.parametrize(
    ("source", "package", "found"),
    [
        ("import csan_jax.model", "common_jax", ["csan_jax.model"]),
        ("def f():\n  from launch import cli", "csan_jax", ["launch.cli"]),
        ("from ..training import loop", "common_jax.text", []),
        ("from tests import oracle", "launch", ["tests.oracle"]),
        ("import configs.csan.quickstart", "csan_jax", ["configs.csan.quickstart"]),
        ("from common_jax import masks\nimport csan_jax", "configs.csan", []),
    ],
)
def test_the_walk_sees_what_it_should(source, package, found):
    assert faults(source, package) == found


def test_the_walk_sees_heavy_modules():
    assert heavy_at_import("try:\n  import ray\nexcept ImportError:\n  pass", "common_jax") == {
        "ray"
    }
    assert heavy_at_import("class A:\n  from nltk import data", "common_jax") == {"nltk"}
    assert heavy_at_import("def f():\n  import grain", "common_jax") == set()
