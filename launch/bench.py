"""Times what the library computes, on this machine."""

import json
import os
from pathlib import Path

from common_jax.errors import UserError
from launch.bench_attention import add_attention
from launch.bench_predict import add_predict
from launch.bench_train import add_train
from launch.cli import Parser, command_line, configure_logging, run
from launch.timing import machine, table

DESCRIPTION = (
    __doc__
    + """
Ratios within one run mean more than seconds: a busy machine slows all alike. Each command has a
--help of its own.

example:
  python -m launch.bench attention --lengths 64,512,2048
  python -m launch.bench train --config configs/csan/quickstart.py --parts --json train.json
  python -m launch.bench predict --workdir runs/csan/quickstart --model exports/translator \\
    --input sentences.txt"""
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.bench", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (add_attention, add_train, add_predict):
        command = add(commands)
        command.add_argument(
            "--json", type=Path, metavar="FILE", help="write the numbers there too"
        )
    args, overrides = parser.parse_known_args(argv)
    if overrides and args.command != "train":
        parser.error(f"unrecognized arguments: {' '.join(overrides)}")
    args.overrides = overrides
    if args.json and not args.json.absolute().parent.is_dir():
        raise UserError(f"--json: there is no folder {args.json.absolute().parent}")
    if args.json and os.path.isdir(args.json):
        raise UserError(f"--json: {args.json} is a folder; name a file")
    configure_logging()
    busy = os.getloadavg()[0]
    rows = args.measure(args)
    print(table(rows))
    if args.json:
        from common_jax.io.atomic import writing

        report = {"command": command_line("bench", argv), **machine(busy), "rows": rows}
        with writing(args.json):
            args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
