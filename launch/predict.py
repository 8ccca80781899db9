"""Answers standard input with a trained run, line for line, on standard output."""

import sys

from launch.cli import Parser, quiet, run

DESCRIPTION = (
    __doc__
    + """
An empty line stays an empty line.

example:
  echo "A man rides a horse." | python -m launch.predict --workdir runs/csan/multi30k"""
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.predict", description=DESCRIPTION)
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument("--beam_size", type=int, help="hypotheses kept; 1 is greedy (the run's)")
    args = parser.parse_args(argv)
    if args.beam_size is not None and args.beam_size < 1:
        parser.error(f"--beam_size {args.beam_size}: at least 1")
    quiet()
    from common_jax.text.files import decode_line
    from common_jax.training.run import load

    options = {} if args.beam_size is None else {"beam_size": args.beam_size}
    predictor = load(args.workdir, **options)
    lines = (
        decode_line(line.rstrip(b"\r\n"), "standard input", number)
        for number, line in enumerate(sys.stdin.buffer, start=1)
    )
    for answer in predictor.predict(lines):
        print(answer, flush=True)


if __name__ == "__main__":
    run(main)
