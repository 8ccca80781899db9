"""`launch.bench train`: speed, memory and the parts of a config's training step."""

import argparse

from common_jax.errors import UserError
from common_jax.io.paths import disk_path
from launch.arguments import add_config, add_systems, positive, system_files
from launch.cli import configure_logging
from launch.text_table import Row

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


def add_train(commands) -> argparse.ArgumentParser:
    """Adds the command and its arguments."""
    parser = commands.add_parser("train", help="a config's training step", description=TRAIN)
    add = parser.add_argument
    parser.set_defaults(measure=measure_train)

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


def measure_train(args: argparse.Namespace) -> list[Row]:
    """A row for each measure, with a column for each system, or for each number of steps a call."""
    from common_jax.deploy.configs import parse
    from launch.measure.steps import ROUNDS, is_packed, timed

    files = system_files(args.config, args.systems)
    configs = {name: parse(file, args.overrides) for name, file in files.items()}
    if args.inference and any(map(is_packed, configs.values())):
        raise UserError("--inference: predictions need data.batching=buckets, a row for each text")
    if args.profile and args.profile.exists() and not args.profile.is_dir():
        raise UserError(f"--profile {args.profile}: not a folder")
    configure_logging()
    several = bool(args.systems)
    columns = timed(configs, args, ROUNDS if several else 1)
    first = next(iter(columns.values()))
    for timer in columns.values():
        timer.finish(first if several else None)
    names = dict.fromkeys(name for timer in columns.values() for name in timer.values)
    return [
        {"measure": name, **{column: timer.values.get(name) for column, timer in columns.items()}}
        for name in names
    ]
