"""Trains a config with all combinations of some fields' values, and with several seeds.

Each trial is an ordinary run in DIR/trials, with its output in a log file. The same command resumes
the sweep: it skips finished trials, resumes interrupted ones and repeats failed ones; with more
values or seeds it trains only the new ones. A trial that fails is recorded with its error, the
others continue, and the exit status is 1.
DIR/results.csv has a row for each trial; DIR/figure.png and .svg show the metric by each field;
DIR/report.html compares the trials. While they train, launch.report DIR --every 30 shows them.

example:
  python -m launch.sweep --config configs/csan/quickstart.py --grid model.token_window=3,11 \\
    --grid model.head_window=1,3 --seeds 2 --out sweeps/quickstart
  python -m launch.sweep --config configs/csan/multi30k.py --zip model.dim=128,256 \\
    --zip model.mlp_dim=512,1024 --out sweeps/size --dry_run
  python -m launch.sweep --config configs/csan/quickstart.py --seeds 3 \\
    --systems transformer,csan_1d,csan_2d --out sweeps/systems
"""

import contextlib
import json
import sys
from typing import TYPE_CHECKING

from launch.arguments import Parser, add_config, add_output, add_systems, folder, positive
from launch.cli import configure_logging, run
from launch.trials.executor import Executor, add_executor
from launch.trials.train import log, summary

if TYPE_CHECKING:
    from launch.api.sweeps import Sweep


def main(argv: list[str]) -> None:
    parser = _parser()
    args, overrides = parser.parse_known_args(argv)
    if args.dry_run and args.json:
        parser.error("--json does not go with --dry_run")
    executor = Executor.of(args)
    from launch.api.sweeps import plan_sweep
    from launch.trials.trials import grid_axis, zipped_axis

    axes = [grid_axis(text) for text in args.grid]
    if args.zip:
        axes.append(zipped_axis(args.zip))
    options = {name: getattr(args, name) for name in ("systems", "seeds", "out", "metric")}
    sweep = plan_sweep(args.config, axes, overrides, **options)
    if args.dry_run:
        pairs = zip(sweep.trials, sweep.statuses, strict=True)
        print("\n".join(f"{trial.name}: {summary(status)}" for trial, status in pairs))
        return
    configure_logging(args.quiet)
    sweep.train(executor)
    with contextlib.redirect_stdout(sys.stderr if args.json else sys.stdout):
        print(f"wrote {args.out / 'results.csv'}")
        _draw(sweep)
        if missing := len(sweep.unfinished):
            count = len(sweep.trials)
            print(f"{missing} of {count} trials have not finished; the same command resumes")
    if args.json:
        print(json.dumps(sweep.rows, ensure_ascii=False))
    if missing:
        sys.exit(1)


def _parser() -> Parser:
    usage = "%(prog)s --config FILE[:ARG] --out DIR [options]"
    parser = Parser(prog="python -m launch.sweep", usage=usage, description=__doc__)

    # The axes of the sweep, and its folder.
    add = parser.add_argument
    add_config(parser, "set a field of all trials")
    text = 'a field and its values, combined with all others; ["V", "V"] for values with commas'
    add("--grid", action="append", default=[], metavar="KEY=V,V,...", help=text)
    text = "fields that vary jointly: the first values of all, then the second"
    add("--zip", action="append", default=[], metavar="KEY=V,V,...", help=text)
    add_systems(parser, "an axis of the sweep, the column `system` of results.csv")
    add("--seeds", type=positive, default=1, metavar="N", help="seeds of each (1)")
    add("--out", required=True, type=folder, metavar="DIR", help="folder of the sweep")

    # How trials run, and how they are compared.
    add_executor(parser)
    text = "on Ray: only the best quarter continues at STEP, four times STEP, ..."
    add("--asha", type=positive, metavar="STEP", help=text)
    text = "metric of the figure, a column of results.csv (dev's train.best_metric)"
    add("--metric", metavar="SPLIT.NAME", help=text)
    add("--dry_run", action="store_true", help="list the trials and exit")
    add_output(parser, "the rows of results.csv")
    return parser


def _draw(sweep: "Sweep") -> None:
    """Writes the figure, or logs why there is none; and the page."""
    if sweep.charts:
        sweep.write_figure()
        print(f"wrote {sweep.folder / 'figure.png'} and .svg")
    elif sweep.varies:
        names = dict.fromkeys(name for status in sweep.statuses for name in status.metrics)
        log(f"no figure: no trial has finished with {sweep.metric}; there are {', '.join(names)}")
    else:
        log("no figure: nothing but the seed varies")
    print(f"wrote {sweep.write_page()}: state, scores and curves of the trials")


if __name__ == "__main__":
    run(main)
