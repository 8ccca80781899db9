"""Times attention, training steps and predictions on this machine.

On a busy machine compare ratios within one run, not seconds: load slows all measurements. Each
command has its own --help.

example:
  python -m launch.bench attention --lengths 64,512,2048
  python -m launch.bench train --config configs/csan/quickstart.py --parts --json train.json
  python -m launch.bench predict --workdir runs/csan/quickstart --model exports/translator \\
    --input sentences.txt
"""

import argparse
import os

from common_jax.errors import UserError
from common_jax.io.atomic import write_json, writing
from common_jax.io.paths import disk_path
from launch.arguments import Parser, add_config, add_systems, output_file, positive, system_files
from launch.bench.predict import add_predict
from launch.cli import command_line, configure_logging, run
from launch.measure.timing import ROUNDS, SECONDS_A_LENGTH, machine
from launch.text_table import Row, table

ATTENTION = """Time and temporary memory of attention with its gradient, float32, for each length:
"vanilla" is jax.nn.dot_product_attention without a mask; 1D attends in a token window, 2D in an
area of tokens and heads; translation uses "auto", QANet "chunked", without a window; on a GPU,
"cudnn" is vanilla in bfloat16.

All forms are timed in turn within one run, in a new random order in each round; the table shows
medians. On a busy machine compare the ratios, not the milliseconds. "speed" is relative to the
dense form (or to vanilla). A form that does not fit into memory has no time.

example:
  python -m launch.bench attention --lengths 64,512,2048 --json attention.json"""


TRAIN = """Times training steps of a config on its own data, after compiling every shape of batch
that occurs in them: compilation, throughput, share of time waiting for data, cost of a save,
memory, arithmetic as a share of the devices' peak (of a CPU, of a large matrix product in the same
run); with --inference also predictions for the same batches, with --parts the parts of a step as
shares of the devices' busy time.

If train.steps_per_call is above 1, one step a call is timed too. Several --systems of one config
file are compiled several at a time and timed in turn, in several rounds with a new random order
each; rates are medians over the rounds, and "speed_to_first" is the median of the rounds' ratios.

example:
  python -m launch.bench train --config configs/csan/quickstart.py --parts --json train.json
  python -m launch.bench train --config configs/csan/quickstart.py --systems transformer,csan_2d"""


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_attention, _add_train, add_predict):
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


def _add_attention(commands) -> argparse.ArgumentParser:
    """Adds the command and its arguments."""
    parser = commands.add_parser(
        "attention", help="attention with its gradient: time and memory", description=ATTENTION
    )
    add = parser.add_argument
    parser.set_defaults(measure=_measure_attention)

    # The sizes, by default those of the paper's base model.
    default = "16,32,64,128,256,512,1024,2048,4096"
    text = f"tokens in a sequence ({default})"
    add("--lengths", type=_lengths, default=_lengths(default), metavar="T,T,...", help=text)
    for flag, number, meaning in (
        ("--heads", 8, "heads"),
        ("--head_size", 64, "size of a head's queries, keys and values"),
        ("--window", 11, "tokens in the window, odd"),
        ("--head_window", 3, "heads in the area of the 2D forms, odd"),
        ("--batch", 1, "sequences"),
    ):
        text = f"{meaning} ({number})"
        add(flag, type=positive, default=number, metavar="N", help=text)
    text = f"timed rounds ({ROUNDS[0]} to {ROUNDS[1]}, as fit in {SECONDS_A_LENGTH:.0f} s a length)"
    add("--repeats", type=positive, metavar="N", help=text)
    return parser


def _lengths(text: str) -> list[int]:
    """Argument type: positive integers, separated by commas."""
    return [positive(part.strip()) for part in text.split(",")]


def _measure_attention(args: argparse.Namespace) -> list[Row]:
    """A row for each length and form."""
    from launch.bench.forms import attention_forms, measure_length

    forms = attention_forms(args)
    return [row for length in args.lengths for row in measure_length(args, forms, length)]


def _add_train(commands) -> argparse.ArgumentParser:
    """Adds the command and its arguments."""
    parser = commands.add_parser("train", help="a config's training step", description=TRAIN)
    add = parser.add_argument
    parser.set_defaults(measure=_measure_train)

    add_config(parser, "set a field: --config.train.accumulate=2")
    add_systems(parser, "a column for each")
    add("--steps", type=positive, default=30, help="timed steps (30)")

    # What else is measured.
    text = "also predictions for the same batches, as in the final evaluation (not packed ones)"
    add("--inference", action="store_true", help=text)
    add("--parts", action="store_true", help="also the parts of a step")
    add(
        "--profile",
        type=disk_path,
        metavar="DIR",
        help="write a trace of three steps, for TensorBoard",
    )
    return parser


def _measure_train(args: argparse.Namespace) -> list[Row]:
    """A row for each measure, with a column for each system, or for each number of steps a call."""
    from launch.api.configs import config
    from launch.measure.steps import is_packed, timed

    files = system_files(args.config, args.systems)
    configs = {
        name: config(file, args.overrides).with_inferred().values for name, file in files.items()
    }
    if args.inference and any(map(is_packed, configs.values())):
        raise UserError("--inference: predictions need data.batching=buckets, a row for each text")
    if args.profile and args.profile.exists() and not args.profile.is_dir():
        raise UserError(f"--profile {args.profile}: not a folder")
    columns = timed(configs, args)
    first = next(iter(columns.values()))
    for timer in columns.values():
        timer.finish(first if args.systems else None)
    names = dict.fromkeys(name for timer in columns.values() for name in timer.values)
    return [
        {"measure": name, **{column: timer.values.get(name) for column, timer in columns.items()}}
        for name in names
    ]


if __name__ == "__main__":
    run(main)
