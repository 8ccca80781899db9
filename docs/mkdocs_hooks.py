"""MkDocs hooks: pages of results and the API, and a check that no page loads external files."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGES = ("common_jax", "csan_jax", "qanet_jax", "attconv_jax", "launch/api")
_HOST = r"""["']?(?:https?:)?//[^\s"'>]*"""
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
            if not files:
                continue
            modules = [f"{name}.{path.stem}" for path in files]
            title = f"# `{name}`\n"
            pages[f"api/{name}.md"] = "\n".join([title, *(f"::: {one}\n" for one in modules)])
    return pages


def _title(path: Path) -> str:
    """The title of a page of results: its folder if `launch.reproduce` made it, else its name."""
    return str(path.parent if path.name == "page.md" else path.with_suffix(""))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the pages of results and of the API to the navigation."""
    results = ROOT / "docs" / "results"
    made = sorted(path.relative_to(results) for path in results.rglob("*.md"))
    pages = [{_title(path): f"results/{path}"} for path in made if path.name != "index.md"]
    config.nav += [{"Results": ["results/index.md", *pages]}]
    config.nav += [{"API": ["api/index.md", *({Path(p).stem: p} for p in api_pages())]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the API."""
    for path, content in api_pages().items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Escapes brackets in the error messages, which are not references."""
    return markdown.replace("][", "]\\[") if page.file.src_uri == "mistakes.md" else markdown


def on_post_page(output: str, page, config: MkDocsConfig) -> str:
    """Fails if a page loads anything from another host."""
    if loaded := LOADED.search(output):
        raise PluginError(f"{page.file.src_uri}: loads from another host: {loaded[0]}")
    return output
