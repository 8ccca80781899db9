"""The OpenAPI description of a server's models."""

from collections.abc import Sequence
from typing import Any

from common_jax.deploy.schema import STRING, array, record
from launch.serve.limits import Limits
from launch.serve.models import ON_BAD_LINE, Model

_ERRORS = {
    "400": "The body is not JSON in UTF-8, or incomplete",
    "408": "The body did not arrive in time",
    "413": "The body is too large",
    "415": "The content type is not application/json",
    "422": "An input has another form, is too long, or there are too many",
    "429": "Too many inputs wait",
    "500": "The model failed",
    "503": "The server is stopping",
    "504": "There was no answer in time",
}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_BOOLEAN = {"type": "boolean"}
_INTEGER = {"type": "integer"}
_ERROR = record(
    {"error": record({"status": _INTEGER, "message": STRING | {"description": "one line"}})},
    outputs=array({"type": "object"})
    | {"description": "with status 422: those of the other inputs, and an error for this one"},
)
_TEXT = record(
    {
        "name": STRING | {"description": "of the field of an input"},
        "title": STRING,
        "lines": _INTEGER | {"description": "height of a box for it"},
        "several": _BOOLEAN | {"description": "whether a box has a text a line, of one input each"},
    }
)
_VIEW = record(
    {
        "kind": STRING,
        "field": STRING | {"description": 'of an output; "" for the output'},
        "title": STRING,
        "of": STRING | {"description": "another field that the view needs"},
    }
)
_MODEL = record(
    {
        "name": STRING | {"description": "in /v1/models/NAME:predict"},
        "title": STRING | {"description": "of the task; models of one task have the same inputs"},
        "explains": _BOOLEAN | {"description": "whether a request can have `explain`"},
        "compiling": _BOOLEAN | {"description": "whether an input waits for a compilation"},
        "texts": array(_reference("Text")) | {"description": "of an input"},
        "views": array(_reference("View")) | {"description": "how a page shows an output"},
        "details": array(STRING) | {"description": "fields of explained outputs alone"},
        "examples": array(STRING, dims=2) | {"description": "inputs, each a list of its texts"},
        "trained_on": STRING | {"description": "a sentence on generated training data, or empty"},
        "outside": _BOOLEAN | {"description": "whether the last example is unlike these data"},
    }
)
_SHARED = {"Error": _ERROR, "Model": _MODEL, "Text": _TEXT, "View": _VIEW}
_LIST = record({"models": array(_reference("Model"))})
_HEALTH = record({"status": STRING})


def document(models: Sequence[Model], limits: Limits) -> dict[str, Any]:
    """The description; models of one family share their schemas."""
    schemas: dict[str, Any] = {**_SHARED}
    for model in models:
        stem = component(model)
        line, texts = model.schema.input["anyOf"]
        schemas[f"{stem}Texts"] = texts
        schemas[f"{stem}Input"] = {"anyOf": [line, _reference(f"{stem}Texts")]}
        schemas[f"{stem}Output"] = model.schema.output

    # paths
    paths = {f"/v1/models/{model.name}:predict": {"post": _post(model, limits)} for model in models}
    listed = _get("list_models", "The models and the form of their inputs", _json(_LIST))
    health = _get("health", "Whether requests are accepted", _json(_HEALTH))
    ready = _get("ready", "Whether the programs are compiled; else 503", _json(_HEALTH))
    plain = {"text/plain": {"schema": STRING}}
    counts = _get("metrics", "Counters and histograms for Prometheus", plain)

    return {
        "openapi": "3.1.0",
        "info": {"title": "Convolution joined with attention", "version": "1"},
        "paths": {
            **paths,
            "/v1/models": {"get": listed},
            "/healthz": {"get": health},
            "/readyz": {"get": ready},
            "/metrics": {"get": counts},
        },
        "components": {"schemas": schemas},
    }


def component(model: Model) -> str:
    """The name of a model's schemas: "PairsAndLabels"."""
    task = model.schema.title.partition(" (")[0]
    return "".join(word.capitalize() for word in task.split())


def _get(name: str, summary: str, content: dict[str, Any]) -> dict[str, Any]:
    responses = {"200": {"description": summary, "content": content}}
    return {"operationId": name, "summary": summary, "responses": responses}


def _post(model: Model, limits: Limits) -> dict[str, Any]:
    stem = component(model)
    inputs = {"type": "array", "minItems": 1, "maxItems": limits.inputs}
    fields: dict[str, Any] = {"inputs": inputs | {"items": _reference(f"{stem}Input")}}
    if model.explains:
        text = (
            "whether outputs have their details: attention, hypotheses, probabilities of words; "
            f"those of texts of up to {model.schema.explained_length} words or pieces"
        )
        fields["explain"] = _BOOLEAN | {"default": False, "description": text}
    text = "whether an input that cannot be used leaves the others without an output"
    choices = STRING | {"enum": [*ON_BAD_LINE], "default": ON_BAD_LINE[0]}
    fields["on_bad_line"] = choices | {"description": text}

    # bodies, with the model's first example, or the form of the texts in words
    request = {"type": "object", "required": ["inputs"], "properties": fields}
    response = record({"outputs": array(_reference(f"{stem}Output"))})
    names = [text.name for text in model.schema.texts]
    hints = [text.hint for text in model.schema.texts]
    texts = next(iter(model.examples), hints)
    example = {"inputs": [dict(zip(names, texts, strict=True))]}

    # what the model knows, and what it does not
    about = model.trained_on
    if model.outside:
        about += f" Unlike these data, so can be wrong: {' | '.join(model.outside)}"

    return {
        "operationId": f"predict_{model.name}",
        "summary": f"{model.schema.title}: an output for each input, in order",
        "description": about,
        "requestBody": {"required": True, "content": _json(request, example=example)},
        "responses": {
            "200": {"description": "Outputs", "content": _json(response)},
            **{status: _error(status) for status in _ERRORS},
        },
    }


def _error(status: str) -> dict[str, Any]:
    return {"description": _ERRORS[status], "content": _json(_reference("Error"))}


def _json(schema: dict[str, Any], **further: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema, **further}}
