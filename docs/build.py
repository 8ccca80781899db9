"""Builds the manual as a site: the pages of docs/, with a page for each package of the API.

    uv run --group docs python docs/build.py            # writes site/; open site/index.html
    uv run --group docs python docs/build.py FOLDER

The pages and mkdocs.yml, completed, are written into a temporary folder, where Zensical builds
them. Warnings, and pages that load anything from another host, are errors.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PAPERS = sorted(path.parent.name for path in ROOT.glob("*_jax/task.py"))
PACKAGES = ("common_jax", *PAPERS, "launch/api")
PAGES = ("*.md", "*.svg", "*.css", "*.js", "*.ipynb", "scripts/*")
FAMILIES = {
    "csan": "CSAN",
    "qanet": "QANet",
    "attconv": "AttentiveConvNet",
    "benchmarks": "Speed beside others",
}
SHIM = re.compile(r"https:[^\s\"]*/iframe-worker/shim")  # which the offline plugin loads
_HOST = r"""["']?(?:https?:)?//[^\s"'>]*"""
LINK = re.compile(r'href="(?![a-z]+:|/)([^"#?]+)')  # to a file beside the page
LOADED = re.compile(
    rf"<(?:script|img|iframe|source)\b[^>]*\bsrc={_HOST}"
    rf"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preconnect|preload|icon))[^>]*\bhref={_HOST}"
)


def api_pages() -> dict[str, str]:
    """The Markdown of the API pages by path: one page for each package with modules."""
    pages = {}
    for package in PACKAGES:
        for folder in sorted({path.parent for path in (ROOT / package).rglob("*.py")}):
            name = ".".join(folder.relative_to(ROOT).parts)
            files = [path for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
            if files:
                modules = [f"::: {name}.{path.stem}\n" for path in files]
                pages[f"api/{name}.md"] = "\n".join([f"# `{name}`\n", *modules])
    return pages


def write_sources(folder: Path) -> Path:
    """Writes all pages and the configuration into a folder; returns the configuration's path."""
    docs = folder / "docs"
    for pattern in PAGES:
        for path in (ROOT / "docs").rglob(pattern):
            copy = docs / path.relative_to(ROOT / "docs")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    for path, text in api_pages().items():
        (docs / path).write_text(text, encoding="utf-8")
    shutil.copyfile(ROOT / "CITATION.cff", docs / "CITATION.cff")
    changes = {"mistakes.md": ("][", "]\\["), "releasing.md": ("../CITATION", "CITATION")}
    for name, (old, new) in changes.items():  # brackets are not references; the site has the file
        page = docs / name
        page.write_text(page.read_text("utf-8").replace(old, new), encoding="utf-8")

    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    results = results_nav(sorted((ROOT / "docs" / "results").rglob("*.md")))
    api = [{Path(path).stem: path} for path in api_pages()]
    config["nav"] += [{"Results": ["results/index.md", *results]}, {"API": ["api/index.md", *api]}]
    (python,) = (
        p["mkdocstrings"]["handlers"]["python"] for p in config["plugins"] if "mkdocstrings" in p
    )
    python["paths"] = [str(ROOT)]
    python["options"]["extensions"] = [str(ROOT / "docs" / "griffe_docstrings.py")]
    path = folder / "mkdocs.yml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


def results_nav(paths: list[Path]) -> list[dict[str, Any]]:
    """The navigation of the pages of results: those of a paper below its name."""
    entries: list[dict[str, Any]] = []
    groups: dict[str, list[dict[str, Any]]] = {family: [] for family in FAMILIES}
    for path in paths:
        page = str(path.relative_to(ROOT / "docs"))
        family, *below = path.relative_to(ROOT / "docs" / "results").parts
        if path.name != "index.md":
            (groups.setdefault(family, []) if below else entries).append({_title(path): page})
    named = ({FAMILIES.get(family, family): pages} for family, pages in groups.items())
    return [*named, *entries]


def _title(path: Path) -> str:
    """The name of a page of results: of one that `launch.reproduce` made "Table 1, small"."""
    if path.name != "page.md":
        return path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
    name = re.sub(r"(?<=[a-z])(?=\d)", " ", path.parent.parent.name.replace("_", " "))
    return f"{name.capitalize()}, {path.parent.name.replace('_', ' ')}"


def use_own_shim(site: Path) -> None:
    """Makes the pages load the copy of `SHIM` in docs/javascripts."""
    for path in site.rglob("*.html"):
        copy = "../" * (len(path.relative_to(site).parts) - 1) + "javascripts/iframe-worker.js"
        path.write_text(SHIM.sub(copy, path.read_text("utf-8")), encoding="utf-8")


def name_sources(site: Path, docs: Path) -> None:
    """Ends each page with the path of its source in a clone, which the site has beside the page."""
    for path in site.rglob("*.html"):
        page = path.relative_to(site).with_suffix(".md")
        source = ROOT / "docs" / page
        if source.exists():
            shutil.copyfile(source, site / page)
            line = f'<a href="{page.name}"><code>docs/{page}</code></a>'
        elif (docs / page).exists():  # of the API
            line = f"<code>{page.stem.replace('.', '/')}</code>"
        else:
            continue
        text = path.read_text("utf-8")
        end = text.rindex("</article>")
        path.write_text(f"{text[:end]}<p>Source: {line}</p>{text[end:]}", encoding="utf-8")


def add_linked(site: Path) -> list[str]:
    """Copies the files of docs/ that pages link to, as raw numbers, into the site; returns the
    links to nothing."""
    root = site.resolve()
    broken = []
    for page in sorted(site.rglob("*.html")):
        for link in LINK.findall(page.read_text("utf-8")):
            target = (page.parent / link).resolve()
            inside = target.is_relative_to(root)
            if inside and not target.exists():
                source = ROOT / "docs" / target.relative_to(root)
                if source.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, target)
            if not inside or not target.exists():
                broken.append(f"{page.relative_to(site)}: links to nothing: {link}")
    return broken


def loaded_from_elsewhere(site: Path) -> list[str]:
    """The pages that load anything from another host, each with the first such element."""
    texts = {path: path.read_text("utf-8") for path in sorted(site.rglob("*.html"))}
    external = {path.relative_to(site): LOADED.search(text) for path, text in texts.items()}
    return [
        f"{path}: loads from another host: {match[0]}" for path, match in external.items() if match
    ]


def main(out: Path) -> None:
    """Builds the site into the folder `out`, which it replaces."""
    with tempfile.TemporaryDirectory() as folder:
        # a warning, as of a broken link, fails the build
        config = write_sources(Path(folder))
        command = [
            sys.executable,
            "-m",
            "zensical",
            "build",
            "--strict",
            "--config-file",
            str(config),
        ]
        if subprocess.run(command).returncode:
            sys.exit("the manual was not built: see the warnings above")

        # the site must load nothing from elsewhere before it replaces the old one
        site = Path(folder) / "site"
        use_own_shim(site)
        name_sources(site, Path(folder) / "docs")
        if wrong := [*add_linked(site), *loaded_from_elsewhere(site)]:
            sys.exit("\n".join(wrong))
        shutil.rmtree(out, ignore_errors=True)
        shutil.move(site, out)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site"))
