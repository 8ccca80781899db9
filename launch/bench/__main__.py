"""Times attention, training steps and predictions on this machine."""

import os

from common_jax.io.atomic import write_json, writing
from launch.arguments import Parser, output_file
from launch.bench.attention import add_attention
from launch.bench.predict import add_predict
from launch.bench.train import add_train
from launch.cli import command_line, configure_logging, run
from launch.measure.timing import machine
from launch.text_table import table

DESCRIPTION = (
    (__doc__ or "")
    + """
On a busy machine compare ratios within one run, not seconds: load slows all measurements. Each
command has its own --help.

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
            "--json", type=output_file, metavar="FILE", help="also write the numbers to FILE"
        )

    # Only the train command takes fields of a config.
    args, overrides = parser.parse_known_args(argv)
    if overrides and args.command != "train":
        parser.error(f"unrecognized arguments: {' '.join(overrides)}")
    args.overrides = overrides

    # The load before the measurement is that of other programs.
    configure_logging()
    busy = os.getloadavg()[0]
    rows = args.measure(args)
    print(table(rows))
    if args.json:
        report = {"command": command_line("bench", argv), **machine(busy), "rows": rows}
        with writing(args.json):
            write_json(args.json, report)


if __name__ == "__main__":
    run(main)
