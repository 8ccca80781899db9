"""Models of a server: a run or an export, its schema, and the batches of its predictors."""

import dataclasses
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from common_jax.deploy import LoadedModel
from common_jax.deploy.predictor import ParsedLine, Predictor
from common_jax.errors import UserError
from common_jax.io.json_files import Node, parse_json
from launch.serve.batching import Batcher, batch_size
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics

ON_BAD_LINE = ("continue", "stop")  # the first is the default


class Request(NamedTuple):
    """The body of a request for predictions.

    Attributes:
      inputs: as in its JSON.
      explain: whether the answers are to be explained.
      stops: whether one unusable input refuses the whole request.
    """

    inputs: list[Any]
    explain: bool
    stops: bool = False

    @classmethod
    def of(cls, body: bytes, limits: Limits) -> "Request":
        """
        Raises:
          HTTPException: for a body that is no such JSON, or too many inputs.
        """
        request = _parsed(body)
        try:
            inputs = request.get("inputs", list)
            explain = request.get("explain", bool, False)
            on_bad_line = request.get("on_bad_line", str, ON_BAD_LINE[0])
        except UserError as error:
            raise HTTPException(422, str(error)) from None

        # values
        if unknown := set(request.value) - {"inputs", "explain", "on_bad_line"}:
            raise HTTPException(422, f"body: unknown field {json.dumps(min(unknown)[:60])}")
        if not inputs:
            raise HTTPException(422, "body: inputs: is empty")
        if len(inputs) > limits.inputs:
            raise HTTPException(422, f"body: {len(inputs)} inputs; at most {limits.inputs}")
        if on_bad_line not in ON_BAD_LINE:
            raise HTTPException(422, f"body: on_bad_line: must be {' or '.join(ON_BAD_LINE)}")
        return cls(inputs, explain, on_bad_line == "stop")


class Model:
    """A predictor and, where it can explain its answers, one that does.

    Attributes:
      name: in addresses.
      schema: of both.
      explains: whether there is an explaining one.
    """

    def __init__(
        self,
        name: str,
        predictor: Predictor,
        explaining: Predictor | None,
        limits: Limits,
        metrics: Metrics,
    ):
        self.name = name
        self.schema = predictor.schema
        self.explains = explaining is not None
        self._limits = limits
        self._predictors = {False: predictor} | ({True: explaining} if explaining else {})
        self._batchers = {
            explain: Batcher(variant, limits, metrics)
            for explain, variant in self._predictors.items()
        }
        metrics.waiting.labels(name).set_function(lambda: self.waiting)

    @property
    def waiting(self) -> int:
        """The number of inputs that wait."""
        return sum(batcher.waiting for batcher in self._batchers.values())

    async def answer(self, request: Request) -> list[str | HTTPException]:
        """The answers, each a JSON object as text, and an error for each input that cannot be used.

        Raises:
          HTTPException: if they cannot be given.
        """
        explain = request.explain
        if explain not in self._batchers:
            raise HTTPException(422, f"body: explain: {self.name} cannot explain its answers")

        # inputs that can be used
        predictor = self._predictors[explain]
        lines: list[ParsedLine | HTTPException] = []
        for number, value in enumerate(request.inputs):
            try:
                lines.append(self._parse(predictor, value, f"inputs[{number}]", explain))
            except HTTPException as refused:
                if request.stops:
                    raise
                lines.append(refused)

        # their answers, with the errors of the others in between
        usable = [line for line in lines if not isinstance(line, HTTPException)]
        answers = iter(await self._batchers[explain].answers(usable) if usable else ())
        results: list[str | HTTPException] = []
        for number, line in enumerate(lines):
            result = line if isinstance(line, HTTPException) else next(answers)
            if isinstance(result, HTTPException) and result is not line:
                result = HTTPException(result.status_code, f"inputs[{number}]: {result.detail}")
            if isinstance(result, HTTPException) and request.stops:
                raise result
            results.append(result if isinstance(result, HTTPException) else result.json)
        return results

    def warm_up(self) -> None:
        """Compiles the shapes of the examples for all sizes of a batch.

        Raises:
          UserError: if the model cannot answer one.
        """
        sizes = {
            batch_size(count, self._limits.batch) for count in range(1, self._limits.batch + 1)
        }
        for size in sorted(sizes):
            for example in self.example_lines():
                self._compute([example] * size)

    def try_out(self) -> None:
        """Answers an example.

        Raises:
          UserError: if the model cannot.
        """
        self._compute(self.example_lines()[:1])

    def example_lines(self) -> list[str]:
        """The lines of the schema's examples."""
        names = [text.name for text in self.schema.texts]
        values = (dict(zip(names, texts, strict=True)) for texts in self.schema.examples)
        return [self.schema.to_line(value, "example") for value in values]

    def _compute(self, lines: list[str]) -> None:
        for _ in self._predictors[False].predict(lines, f"{self.name}: example"):
            pass

    def _parse(self, predictor: Predictor, value: Any, place: str, explain: bool) -> ParsedLine:
        """An input, tokenized.

        Raises:
          HTTPException: with status 422, for an input that the predictor would refuse, or that is
            too long.
        """
        limits = self._limits
        most = min(limits.length, self.schema.explained_length) if explain else limits.length
        for text in value.values() if isinstance(value, dict) else [value]:
            if isinstance(text, str) and len(text) > limits.characters * len(self.schema.texts):
                raise HTTPException(422, f"{place}: a text of {len(text)} characters is too long")
        try:
            line = predictor.parse(self.schema.to_line(value, place), place)
        except UserError as error:
            raise HTTPException(422, str(error)) from None
        if (longest := max(line.lengths, default=0)) > most:
            what = "explained" if explain and most < limits.length else "read"
            raise HTTPException(
                422, f"{place}: a text of length {longest}; at most {most} is {what}"
            )
        return line


def served(
    name: str,
    loaded: LoadedModel,
    limits: Limits,
    metrics: Metrics,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Model:
    """The model of a run or an export, with the detail options that it supports.

    Args:
      options: of its predictors.

    Raises:
      UserError: for options that it does not support.
    """
    details = {}
    for option in loaded.kind.options:
        if option.detail and _supports(loaded, {option.name: True, **options}):
            details[option.name] = True
    explaining = loaded.predictor(**details, **options) if details else None
    model = Model(name, loaded.predictor(**options), explaining, limits, metrics)
    if not loaded.generated:
        model.schema = dataclasses.replace(model.schema, generated="", outside=())
    return model


def _supports(loaded: LoadedModel, options: Mapping[str, Any]) -> bool:
    try:
        loaded.predictor(**options)
    except UserError:  # an export without its program
        return False
    return True


def described(model: Model) -> Mapping[str, Any]:
    """A model as a JSON object, for the API and for its page."""
    schema = model.schema
    return {
        "name": model.name,
        "title": schema.title,
        "explains": model.explains,
        "texts": [
            {name: getattr(text, name) for name in ("name", "title", "lines", "several")}
            for text in schema.texts
        ],
        "views": [dataclasses.asdict(view) for view in schema.views],
        "examples": schema.examples,
        "generated": schema.generated,
        "outside": schema.outside,
    }


def _parsed(body: bytes) -> Node:
    """The JSON of a body.

    Raises:
      HTTPException: with status 400, if it is not JSON in UTF-8.
    """
    try:
        return parse_json(body.decode(), "body")
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"body: not UTF-8 after {error.start} bytes") from None
    except UserError as error:
        raise HTTPException(400, str(error)) from None
