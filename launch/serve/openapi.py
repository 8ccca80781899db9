"""The OpenAPI description of a server's models."""

from collections.abc import Sequence
from typing import Any

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
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["status", "message"],
            "properties": {"status": {"type": "integer"}, "message": {"type": "string"}},
        },
        # of 422: the other inputs are answered
        "outputs": {"type": "array", "items": {"type": "object"}},
    },
}


def document(models: Sequence[Model], limits: Limits) -> dict[str, Any]:
    """The description; models of one family share their schemas."""
    schemas: dict[str, Any] = {"Error": _ERROR}
    for model in models:
        stem = component(model)
        schemas[f"{stem}Input"] = model.schema.input
        schemas[f"{stem}Output"] = model.schema.output
    paths = {f"/v1/models/{model.name}:predict": {"post": _post(model, limits)} for model in models}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Convolution joined with attention", "version": "1"},
        "paths": {
            "/v1/models": {"get": _get("The models and the form of their inputs")},
            "/healthz": {"get": _get("Whether requests are accepted")},
            "/metrics": {"get": _get("Counters and histograms for Prometheus")},
            **paths,
        },
        "components": {"schemas": schemas},
    }


def component(model: Model) -> str:
    """The name of a model's schemas: "SentencePairs"."""
    return "".join(word.capitalize() for word in model.schema.title.split())


def _get(summary: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": summary}}}


def _post(model: Model, limits: Limits) -> dict[str, Any]:
    stem = component(model)
    reference = lambda name: {"$ref": f"#/components/schemas/{name}"}
    inputs = {"type": "array", "minItems": 1, "maxItems": limits.inputs}
    fields: dict[str, Any] = {"inputs": inputs | {"items": reference(f"{stem}Input")}}
    if model.explains:
        fields["explain"] = {"type": "boolean", "default": False}
    fields["on_bad_line"] = {"enum": [*ON_BAD_LINE], "default": ON_BAD_LINE[0]}
    outputs = {"type": "array", "items": reference(f"{stem}Output")}
    request = {"type": "object", "required": ["inputs"], "properties": fields}
    response = {"type": "object", "required": ["outputs"], "properties": {"outputs": outputs}}
    errors = {
        status: {"description": text, "content": _json(reference("Error"))}
        for status, text in _ERRORS.items()
    }
    return {
        "operationId": f"predict_{model.name}",
        "summary": f"{model.schema.title}: an output for each input, in order",
        "requestBody": {"required": True, "content": _json(request)},
        "responses": {"200": {"description": "Outputs", "content": _json(response)}, **errors},
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
