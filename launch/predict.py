"""Answers standard input with a trained model, line for line, on standard output."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from common_jax.errors import UserError
from launch.cli import Parser, keep_compiled, quiet, run

DESCRIPTION = (
    __doc__
    + """
A translator takes text, and an empty line stays an empty line. A reader takes questions as JSON,
{"context": ..., "question": ...}, and answers with JSON; or one question about a file, in whose
characters (decoded as UTF-8, line ends as they are) it says where the answer starts and ends. A
judge takes texts, or pairs parted by a tab, and answers with JSON: the label, each label's
probability, and with --explain which words attended to which. A model is a run, or an export
(launch.export), which is checked for damage and of which nothing is executed but its programs.

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
    parser.add_argument(
        "--beam_size", type=int, metavar="N", help="hypotheses kept; 1 is greedy (the run's)"
    )
    parser.add_argument(
        "--count", type=int, metavar="N", help="answers to a question, best first (3)"
    )
    parser.add_argument("--explain", action="store_true", default=None, help="attention's weights")
    parser.add_argument(
        "--vectors", metavar="FILE", help="the run's data.vectors, for words that its corpus lacks"
    )
    parser.add_argument("--context", metavar="FILE", help="text that --question is about")
    parser.add_argument("--question", metavar="TEXT", help="a question about --context")
    args = parser.parse_args(argv)
    options = {}
    for name in ("beam_size", "count", "explain", "vectors"):
        if (value := getattr(args, name)) is not None:
            options[name] = value
    if (args.context is None) != (args.question is None):
        parser.error("--context and --question belong together")
    if args.question is not None and not args.question.strip():
        parser.error("--question: has no word")
    try:
        (args.question or "").encode()
    except UnicodeEncodeError:
        parser.error("--question: not UTF-8")
    quiet()
    keep_compiled()
    from common_jax.deploy import load
    from common_jax.export.format import Export

    model = Export(args.model) if args.model else args.workdir
    predictor = load(model, **options)
    if args.context is None:
        lines, source = _standard_input(), "standard input"
    else:
        if predictor.fields != ("context", "question"):
            raise UserError(f"{args.workdir or args.model}: answers no questions about a text")
        request = {"context": _read(args.context), "question": args.question}
        lines, source = iter([json.dumps(request)]), args.context
    for answer in predictor.predict(lines, source):
        print(answer, flush=True)


def _read(path: str) -> str:
    """The text of a file, every character of it."""
    try:
        return Path(path).read_bytes().decode()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 (after {error.start} bytes)") from error


def _standard_input() -> Iterator[str]:
    from common_jax.io.files import decode_line, lines_of

    if sys.stdin is None:
        raise UserError("standard input: closed; give it lines, or --context and --question")
    for number, line in enumerate(lines_of(sys.stdin.buffer, "standard input"), start=1):
        yield decode_line(line.rstrip(b"\r\n"), "standard input", number)


if __name__ == "__main__":
    run(main)
