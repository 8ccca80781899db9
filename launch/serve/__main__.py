"""Serves trained models: a page for each, and an HTTP API.

Takes any number of runs and exports of all families. A model's NAME in URLs is the name of its
folder unless given. POST /v1/models/NAME:predict takes {"inputs": [...]}, each like a line for
launch.predict, and returns {"outputs": [...]}; /openapi.json describes the API. Requests that
arrive together are computed in batches. Programs are compiled first: "serving" is printed, and
/readyz has status 200, when texts up to the longest of training wait for no compilation. On SIGTERM
the server answers those in flight. It has no password: without --host only this machine can reach
it (docs/serving.md). It needs the extra serve.

example:
  python -m launch.serve --demo --port 8000
  python -m launch.serve --model de=exports/translator --workdir reader=runs/qanet/squad
  curl -H 'content-type: application/json' http://127.0.0.1:8000/v1/models/de:predict \\
    -d '{"inputs": ["The book costs twelve euros in this shop."]}'
"""

import argparse
import contextlib
import functools
import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from common_jax.deploy.named import demos, short_name
from common_jax.errors import UserError, missing_extra
from common_jax.io.paths import DEMO
from launch.arguments import (
    Parser,
    add_memory,
    add_options,
    add_untrusted,
    early_arguments,
    option_values,
    trust,
)
from launch.cli import configure_logging, run
from launch.compiled import keep_compiled
from launch.serve.limits import Limits

if TYPE_CHECKING:
    from common_jax.deploy.format import Export
    from common_jax.deploy.predictor import Option

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LIMITS = {  # fields of `Limits`, flags --max_*
    "body": "bytes of a request",
    "inputs": "inputs of a request",
    "length": "words or subword pieces of a text",
    "batch": "inputs computed at once",
    "queue": "waiting inputs of a model",
}


class Source(NamedTuple):
    """A model of the command line: its flag (--workdir or --model), name and folder."""

    flag: str
    name: str
    path: str


def main(argv: list[str]) -> None:
    parser = _parser()
    options: list[Option] = []
    opened: dict[Source, str | Export] = {}
    known = early_arguments("serve", argv, _add_sources, add_untrusted)
    if sources := _sources(known):
        for source in sources:
            with contextlib.suppress(UserError):  # reported later
                opened[source] = _open(source, known)
        options = _options(opened.values())
        add_options(parser, options)
    args = parser.parse_args(argv)
    args.sources = _sources(args)
    _require_names(args.sources)
    _require_extra()
    from launch.serve.server import listen, serve

    sizes = {name: getattr(args, f"max_{name}") for name in _LIMITS}
    limits = Limits(**sizes, timeout=args.timeout)
    configure_logging()
    keep_compiled()
    with listen(args.host, args.port) as listening:
        service = _service(limits, args, option_values(args, options), opened)
        names = ", ".join(source.name for source in args.sources)
        serve(service, listening, names, args.lazy)


def _parser() -> Parser:
    usage = "%(prog)s [--demo] [--workdir [NAME=]DIR] [--model [NAME=]DIR] [options]"
    parser = Parser(prog="python -m launch.serve", usage=usage, description=__doc__)
    add = parser.add_argument
    _add_sources(parser)

    # address
    add("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    add(
        "--allowed_hosts",
        default=[],
        type=_names,
        metavar="NAME,NAME",
        help="names of this server in URLs, beside its address and localhost",
    )
    add("--port", type=int, default=8000, metavar="N", help="0: a free port (8000)")

    # limits
    for name, text in _LIMITS.items():
        default = getattr(Limits, name)
        add(f"--max_{name}", type=int, default=default, metavar="N", help=f"{text} ({default})")
    text = f"limit for a body to arrive, and for its answer ({Limits.timeout:g})"
    add("--timeout", type=float, default=Limits.timeout, metavar="SECONDS", help=text)
    add_memory(parser)

    # the server
    text = "compile programs when texts need them, not before serving"
    add("--lazy", action="store_true", help=text)
    text = "log the method, path and status of each request, on standard error"
    add("--log_requests", action="store_true", help=text)
    add_untrusted(parser)
    return parser


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _require_extra() -> None:
    """Raises UserError unless the packages of the extra `serve` are installed."""
    for module in ("starlette", "uvicorn", "prometheus_client"):
        if importlib.util.find_spec(module) is None:
            raise missing_extra(f"{module} is not installed; launch.serve", "serve")


def _add_sources(parser: Parser) -> None:
    text = "small trained models of this package"
    parser.add_argument("--demo", action="store_true", help=text)
    flags = {"--workdir": "folder of a run", "--model": "folder or name of an export"}
    for flag, text in flags.items():
        parser.add_argument(
            flag,
            dest="sources",
            action="append",
            default=[],
            type=functools.partial(_source, flag),
            metavar="[NAME=]DIR",
            help=f"{text}; may be repeated",
        )


def _sources(args: argparse.Namespace) -> list[Source]:
    demo = [Source("--model", name, DEMO + name) for name in demos()]
    return [*args.sources, *(demo if args.demo else [])]


def _open(source: Source, args: argparse.Namespace) -> "str | Export":
    """The folder of a run; or an export, whose checksums are verified."""
    from common_jax.deploy.format import Export

    is_export = source.flag == "--model" or Export.is_at(source.path)
    return Export(source.path, **trust(args)) if is_export else source.path


def _options(models: Iterable["str | Export"]) -> list["Option"]:
    """The options of the models' predictors that hold for all requests."""
    from common_jax.deploy import predictor_class

    options: dict[str, Option] = {}
    for model in models:
        with contextlib.suppress(UserError):  # reported later
            options |= {o.name: o for o in predictor_class(model).options if not o.detail}
    return [*options.values()]


def _require_names(sources: Sequence[Source]) -> None:
    """Raises UserError for no model, a name that cannot be in a URL, or equal names."""
    if not sources:
        raise UserError("give --workdir, --model or --demo (see python -m launch.serve --help)")
    paths: dict[str, str] = {}
    for flag, name, path in sources:
        if not _NAME.fullmatch(name):
            raise UserError(f"{flag} {path}: {name!r} cannot be in a URL; write NAME={path}")
        if name in paths:
            raise UserError(
                f"{flag} {path}: {name!r} is also the name of {paths[name]}; write NAME={path}"
            )
        paths[name] = path


def _source(flag: str, text: str) -> Source:
    """The model of [NAME=]DIR; its name is the folder's unless given."""
    name, equals, path = text.partition("=")
    if equals and "/" not in name:
        return Source(flag, name, path)
    return Source(flag, short_name(text), text)


def _service(
    limits: Limits,
    args: Any,
    options: Mapping[str, Any],
    opened: Mapping[Source, "str | Export"],
) -> Any:
    """The HTTP application with all models loaded.

    Args:
      options: of predictors; each model takes those that it has.
      opened: the models that could be opened.
    """
    from common_jax.deploy import load_model
    from launch.serve.app import Service
    from launch.serve.metrics import Metrics
    from launch.serve.models import served

    metrics = Metrics()
    compiler = ThreadPoolExecutor(1, "compiler")
    models = []
    for source in args.sources:
        model_at = opened.get(source) or _open(source, args)
        loaded = load_model(model_at, max_memory=args.max_memory, compiler=compiler)
        known = {option.name for option in loaded.kind.options}
        chosen = {name: value for name, value in options.items() if name in known}
        models.append(served(source.name, loaded, limits, metrics, chosen))
    return Service(models, limits, metrics, args.log_requests, args.allowed_hosts)


if __name__ == "__main__":
    run(main)
