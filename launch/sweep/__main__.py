"""Trains a config with all combinations of some fields' values, and with several seeds."""

import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common_jax.errors import UserError, error_context
from common_jax.io.atomic import writing
from common_jax.io.paths import as_path
from launch.cli import Parser, add_config, add_output, add_systems, configure_logging, positive, run
from launch.trials.train import add_executor, log, summary, train

if TYPE_CHECKING:
    from launch.trials.status import TrialStatus
    from launch.trials.trials import Trial

DESCRIPTION = (
    __doc__
    + """
Each trial is an ordinary run in DIR/trials, with its output in a log file. The same command resumes
the sweep: it skips finished trials, resumes interrupted ones and repeats failed ones; with more
values or seeds it trains only the new ones. A trial that fails is recorded with its error, the
others continue, and the exit status is 1.

DIR/results.csv has a row for each trial; DIR/figure.png and .svg show the metric by each field,
with mean and interval over the seeds.

example:
  python -m launch.sweep --config configs/csan/quickstart.py --grid model.token_window=3,11 \\
    --grid model.head_window=1,3 --seeds 2 --out sweeps/quickstart
  python -m launch.sweep --config configs/csan/multi30k.py --zip model.dim=128,256 \\
    --zip model.mlp_dim=512,1024 --out sweeps/size --dry_run
  python -m launch.sweep --config configs/csan/quickstart.py --seeds 3 \\
    --systems transformer,csan_1d,csan_2d --out sweeps/systems"""
)


def main(argv: list[str]) -> None:
    parser = _parser()
    args, overrides = parser.parse_known_args(argv)
    if args.asha and args.executor != "ray":
        parser.error("--asha: goes with --executor ray")
    from launch.trials.status import find, result_rows, write_results
    from launch.trials.trials import grid_axis, grid_trials, require_own_folders, zipped_axis

    if args.out.exists() and not args.out.is_dir():
        raise UserError(f"--out: {args.out}: not a folder")
    axes = [grid_axis(text) for text in args.grid]
    if args.zip:
        axes.append(zipped_axis(args.zip))
    trials = grid_trials(args.config, overrides, axes, args.seeds, args.out, args.systems)
    with error_context("--out"):
        require_own_folders(trials)
    _require_metric(args.metric, trials[0])
    most = max(trial.config.train.steps for trial in trials)
    if args.asha and args.asha > most:
        parser.error(f"--asha {args.asha}: no trial has more than {most} steps")
    if args.dry_run:
        print("\n".join(f"{trial.name}: {summary(find(trial))}" for trial in trials))
        return
    configure_logging(args.quiet)
    results = args.out / "results.csv"
    train(trials, results, args)
    statuses = [find(trial) for trial in trials]
    missing = sum(status.state not in ("finished", "stopped") for status in statuses)
    metric = args.metric or f"dev.{trials[0].config.train.best_metric}"
    write_results(results, trials, statuses)
    with contextlib.redirect_stdout(sys.stderr if args.json else sys.stdout):
        print(f"wrote {results}")
        _draw(trials, statuses, metric, args.out)
        if missing:
            print(f"{missing} of {len(trials)} trials have not finished; the same command resumes")
    if args.json:
        print(json.dumps(result_rows(trials, statuses), ensure_ascii=False))
    if missing:
        sys.exit(1)


def _parser() -> Parser:
    usage = "%(prog)s --config FILE[:ARG] --out DIR [options]"
    parser = Parser(prog="python -m launch.sweep", usage=usage, description=DESCRIPTION)
    add = parser.add_argument
    add_config(parser, "set a field of all trials")
    text = 'a field and its values, combined with all others; ["V", "V"] for values with commas'
    add("--grid", action="append", default=[], metavar="KEY=V,V,...", help=text)
    text = "fields that vary jointly: the first values of all, then the second"
    add("--zip", action="append", default=[], metavar="KEY=V,V,...", help=text)
    add_systems(parser, "an axis of the sweep, the column `system` of results.csv")
    add("--seeds", type=positive, default=1, metavar="N", help="seeds of each (1)")
    add("--out", required=True, type=as_path, metavar="DIR", help="folder of the sweep")
    add_executor(parser)
    add(
        "--asha",
        type=positive,
        metavar="STEP",
        help="on Ray: stop the trials that are not in the best quarter at STEP, four times STEP, "
        "and so on",
    )
    text = "metric of the figure, a column of results.csv (dev's train.best_metric)"
    add("--metric", metavar="SPLIT.NAME", help=text)
    add("--dry_run", action="store_true", help="list the trials and exit")
    add_output(parser, "the rows of results.csv")
    return parser


def _require_metric(metric: str | None, trial: "Trial") -> None:
    """Raises UserError if the metric is no SPLIT.NAME of the trial's task."""
    from common_jax.training.config import task_class

    task = task_class(trial.config.task)(trial.config)
    splits = task.splits
    split, _, name = (metric or "").partition(".")
    if metric is not None and (split not in splits or not name):
        raise UserError(f"--metric {metric}: write SPLIT.NAME, with {' | '.join(splits)}")
    if split == "dev" and name not in task.metric_names:
        raise UserError(f"--metric {metric}: dev has {' | '.join(task.metric_names)}")


def _draw(
    trials: Sequence["Trial"], statuses: Sequence["TrialStatus"], metric: str, out: Path
) -> None:
    """Writes the figure, or logs why there is none."""
    from common_jax.compare import evaluation_class
    from common_jax.training.config import task_class
    from common_jax.training.identity import SEED
    from launch.pages import charts
    from launch.trials.figure import caption, sweep_charts

    panels = sweep_charts(trials, statuses, metric)
    if [*trials[0].values] == [SEED]:
        log("no figure: nothing but the seed varies")
        return
    if not panels:
        names = dict.fromkeys(name for status in statuses for name in status.metrics)
        log(f"no figure: no trial has finished with {metric}; there are {', '.join(names)}")
        return
    text = caption(panels, evaluation_class(task_class(trials[0].config.task)).findings)
    with writing(out):
        charts.save(panels, out / "figure", text)
    print(f"wrote {out / 'figure.png'} and .svg")


if __name__ == "__main__":
    run(main)
