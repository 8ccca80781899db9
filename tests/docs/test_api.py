"""The API's reference: each public name of the packages has a docstring and stands on a page.

A name without a docstring would be left out of the reference.
"""

import importlib.util
import inspect
import json
import re

from tests.docs.manual import NAV, RESULTS, ROOT

_SPEC = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)
FILES = sorted({path for package in build.PACKAGES for path in (ROOT / package).rglob("*.py")})


def public(owner, module):
    """The names and values of what a module, or one of its classes, defines."""
    for name, value in vars(owner).items():
        function = getattr(value, "fget", None) or getattr(value, "func", value)  # of a property
        named = getattr(function, "__module__", ""), getattr(function, "__name__", "")
        if named == (module.__name__, name) and not name.startswith("_"):
            yield name, value


def undocumented():
    """The public names without a docstring: modules, functions, classes and methods. A method has
    that of a base class, or of a protocol that declares it."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES]
    modules = [importlib.import_module(name.removesuffix(".__init__")) for name in names]
    found = [(module, *pair) for module in modules for pair in public(module, module)]
    classes = [value for *_, value in found if inspect.isclass(value)]
    protocols = [one for one in classes if getattr(one, "_is_protocol", False)]
    yield from (m.__name__ for m in modules if not m.__doc__ and not hasattr(m, "__path__"))
    for module, name, value in found:
        if not value.__doc__ or value.__doc__.startswith(f"{name}("):  # of a dataclass
            yield f"{module.__name__}.{name}"
        for method, _ in public(value, module) if inspect.isclass(value) else ():
            owners = [vars(one) for one in (*value.__mro__, *protocols)]
            if method != "setup" and not any(getattr(o.get(method), "__doc__", "") for o in owners):
                yield f"{module.__name__}.{name}.{method}"


def test_each_public_name_has_a_docstring():
    assert [*undocumented()] == []


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
    entries = json.dumps(build.results_nav(RESULTS), default=str)
    names = re.findall(r'"([^"]*)": ', entries)
    assert {"CSAN", "Table 1, small", "Joey NMT"} <= {*names}
    assert not [name for name in names if "/" in name or "_" in name]


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
