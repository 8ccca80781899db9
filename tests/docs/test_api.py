"""The API's reference: each public name of the packages has a docstring and stands on a page.

A name without a docstring would be left out of the reference.
"""

import ast
import importlib.util
import re

from tests.docs.manual import NAV, RESULTS, ROOT

_SPEC = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)
FILES = {path for package in build.PACKAGES for path in (ROOT / package).rglob("*.py")}
MODULES = {path: ast.parse(path.read_text("utf-8")) for path in sorted(FILES)}


def public(nodes):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in nodes if isinstance(node, kinds) and not node.name.startswith("_")]


def classes(modules):
    """The classes of all modules by name; several may have one name."""
    known = {}
    for node in (node for tree in modules.values() for node in public(tree.body)):
        if isinstance(node, ast.ClassDef):
            known.setdefault(node.name, []).append(node)
    return known


def bases(node):
    names = [ast.unparse(base) for base in node.bases]
    return [re.sub(r"\[.*", "", name).rpartition(".")[2] for name in names]


def documented(node, method, known, seen=()):
    """Whether a method has a docstring, here or where a base class or a protocol declares it."""
    own = [one for one in public(node.body) if one.name == method and ast.get_docstring(one)]
    parents = [parent for name in bases(node) for parent in known.get(name, ())]
    seen = (*seen, node)
    return bool(own) or any(
        documented(parent, method, known, seen) for parent in parents if parent not in seen
    )


def undocumented(modules):
    """The public names without a docstring: modules, functions, classes and methods."""
    known = classes(modules)
    protocols = [one for group in known.values() for one in group if "Protocol" in bases(one)]
    for path, tree in modules.items():
        if path.stem != "__init__" and not ast.get_docstring(tree):
            yield str(path.relative_to(ROOT))
        for node in public(tree.body):
            name = f"{path.relative_to(ROOT)}: {node.name}"
            if not ast.get_docstring(node):
                yield name
            methods = public(node.body) if isinstance(node, ast.ClassDef) else []
            for method in methods:
                declared = any(documented(one, method.name, known) for one in protocols)
                if method.name != "setup" and not (  # of flax
                    declared or documented(node, method.name, known)
                ):
                    yield f"{name}.{method.name}"


def test_each_public_name_has_a_docstring():
    assert [*undocumented(MODULES)] == []


def test_each_module_stands_on_a_page_of_the_reference():
    pages = build.api_pages()
    for path in FILES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.stem != "__init__":
            page = pages[f"api/{'.'.join(parts[:-1])}.md"]
            assert f"::: {'.'.join(parts)}\n" in page
    assert sum(page.count(":::") for page in pages.values()) == sum(
        path.stem != "__init__" for path in FILES
    )


def test_each_page_is_in_the_navigation():
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    added = {page for page in pages if page.startswith(("api/", "results/"))}
    assert pages - added == {*NAV}


def test_the_sidebar_has_names():
    names = [name for entry in build.results_nav(RESULTS) for name in names_of(entry)]
    assert {"CSAN", "Table 1, small", "Joey NMT"} <= {*names}
    assert not [name for name in names if "/" in name or "_" in name]


def names_of(entry):
    """The names of an entry of the navigation and of those below it."""
    for name, below in entry.items():
        yield name
        if isinstance(below, list):
            yield from (found for one in below for found in names_of(one))


def test_what_another_host_would_serve_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<script src="https://example.org/a.js"></script>')
    (tmp_path / "b.html").write_text('<a href="https://example.org"><img src="b.svg"></a>')
    (wrong,) = build.loaded_from_elsewhere(tmp_path)
    assert wrong.startswith("a.html")


def test_linked_files_are_copied_and_links_to_nothing_are_found(tmp_path):
    links = ["results/bench_train_cpu.json", "../other", "none.html", "https://example.org"]
    text = "".join(f'<a href="{link}"></a>' for link in links)
    (tmp_path / "a.html").write_text(text, encoding="utf-8")
    broken = build.add_linked(tmp_path)
    assert [line.rpartition(" ")[2] for line in broken] == links[1:3]
    copy = tmp_path / "results" / "bench_train_cpu.json"
    assert copy.read_bytes() == (ROOT / "docs" / "results" / copy.name).read_bytes()
