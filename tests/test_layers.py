"""The layers of the packages: imports go down only, without cycles; heavy modules are lazy."""

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
PAPERS = {name for name in PACKAGES if name.endswith("_jax")} - {"common_jax"}
PACKAGE_LAYERS = {
    "common_jax": 0,
    **dict.fromkeys(PAPERS, 1),
    "configs": 2,
    "launch": 3,
    "benchmarks": 4,
}
# Inside common_jax, lowest first. A module imports from lower layers and from its own package.
LAYERS = (
    {"pytrees", "renames", "document", "memory_maps"},
    {"errors", "processes", "versions", "scopes", "sharding", "masks", "dropout", "metrics"},
    {"fields", "numerics"},
    {"bad_examples", "columns", "predictor_answer", "predictor_schema"},
    {"io"},
    {"config", "paper_config", "text"},
    {"attention", "predictor", "data", "systems"},
    {"layers", "inputs"},
    {"convolution", "stack", "recurrent"},
    {"export"},
    {"training"},
    {"deploy"},
    {"compare"},
)
# Inside launch, lowest first; above them the commands, which do not import each other.
LAUNCH_LAYERS = (
    {"rendezvous"},
    {"text_table", "distributed", "config_fields", "compiled", "failures", "interrupts"},
    {"cli"},
    {"measure", "pages", "trials", "completion", "web"},
    {"api"},
)
SERVER = {"starlette", "uvicorn"}  # of the extra `serve`
SERVERS = ("launch.serve.", "launch.watch.", "launch.web.")  # the packages that import it
TRACKERS = {"tensorboardX", "wandb", "trackio", "mlflow"}
HEAVY = {"pyarrow", "tensorflow_datasets", "nltk", "ray", "sacremoses", *TRACKERS, *SERVER}
WITHOUT_JAX = (
    "errors",
    "versions",
    "metrics",
    "fields",
    "renames",
    "bad_examples",
    "predictor_answer",
    "predictor_schema",
    "io",
    "config",
    "text",
    "inputs",
)
FILES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
LIBRARY = [path for path in FILES if path.relative_to(ROOT).parts[0] in {"common_jax", *PAPERS}]


def imported(tree: ast.AST, package: str, inside_functions: bool = True) -> Iterator[str]:
    """Full names of a module's imports, also of those under TYPE_CHECKING.

    Args:
      tree: the module's syntax.
      package: the module's package, from which relative imports start.
      inside_functions: whether imports in functions count.
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


def layer_of(name: str) -> int:
    """The layer of a module of common_jax or launch by its full name; -1 for the package itself."""
    package, *parts = name.split(".")
    if not parts or not parts[0]:
        return -1
    layers = LAUNCH_LAYERS if package == "launch" else LAYERS
    return next((at for at, units in enumerate(layers) if parts[0] in units), len(layers))


def forbidden(source: str, package: str, module: str = "") -> list[str]:
    """A module's imports that its layer forbids.

    Args:
      source: the module's text.
      package: its package.
      module: its full name, for the layers inside common_jax.
    """
    home, unit = package.split(".")[0], ".".join((module or package).split(".")[:2])
    wrong = []
    for name in imported(ast.parse(source), package):
        top = name.split(".")[0]
        sibling = top != home and {top, home} <= PAPERS
        upwards = PACKAGE_LAYERS.get(top, 0) > PACKAGE_LAYERS[home]
        if top == home in ("common_jax", "launch") and ".".join(name.split(".")[:2]) != unit:
            upwards = layer_of(name) >= layer_of(unit)
        if top == "tests" or sibling or upwards:
            wrong.append(name)
    return wrong


def cycles(sources: Mapping[str, tuple[str, str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others.

    Args:
      sources: the package and the text of each module, by its full name.
    """
    uses: dict[str, set[str]] = {}
    for module, (package, source) in sources.items():
        names = set(imported(ast.parse(source), package))
        names |= {name.rpartition(".")[0] for name in names}
        uses[module] = (names & sources.keys()) - {module}
    reached = {module: _reach(module, uses) for module in uses}
    groups = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in uses
        if module in reached[module]
    }
    return sorted(sorted(group) for group in groups)


def _reach(start: str, uses: Mapping[str, set[str]]) -> set[str]:
    reachable, todo = set[str](), [start]
    while todo:
        new = uses[todo.pop()] - reachable
        reachable |= new
        todo += new
    return reachable


def loaded_with(module: str, sources: Mapping[str, tuple[str, str]]) -> set[str]:
    """The modules of `sources` that importing `module` loads."""
    uses: dict[str, set[str]] = {}
    for name, (package, source) in sources.items():
        names = set(imported(ast.parse(source), package, inside_functions=False))
        names |= {name.rpartition(".")[0] for name in names}
        uses[name] = names & sources.keys()
    return _reach(module, uses)


def heavy_at_import(source: str, package: str) -> set[str]:
    """The heavy modules that importing a module of `package` loads."""
    names = imported(ast.parse(source), package, inside_functions=False)
    return {name.split(".")[0] for name in names} & HEAVY


def _package(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).parent.parts)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _sources() -> dict[str, tuple[str, str]]:
    return {_module(path): (_package(path), path.read_text(encoding="utf-8")) for path in FILES}


def test_every_package_has_its_layer():
    assert set(PACKAGE_LAYERS) == PACKAGES
    own = {_module(p).split(".")[1] for p in LIBRARY if _module(p).startswith("common_jax.")}
    assert own == set().union(*LAYERS)
    assert sum(map(len, LAYERS)) == len(own)


def test_every_folder_of_modules_is_a_package():
    assert [path for path in FILES if not (path.parent / "__init__.py").exists()] == []


def test_imports_go_down_only():
    wrong = {
        _name(path): names
        for path in FILES
        if (names := forbidden(path.read_text(encoding="utf-8"), _package(path), _module(path)))
    }
    assert wrong == {}


def test_there_are_no_cycles():
    assert cycles(_sources()) == []


def test_a_planted_cycle_is_detected():
    sources = _sources()
    package, text = sources["common_jax.masks"]
    sources["common_jax.masks"] = package, text + "\ndef f():\n    from csan_jax import model\n"
    (group,) = cycles(sources)
    assert {"common_jax.masks", "csan_jax.model", "common_jax.attention.api"} <= set(group)


def test_heavy_modules_are_imported_lazily():
    heavy = {_module(p): heavy_at_import(p.read_text("utf-8"), _package(p)) for p in FILES}
    heavy = {name: modules for name, modules in heavy.items() if modules}
    assert {name for name in heavy if not name.startswith(SERVERS)} == set()
    assert set().union(*heavy.values()) == SERVER


def test_only_the_servers_import_their_extra():
    users = {
        _module(path)
        for path in FILES
        if SERVER
        & {n.split(".")[0] for n in imported(ast.parse(path.read_text("utf-8")), _package(path))}
    }
    assert users and all(name.startswith(SERVERS) for name in users)


def test_configs_and_readers_of_prepared_corpora_import_nothing_that_builds_one():
    sources = _sources()
    # What only type checkers import is not loaded.
    for name, (package, text) in sources.items():
        sources[name] = package, re.sub(r"^if TYPE_CHECKING:\n(    .*\n|\n)+", "", text, flags=re.M)
    readers = {f"{paper}.data.dataset" for paper in PAPERS} & sources.keys()
    assert len(readers) >= 3
    building = re.compile(
        r"_jax\.data\.(prepare|sources|synthetic.*|triviaqa|selection|moses|squad_anss)$"
        r"|^common_jax\.data\.(sources|tfds|holdout|sampling|generated)$"
    )
    configs = {name for name in sources if name.startswith("configs.")}
    for reader in readers | configs:
        assert [name for name in loaded_with(reader, sources) if building.search(name)] == []
    assert "csan_jax.data.sources" in loaded_with("csan_jax.data.prepare", sources)


def test_the_lowest_modules_import_no_jax():
    # An exported model processes text without jax.
    for path in (ROOT / "common_jax").rglob("*.py"):
        if _module(path).split(".")[1:2] and _module(path).split(".")[1] in WITHOUT_JAX:
            names = imported(ast.parse(path.read_text(encoding="utf-8")), _package(path))
            tops = {name.split(".")[0] for name in names}
            assert not tops & {"jax", "flax", "optax", "orbax"}, path


@pytest.mark.parametrize(
    ("source", "package", "expected"),
    [
        ("import csan_jax.model", "common_jax", ["csan_jax.model"]),
        ("def f():\n  from launch import cli", "csan_jax", ["launch.cli"]),
        ("from ..training import loop", "common_jax.text", ["common_jax.training.loop"]),
        ("from . import words", "common_jax.text", []),
        ("if TYPE_CHECKING:\n  from launch import cli", "common_jax", ["launch.cli"]),
        ("from tests import real", "launch", ["tests.real"]),
        ("from common_jax import masks\nimport csan_jax", "configs.csan", []),
    ],
)
def test_forbidden_imports_are_detected(source, package, expected):
    assert forbidden(source, package) == expected


def test_heavy_imports_are_detected():
    assert heavy_at_import("try:\n  import ray\nexcept ImportError:\n  pass", "common_jax") == {
        "ray"
    }
    assert heavy_at_import("class A:\n  from nltk import data", "common_jax") == {"nltk"}
    assert heavy_at_import("def f():\n  import ray", "common_jax") == set()
