"""The page of the API: the OpenAPI description as HTML, with examples of requests."""

import html
import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from launch.serve.pages import NAVIGATION
from launch.web import html as frame

Schema = Mapping[str, Any]
_NAMES = {"string": "text", "integer": "whole number", "array": "list"}

_PYTHON = """\
import json
import urllib.request

request = urllib.request.Request(
    "{address}",
    json.dumps({body}).encode(),
    {{"content-type": "application/json"}},
)
with urllib.request.urlopen(request) as response:
    for output in json.load(response)["outputs"]:
        print(output)
"""
_JAVASCRIPT = """\
const response = await fetch("{address}", {{
  method: "POST",
  headers: {{"content-type": "application/json"}},
  body: JSON.stringify({body}),
}});
const {{outputs}} = await response.json();
console.log(outputs);
"""
_CURL = "curl -H 'content-type: application/json' {address} \\\n  -d {body}\n"


def examples(address: str, body: Any) -> dict[str, str]:
    """A request by curl, Python's standard library and JavaScript, by language.

    Args:
      address: of the predictions of a model.
      body: of the request, as JSON.
    """
    text = json.dumps(body, ensure_ascii=False)
    return {
        "curl": _CURL.format(address=address, body=shlex.quote(text)),
        "Python": _PYTHON.format(address=address, body=text),
        "JavaScript": _JAVASCRIPT.format(address=address, body=text),
    }


def page(document: Schema, server: str) -> str:
    """The page of a description.

    Args:
      server: its address, which a script on the page replaces by the one in the browser.
    """
    paths = document["paths"].items()
    operations = [
        (path, method, operation)
        for path, methods in paths
        for method, operation in methods.items()
    ]
    listed = "".join(
        f'<li><a href="#{html.escape(operation["operationId"])}"><code>{method.upper()} '
        f"{html.escape(path)}</code></a></li>"
        for path, method, operation in operations
    )
    schemas = document["components"]["schemas"].items()
    body = (
        f'<p>The <a href="/openapi.json">description</a> of this API in OpenAPI '
        f"{document['openapi']}, from which clients are generated.</p><ul>{listed}</ul>"
        + "".join(
            _operation(path, method, operation, server) for path, method, operation in operations
        )
        + "<section><h2>Schemas</h2>"
        + "".join(_component(name, schema) for name, schema in schemas)
        + "</section>"
    )
    return frame.page("API", body, NAVIGATION, script="reference.js")


def _operation(path: str, method: str, operation: Schema, server: str) -> str:
    name = html.escape(operation["operationId"])
    parts = [
        f'<section id="{name}"><h2><code>{method.upper()} {html.escape(path)}</code></h2>'
        f"<p>{html.escape(operation['summary'])}</p>"
    ]
    if "requestBody" in operation:
        ((_, request),) = operation["requestBody"]["content"].items()
        parts.append(f"<h3>Request</h3>{_fields(request['schema'])}")
        if "example" in request:
            address = server.rstrip("/") + path
            written = examples(address, request["example"])
            parts += (_example(language, text, server) for language, text in written.items())
    good, *errors = operation["responses"].items()
    ((kind, response),) = good[1]["content"].items()
    parts.append(f"<h3>Response {good[0]}, {kind}</h3>{_fields(response['schema'])}")
    if errors:
        rows = "".join(
            f"<tr><td>{status}</td><td>{html.escape(error['description'])}</td></tr>"
            for status, error in errors
        )
        parts.append(
            f'<details><summary>Errors: {_link("Error")}</summary><div class="wide"><table>'
            f"<tbody>{rows}</tbody></table></div></details>"
        )
    return "".join([*parts, "</section>"])


def _example(language: str, text: str, server: str) -> str:
    origin = html.escape(server.rstrip("/"))
    code = html.escape(text).replace(origin, f'<span class="origin">{origin}</span>', 1)
    return f'<h4>{language}</h4><pre tabindex="0" data-language="{language}">{code}</pre>'


def _component(name: str, schema: Schema) -> str:
    return f'<h3 id="schema-{html.escape(name)}">{html.escape(name)}</h3>{_fields(schema)}'


def _fields(schema: Schema) -> str:
    """A list of an object's fields, with those of objects in it; or the type of another value."""
    items = "".join(
        f"<dt><code>{html.escape(name)}</code> {kind}</dt>"
        + (f"<dd>{html.escape(note)}</dd>" if note else "")
        for name, kind, note in _rows(schema, "")
    )
    return f"<dl>{items}</dl>" if items else f"<p>{_type(schema)}</p>"


def _rows(schema: Schema, place: str) -> Iterator[tuple[str, str, str]]:
    """The path of each field, as in "layers[].weights", its type as HTML, and notes on it."""
    while schema.get("type") == "array":
        schema, place = schema["items"], f"{place}[]"
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        path = f"{place}.{name}" if place else name
        notes = [] if name in required else ["optional"]
        if "default" in field:
            notes = [f"default {json.dumps(field['default'])}"]
        limits = {"minItems": "at least", "maxItems": "at most"}
        notes += [f"{words} {field[key]}" for key, words in limits.items() if key in field]
        notes += [field[key] for key in ("title", "description") if key in field]
        yield path, _type(field), "; ".join(notes)
        yield from _rows(field, path)


def _type(schema: Schema) -> str:
    """The type of a value, as HTML with links to schemas."""
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(map(_described, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"<code>{html.escape(json.dumps(v))}</code>" for v in schema["enum"])
    depth = 0
    while schema.get("type") == "array":
        schema, depth = schema["items"], depth + 1
    if depth:
        return f"list{f' of {depth} levels' if depth > 1 else ''} of {_type(schema)}"
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return f"object with values: {_type(values)}"
    kinds = schema.get("type", "any")
    names = [_NAMES.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return html.escape(" or ".join(names))


def _described(schema: Schema) -> str:
    note = f" ({html.escape(schema['description'])})" if "description" in schema else ""
    return _type(schema) + note


def _link(name: str) -> str:
    return f'<a href="#schema-{html.escape(name)}">{html.escape(name)}</a>'
