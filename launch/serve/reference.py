"""The page of the API: the OpenAPI description as HTML, with examples of requests."""

import json
import shlex
from collections.abc import Mapping
from html import escape
from typing import Any

from launch.serve.pages import page as framed

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
_CURL = "curl -H 'content-type: application/json' {address} \\\n  -d {quoted}\n"
_EXAMPLES = {"curl": _CURL, "Python": _PYTHON, "JavaScript": _JAVASCRIPT}
_ABOUT = (
    '<p>The <a href="/openapi.json">description</a> of this API in OpenAPI, from which clients are '
    "generated.</p>"
)


def page(document: Mapping[str, Any], server: str) -> str:
    """The page of a description.

    Args:
      server: its address, which a script on the page replaces by the one in the browser.
    """
    operations = [
        _operation(method, path, operation, server.rstrip("/"))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    text = escape(json.dumps(document, indent=1, ensure_ascii=False), quote=False)
    schemas = f'<details><summary>Schemas</summary><pre tabindex="0">{text}</pre></details>'
    return framed("API", "".join([_ABOUT, *operations, schemas]), "reference.js")


def _operation(method: str, path: str, operation: Mapping[str, Any], server: str) -> str:
    """A section: examples of a request, and on demand the statuses of answers."""
    example = ""
    if "requestBody" in operation:
        request = operation["requestBody"]["content"]["application/json"]
        example = _examples(server, path, request["example"]) if "example" in request else ""
    rows = (
        f"<tr><td>{status}</td><td>{escape(response['description'])}</td></tr>"
        for status, response in operation["responses"].items()
    )
    return (
        f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{escape(operation['summary'])}</p>"
        f"<p>{escape(operation.get('description', ''))}</p>{example}"
        f"<details><summary>Status</summary><table><tbody>{''.join(rows)}</tbody></table></details></section>"
    )


def _examples(server: str, path: str, body: Any) -> str:
    """A request by curl, Python's standard library and JavaScript."""
    text = json.dumps(body, ensure_ascii=False)
    values = {
        "address": f'<span class="origin">{escape(server)}</span>{escape(path)}',
        "body": escape(text),
        "quoted": escape(shlex.quote(text)),
    }
    return "".join(
        f'<h4>{language}</h4><pre tabindex="0">{escape(example).format(**values)}</pre>'
        for language, example in _EXAMPLES.items()
    )
