"""Models of a server: a run or an export, its schema, and the batches of its predictors."""

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from common_jax.deploy import LoadedModel
from common_jax.deploy.bounded_program import InputTooLargeError
from common_jax.deploy.predictor import ParsedLine, Predictor
from common_jax.deploy.schema import Schema
from common_jax.errors import UserError
from common_jax.io.json_files import Node, parse_json
from launch.serve.batching import Batcher
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
      examples: inputs, a text for each of the schema's.
      trained_on: a sentence on its data if these are generated, else "".
      outside: the last example if it is unlike these data, else ().
    """

    def __init__(
        self,
        name: str,
        predictor: Predictor,
        explaining: Predictor | None,
        limits: Limits,
        metrics: Metrics,
        examples: Sequence[str] = (),
        generated: bool = False,
    ):
        """
        Args:
          examples: lines.
          generated: whether it is trained on generated data.
        """
        self.name = name
        self.schema = predictor.schema
        self.explains = explaining is not None
        self.trained_on = self.schema.generated if generated else ""
        self.outside = self.schema.outside if generated and examples else ()
        self.examples = _texts_of(self.schema, examples) + ([self.outside] if self.outside else [])
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

    @property
    def compiling(self) -> bool:
        """Whether an input waits for the compilation of a program."""
        return any(batcher.compiling for batcher in self._batchers.values())

    async def answer(self, request: Request) -> list[str | HTTPException]:
        """The answers, each a JSON object as text, and an error for each input that cannot be used.

        Texts that are too long to be explained are answered without their details.

        Raises:
          HTTPException: if they cannot be given.
        """
        if request.explain and not self.explains:
            raise HTTPException(422, f"body: explain: {self.name} cannot explain its answers")

        # inputs that can be used
        lines: list[ParsedLine | HTTPException] = []
        for number, value in enumerate(request.inputs):
            try:
                lines.append(self._parse(value, f"inputs[{number}]"))
            except HTTPException as refused:
                if request.stops:
                    raise
                lines.append(refused)

        # their answers, explained or not, with the errors of the others in between
        usable = [line for line in lines if not isinstance(line, HTTPException)]
        explained = [request.explain and self._can_explain(line) for line in usable]
        answered = await asyncio.gather(
            *(
                batcher.answers([u for u, e in zip(usable, explained, strict=True) if e == explain])
                for explain, batcher in self._batchers.items()
            )
        )
        by_variant = dict(zip(self._batchers, map(iter, answered), strict=True))
        answers = (next(by_variant[explain]) for explain in explained)
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
        """Compiles the programs for texts up to the longest of training.

        Raises:
          UserError: if the model cannot answer.
        """
        for explain, predictor in self._predictors.items():
            most = self._longest(explain)
            lengths = [min(length or most, most) for length in predictor.widest]
            lengths += [most] * (len(self.schema.texts) - len(lengths))
            while (line := self._line(predictor, lengths)) is not None:
                with contextlib.suppress(InputTooLargeError):
                    self._batchers[explain].warm_up(line)
                    break
                lengths = [length // 2 for length in lengths]

    def _line(self, predictor: Predictor, lengths: Sequence[int]) -> ParsedLine | None:
        """A line of texts of these lengths or somewhat less; None if they have no word, or if the
        predictor takes no such words."""
        words = [*lengths]
        with contextlib.suppress(UserError):
            for _ in range(2):  # a word may have several pieces
                texts = [" ".join(["a"] * count) for count in words]
                value = {text.name: t for text, t in zip(self.schema.texts, texts, strict=True)}
                line = predictor.parse(self.schema.to_line(value, self.name), self.name)
                pairs = zip(words, lengths, line.lengths, strict=True)
                words = [count * most // max(most, length) for count, most, length in pairs]
            return line
        return None

    def _longest(self, explain: bool) -> int:
        """The length of the longest text that is answered."""
        most = self._limits.length
        return min(most, self.schema.explained_length) if explain else most

    def _can_explain(self, line: ParsedLine) -> bool:
        return max(line.lengths, default=0) <= self._longest(True)

    def _parse(self, value: Any, place: str) -> ParsedLine:
        """An input, tokenized.

        Raises:
          HTTPException: with status 422, for an input that the predictor would refuse, or that is
            too long.
        """
        limits = self._limits
        for text in value.values() if isinstance(value, dict) else [value]:
            if isinstance(text, str) and len(text) > limits.characters * len(self.schema.texts):
                raise HTTPException(422, f"{place}: a text of {len(text)} characters is too long")
        try:
            line = self._predictors[False].parse(self.schema.to_line(value, place), place)
        except UserError as error:
            raise HTTPException(422, str(error)) from None
        if (longest := max(line.lengths, default=0)) > limits.length:
            message = f"{place}: a text of length {longest}; at most {limits.length} is read"
            raise HTTPException(422, message)
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
      UserError: for options that it does not support, or examples that it refuses.
    """
    details = {}
    for option in loaded.kind.options:
        if option.detail and _supports(loaded, {option.name: True, **options}):
            details[option.name] = True
    explaining = loaded.predictor(**details, **options) if details else None
    predictor = loaded.predictor(**options)
    for line in loaded.examples:
        predictor.parse(line, f"{loaded.path}: an example")
    return Model(name, predictor, explaining, limits, metrics, loaded.examples, loaded.generated)


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
        "compiling": model.compiling,
        "texts": [
            {name: getattr(text, name) for name in ("name", "title", "lines", "several")}
            for text in schema.texts
        ],
        "views": [dataclasses.asdict(view) for view in schema.views],
        "details": schema.details,
        "examples": model.examples,
        "trained_on": model.trained_on,
        "outside": bool(model.outside),
    }


def _texts_of(schema: Schema, lines: Sequence[str]) -> list[tuple[str, ...]]:
    """The texts of lines; of those whose last text is several, the equal others have one entry."""
    texts = [schema.to_texts(line) for line in lines]
    if not schema.texts[-1].several:
        return texts
    joined: dict[tuple[str, ...], list[str]] = {}
    for *first, last in texts:
        joined.setdefault(tuple(first), []).append(last)
    return [(*first, "\n".join(several)) for first, several in joined.items()]


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
