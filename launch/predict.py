"""Answers standard input with a trained run, line for line, on standard output."""

import sys
from collections.abc import Iterator

from launch.cli import Parser, quiet, run

DESCRIPTION = (
    __doc__
    + """
A translator takes text, and an empty line stays an empty line. A reader takes questions as JSON,
{"context": ..., "question": ...}, and answers with JSON; or one question about a file.

example:
  echo "A man rides a horse." | python -m launch.predict --workdir runs/csan/multi30k
  python -m launch.predict --workdir runs/qanet/squad --context FILE --question 'Who was it?'"""
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.predict", description=DESCRIPTION)
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument("--beam_size", type=int, help="hypotheses kept; 1 is greedy (the run's)")
    parser.add_argument("--count", type=int, help="answers to a question, best first (3)")
    parser.add_argument("--context", metavar="FILE", help="text that --question is about")
    parser.add_argument("--question", metavar="TEXT", help="a question about --context")
    args = parser.parse_args(argv)
    options = {}
    for name in ("beam_size", "count"):
        if (value := getattr(args, name)) is not None:
            options[name] = value
            if value < 1:
                parser.error(f"--{name} {value}: at least 1")
    if (args.context is None) != (args.question is None):
        parser.error("--context and --question belong together")
    quiet()
    from common_jax.text.files import read_lines
    from common_jax.training.run import load

    predictor = load(args.workdir, **options)
    if args.context is None:
        lines = _standard_input()
    else:
        lines = iter([predictor.line("\n".join(read_lines(args.context)), args.question)])
    for answer in predictor.predict(lines):
        print(answer, flush=True)


def _standard_input() -> Iterator[str]:
    from common_jax.text.files import decode_line

    for number, line in enumerate(sys.stdin.buffer, start=1):
        yield decode_line(line.rstrip(b"\r\n"), "standard input", number)


if __name__ == "__main__":
    run(main)
