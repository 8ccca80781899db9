"""Only the reader and the writer of run folders name the files of a run.

An export shares the names of two of these files; by a third its format recognises a run.
"""

import ast
import re
from collections.abc import Iterator

from tests.test_layers import FILES, ROOT

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
