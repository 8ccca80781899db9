"""Imports go down only, without cycles: contracts in pyproject.toml; heavy modules are lazy."""

import ast
import functools
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
PAPERS = {name for name in PACKAGES if name.endswith("_jax")} - {"common_jax"}
FILES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
SERVER = {"starlette", "uvicorn"}  # of the extra `serve`
SERVERS = ("launch.serve.",)  # the packages that import it
TRACKERS = {"tensorboardX", "wandb", "trackio", "mlflow"}
HEAVY = {"pyarrow", "tensorflow_datasets", "nltk", "ray", "sacremoses", *TRACKERS, *SERVER}


def imported(tree: ast.AST, package: str, skipped: str = "") -> Iterator[str]:
    """Full names of a module's imports.

    Args:
      tree: the module's syntax.
      package: the module's package, from which relative imports start.
      skipped: "functions" for those in functions, "functions, TYPE_CHECKING" for all that are not
        imported when the module is.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(module, package)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif _kind(node) not in skipped.split(", "):
            yield from imported(node, package, skipped)


def _kind(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return "functions"
    return ast.unparse(node.test) if isinstance(node, ast.If) else "other"


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """The syntax of each file of all packages."""
    return {path: ast.parse(path.read_text("utf-8")) for path in FILES}


def imports(skipped: str = "") -> dict[str, set[str]]:
    """The imports of each module of all packages; see `imported`."""
    found = {}
    for path, tree in trees().items():
        relative = path.relative_to(ROOT)
        name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
        found[name] = {*imported(tree, ".".join(relative.parent.parts), skipped)}
    return found


def tops(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def test_the_contracts_of_layers_hold(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == 0  # it prints what is wrong


def test_the_contracts_have_all_packages_and_each_folder_of_modules_is_one():
    with (ROOT / "pyproject.toml").open("rb") as file:
        linter = tomllib.load(file)["tool"]["importlinter"]
    assert {*linter["root_packages"]} == PACKAGES
    assert {*linter["contracts"][0]["layers"][3].split(" | ")} == PAPERS
    assert [path for path in FILES if not (path.parent / "__init__.py").exists()] == []


def test_heavy_modules_are_imported_in_functions_and_the_servers_extra_by_servers():
    heavy = {name: tops(names) & HEAVY for name, names in imports("functions").items()}
    heavy = {name: modules for name, modules in heavy.items() if modules}
    assert all(name.startswith(SERVERS) for name in heavy)
    assert set().union(*heavy.values()) == SERVER
    users = [name for name, names in imports().items() if tops(names) & SERVER]
    assert users and all(name.startswith(SERVERS) for name in users)


def test_nothing_above_io_asks_whether_a_folder_is_in_a_bucket():
    """`common_jax.io.folder.Folder` answers by doing."""
    asks = {"in_bucket", "BucketPath", "BucketFolder"}
    for path, tree in trees().items():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("common_jax/io/"):
            continue
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not names & asks, name
        text = path.read_text("utf-8").replace("gs://BUCKET", "")  # of help
        assert "gs://" not in text, name


def test_configs_and_readers_of_prepared_corpora_load_nothing_that_builds_one():
    uses = imports("functions, TYPE_CHECKING")

    def loaded(module: str) -> set[str]:
        reached = set[str]()
        todo = [module]
        while todo:
            names = uses[todo.pop()]
            new = (names | {name.rpartition(".")[0] for name in names}) & uses.keys() - reached
            reached |= new
            todo += new
        return reached

    building = re.compile(
        r"_jax\.data\.(prepare|sources|synthetic.*|triviaqa|selection|moses|squad_anss)$"
        r"|^common_jax\.data\.(sources|tfds|holdout|sampling|generated)$"
    )
    readers = {f"{paper}.data.dataset" for paper in PAPERS} & uses.keys()
    assert len(readers) >= 3
    for module in readers | {name for name in uses if name.startswith("configs.")}:
        assert [name for name in loaded(module) if building.search(name)] == []
    assert "csan_jax.data.sources" in loaded("csan_jax.data.prepare")
