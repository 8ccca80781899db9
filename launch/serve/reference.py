"""The page of the API: the OpenAPI description as HTML, with examples of requests."""

import json
import re
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
    schemas = [
        f'<h3 id="{escape(name)}">{escape(name)}</h3>{_json(schema)}'
        for name, schema in document["components"]["schemas"].items()
    ]
    body = "".join([_ABOUT, *operations, "<h2>Schemas</h2>", *schemas])
    return framed("API", body, "reference.js")


def _operation(method: str, path: str, operation: Mapping[str, Any], server: str) -> str:
    """A section: examples of a request; on demand the JSON schemas and the statuses of answers."""
    html = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>"]
    html.append(f"<p>{escape(operation['summary'])}</p>")
    schemas = []
    if "requestBody" in operation:
        request = operation["requestBody"]["content"]["application/json"]
        if "example" in request:
            html.append(_examples(server, path, request["example"]))
        schemas.append(f"<h3>Request</h3>{_json(request['schema'])}")

    # answers by status
    responses = operation["responses"]
    rows = (
        f"<tr><td>{status}</td><td>{escape(response['description'])}</td></tr>"
        for status, response in responses.items()
    )
    schemas.append(f"<h3>Answer</h3>{_json(responses['200']['content'])}")
    schemas.append(f"<h3>Status</h3><table><tbody>{''.join(rows)}</tbody></table>")
    html.append(f"<details><summary>Schemas</summary>{''.join(schemas)}</details>")
    return f"<section>{''.join(html)}</section>"


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


def _json(value: Any) -> str:
    """A JSON value, with links to the schemas that it names."""
    text = escape(json.dumps(value, indent=1, ensure_ascii=False), quote=False)
    linked = re.sub(r"#/components/schemas/(\w+)", r'<a href="#\1">\g<0></a>', text)
    return f'<pre tabindex="0">{linked}</pre>'
