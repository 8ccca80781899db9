"""The pages: a list of the models, and for each a form with examples, made from its schema."""

import html
from collections.abc import Sequence

from common_jax.deploy.schema import Text
from launch.serve.models import Model

_LONGEST = 90  # characters of an example's button


def page(title: str, body: str, script: str = "") -> str:
    """The HTML around a page's content.

    Args:
      body: HTML.
      script: the name of a file in `static`, if it has one.
    """
    name = html.escape(title)
    code = f'<script type="module" src="/static/{script}"></script>' if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css">'
        f"<title>{name}</title></head>\n"
        '<body><nav aria-label="Pages"><a href="/">All models</a> <a href="/docs">API</a></nav>'
        f"<main><h1>{name}</h1>{body}</main>{code}</body></html>\n"
    )


def index(models: Sequence[Model]) -> str:
    """The list of models by task."""
    sections = []
    for title, about in dict.fromkeys((m.schema.title, m.schema.about) for m in models):
        names = [model.name for model in models if model.schema.title == title]
        links = (f'<li><a href="/models/{name}">{html.escape(name)}</a></li>' for name in names)
        sections.append(
            f"<section><h2>{html.escape(title)}</h2><p>{html.escape(about)}</p>"
            f"<ul>{''.join(links)}</ul></section>"
        )
    return page("Models", "".join(sections))


def model_page(model: Model, models: Sequence[Model]) -> str:
    """The page of one model.

    Args:
      models: of the server; those of the same task can be compared with it.
    """
    schema = model.schema
    comparable = [m.name for m in models if m.schema.title == schema.title and m is not model]
    fields = [_text_box(text) for text in schema.texts]

    # options of the form
    if model.explains and schema.details:
        fields.append(
            '<p class="field"><label><input type="checkbox" id="explain" checked> '
            "Explain the answer</label></p>"
        )
    if comparable:
        items = "".join(f"<option>{html.escape(name)}</option>" for name in comparable)
        fields.append(
            '<p class="field"><label for="compare">Compare with</label> '
            f'<select id="compare"><option value="">no other model</option>{items}</select></p>'
        )

    return page(
        schema.title,
        f"<p>{html.escape(f'{schema.about} {model.trained_on}')}</p>"
        f'<p class="task">Model: {html.escape(model.name)}</p>'
        f'<form id="form" data-model="{model.name}">{"".join(fields)}'
        '<p><button type="submit" class="main">Predict</button> '
        '<span class="faint">or Ctrl+Enter</span></p></form>'
        '<p id="status" role="status"></p>'
        '<div id="results" class="columns"></div>'
        f"{_examples(model)}"
        "<noscript><p>The form needs JavaScript.</p></noscript>",
        "page.js",
    )


def _text_box(text: Text) -> str:
    name = html.escape(text.name)
    title = html.escape(text.title)
    return (
        f'<p class="field"><label for="text-{name}">{title}</label>'
        f'<textarea id="text-{name}" name="{name}" rows="{text.lines}" dir="auto" required '
        f'placeholder="{html.escape(text.hint)}" spellcheck="false"></textarea></p>'
    )


def _examples(model: Model) -> str:
    """Buttons that fill the form."""
    buttons = []
    for number, texts in enumerate(model.examples):
        question_first = len(texts[0]) > 2 * len(texts[-1])
        ordered = reversed(texts) if question_first else texts
        shown = " | ".join(" ".join(text.split()) for text in ordered)
        shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
        outside = model.outside and number == len(model.examples) - 1
        mark = '<small class="faint">unlike its training data: can be wrong</small>'
        buttons.append(
            f'<li><button type="button" data-example="{number}">{html.escape(shown)}</button>'
            f"{mark if outside else ''}</li>"
        )
    if not buttons:
        return ""
    return f'<section><h2>Examples</h2><ul class="examples">{"".join(buttons)}</ul></section>'
