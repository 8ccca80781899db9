"""Imports go down only, without cycles: contracts in pyproject.toml; heavy modules are lazy; what a
number depends on is short; only the reader and the writer of run folders name a run's files."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest
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


# What a person must read to trust a number stays short, and in rooms that can change one: the
# modules that the training loop and a paper's task, config, preparation and model import, inside
# functions too, but not those that are named as text ("package.module:Class").
LONGEST = {"csan_jax": 13_690, "qanet_jax": 13_730, "attconv_jax": 13_750}  # lines, comments too

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


# An export shares the names of two files of a run; by a third its format recognises a run.
NAMED_BY = {
    "common_jax/training/run_folder.py": None,  # all
    "common_jax/training/run_writer.py": None,
    "common_jax/training/scored_run.py": None,
    "common_jax/file_names.py": {"config.json", "vocabulary"},
    "common_jax/deploy/format.py": {"checkpoints"},
}

# A file counts in any text, messages included; a folder, whose name is a word, only in a path
# or as a constant.
FILE = re.compile(
    r"(?<![\w.-])(?:config\.json|metrics\.jsonl|result\.json|end\.json)\b"
    r"|\.(?:predictions|references|sources)\b|\bpredictions\.(?:txt|json|tsv)\b|\.examples\.tsv\b"
)

FOLDERS = {"checkpoints", "damaged", "eval", "lock", "tensorboard", "trackers", "vocabulary"}

PATHS = {"Path", "glob", "iglob", "rglob", "join", "joinpath", "with_name", "open"}


def _texts(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """The texts of a module without docstrings, and whether each is a part of a path."""
    in_paths, docstrings = set[ast.AST](), set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            docstrings.add(node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            in_paths |= {*ast.walk(node.left), *ast.walk(node.right)}
        elif isinstance(node, ast.Assign) and node in tree.body:  # a constant for paths
            in_paths |= {node.value, *getattr(node.value, "elts", ())}
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            in_paths |= {*node.args} if name in PATHS else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in docstrings:
            text = str(node.value)
            yield text, node in in_paths or ("/" in text and not re.search(r"\s", text))


def named(source: str) -> set[str]:
    """The names of a run's files in a module's text."""
    names = set[str]()
    for text, in_path in _texts(ast.parse(source)):
        names |= {*FILE.findall(text)}
        names |= FOLDERS & {*text.split("/")} if in_path else set()
    return names


def test_only_the_run_folder_names_the_files_of_a_run():
    sources = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in FILES}
    assert NAMED_BY.keys() <= sources.keys()
    wrong = {}
    for file, source in sources.items():
        allowed = NAMED_BY.get(file, set())
        if allowed is not None and (names := named(source) - allowed):
            wrong[file] = names
    assert wrong == {}
    reader = named(sources["common_jax/training/run_folder.py"])
    assert {"metrics.jsonl", "result.json", ".examples.tsv", "checkpoints", "eval"} <= reader
    assert NAMED_BY["common_jax/deploy/format.py"] == named(sources["common_jax/deploy/format.py"])
