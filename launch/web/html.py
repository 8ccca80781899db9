"""The HTML around a page's content."""

import html
from collections.abc import Sequence


def page(
    title: str,
    body: str,
    navigation: str = "",
    *,
    styles: Sequence[str] = ("style.css",),
    script: str = "",
) -> str:
    """A page.

    Args:
      body, navigation: HTML.
      styles, script: names of files in `static`.
    """
    name = html.escape(title)
    links = "".join(f'<link rel="stylesheet" href="/static/{file}">' for file in styles)
    code = f'<script type="module" src="/static/{script}"></script>' if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="/static/icon.svg">{links}<title>{name}</title></head>\n'
        f"<body>{navigation}<main><h1>{name}</h1>{body}</main>{code}</body></html>\n"
    )
