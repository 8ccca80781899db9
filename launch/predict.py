"""Applies a trained model to the lines of standard input and prints its predictions."""

import io
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from common_jax.errors import UserError
from common_jax.io.paths import as_path
from launch.cli import (
    Parser,
    add_options,
    configure_logging,
    early_arguments,
    keep_compiled,
    run,
)

if TYPE_CHECKING:
    from common_jax.predictor import Option

DESCRIPTION = (
    __doc__
    + """
A translator reads text; the translation of a blank line is an empty line. A question answerer
reads JSON, {"context": ..., "question": ...}, and prints JSON; or answers one question about a
file, with the answer's start and end in characters of the file (decoded as UTF-8, line ends
included, a byte order mark not). A sentence classifier reads texts, or pairs separated by a tab,
and prints JSON: the label, each label's probability, and with --explain the attention between
words. A model is a run, or an export (launch.export), whose checksums are verified and whose
compiled programs are run. Each model has its own options: --workdir RUN --help lists them. A text
far longer than any in training is named on standard error.

example:
  echo "A man rides a horse." | python -m launch.predict --workdir runs/csan/multi30k
  echo "A man rides a horse." | python -m launch.predict --model exports/translator
  python -m launch.predict --workdir runs/qanet/squad --context FILE --question 'Who was it?'"""
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.predict", description=DESCRIPTION)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--workdir", metavar="RUN", help="folder of the run")
    where.add_argument("--model", metavar="DIR", help="folder of an export")
    parser.add_argument("--context", metavar="FILE", help="text that --question is about")
    parser.add_argument("--question", metavar="TEXT", help="a question about --context")
    model, options = _model(argv)
    add_options(parser, options)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        name, names = unknown[0].lstrip("-"), ", ".join(option.name for option in options)
        path = args.workdir or args.model
        parser.error(f"{path}: its predictor has no option {name}; it has {names or 'none'}")
    if (args.context is None) != (args.question is None):
        parser.error("--context and --question belong together")
    if args.question is not None and not args.question.strip():
        parser.error("--question: has no word")
    configure_logging()
    keep_compiled()
    from common_jax.deploy import load

    chosen = {option.name: getattr(args, option.name) for option in options}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    predictor = load(model, **chosen)
    if args.context is None:
        lines, source = _standard_input(), "standard input"
    else:
        if predictor.fields != ("context", "question"):
            raise UserError(f"{args.workdir or args.model}: answers no questions about a text")
        request = {"context": _read(args.context), "question": args.question}
        lines, source = iter([json.dumps(request)]), args.context
    for answer in predictor.predict(lines, source):
        print(answer, flush=True)


def _model(argv: list[str]) -> tuple[Any, Sequence["Option"]]:
    """The run or export that the arguments name, and the options of its predictor."""
    args = early_arguments("predict", argv, "--workdir", "--model")
    if (args.workdir is None) == (args.model is None):
        return None, ()  # the command's parser reports the error
    from common_jax.deploy import predictor_class
    from common_jax.export.format import Export

    path = args.workdir if args.model is None else args.model
    model = Export(path) if args.model is not None or Export.is_at(path) else path
    return model, predictor_class(model).options


def _read(path: str) -> str:
    """The text of a UTF-8 file, with line ends unchanged, without a byte order mark."""
    try:
        return as_path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 (after {error.start} bytes)") from error


def _standard_input() -> Iterator[str]:
    """The lines of standard input, without their ends."""
    from common_jax.io.files import decode_line, lines_of

    if sys.stdin is None:
        raise UserError("standard input: closed; give it lines, or --context and --question")
    file = cast(io.BufferedIOBase, sys.stdin.buffer)
    for number, line in enumerate(lines_of(file, "standard input"), start=1):
        yield decode_line(line.rstrip(b"\r\n"), "standard input", number)


if __name__ == "__main__":
    run(main)
