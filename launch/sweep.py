"""Trains a config with every combination of some of its fields, and with several seeds."""

import argparse
import contextlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from common_jax.errors import Interrupted, UserError, error_context
from common_jax.io.atomic import writing
from common_jax.sweep.plan import SEED, Trial, grid_axis, plan, require_own_folders, zipped_axis
from common_jax.sweep.results import TrialStatus, find, write_results
from common_jax.training.config import task_class
from launch.cli import Parser, add_systems, configure_logging, run
from launch.timing import positive

DESCRIPTION = (
    __doc__
    + """
Each trial is an ordinary run in DIR/trials, with what it said beside it. The same command again
goes on where the sweep stopped: finished trials are left alone, begun ones resume, failed ones are
tried again; with more values or seeds, only the new ones are trained. A trial that fails is
recorded with its error while the rest go on (the exit status is 1 then).

DIR/results.csv has a row for each trial, and DIR/figure.png and .svg show the metric against each
field, mean and interval over seeds.

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
    if args.gpus is not None and args.gpus < 0:
        parser.error(f"--gpus {args.gpus}: not negative")
    if args.out.exists() and not args.out.is_dir():
        raise UserError(f"--out: {args.out}: not a folder")
    axes = [grid_axis(text) for text in args.grid]
    if args.zip:
        axes.append(zipped_axis(args.zip))
    trials = plan(args.config, overrides, axes, args.seeds, args.out, args.systems)
    with error_context("--out"):
        require_own_folders(trials)
    _require_metric(args.metric, trials[0])
    most = max(trial.config.train.steps for trial in trials)
    if args.asha and args.asha > most:
        parser.error(f"--asha {args.asha}: no trial has more than {most} steps")
    if args.dry_run:
        print("\n".join(f"{trial.name}: {_said(find(trial))}" for trial in trials))
        return
    configure_logging()
    results = args.out / "results.csv"
    try:
        _train(trials, results, args)
    except Interrupted as request:
        raise Interrupted(request.signal, "the same command goes on from there") from request
    found = [find(trial) for trial in trials]
    write_results(results, trials, found)
    print(f"wrote {results}")
    _draw(trials, found, args.metric or f"dev.{trials[0].config.train.best_metric}", args.out)
    if missing := sum(was.state not in ("finished", "stopped") for was in found):
        print(f"{missing} of {len(trials)} trials have not finished; the same command goes on")
        sys.exit(1)


def _parser() -> Parser:
    parser = Parser(prog="python -m launch.sweep", description=DESCRIPTION)
    parser.add_argument("--config", required=True, metavar="FILE[:ARG]", help="config file")
    parser.add_argument("--config.KEY", metavar="VALUE", dest="_", help="set a field of all trials")
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="KEY=V,V,...",
        help='a field and its values, every one with all others; ["V", "V"] for such with commas',
    )
    parser.add_argument(
        "--zip",
        action="append",
        default=[],
        metavar="KEY=V,V,...",
        help="fields that move together, the first values of all, then the second",
    )
    add_systems(parser, "sweep over them; results.csv has them in the column `system`")
    parser.add_argument("--seeds", type=positive, default=1, metavar="N", help="seeds of each (1)")
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="folder of the sweep"
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="trials side by side (1; on Ray as many as there is room for)",
    )
    parser.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="this machine, or a Ray cluster (local)",
    )
    parser.add_argument(
        "--cpus", type=positive, default=1, metavar="N", help="CPUs that Ray gives a trial (1)"
    )
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="GPUs that Ray gives a trial (1 where there are any)"
    )
    parser.add_argument(
        "--asha",
        type=positive,
        metavar="STEP",
        help="on Ray: stop a trial that is not among the best quarter of those at STEP, at four "
        "times STEP, and so on",
    )
    parser.add_argument(
        "--metric",
        metavar="SPLIT.NAME",
        help="what the figure shows, a column of results.csv (dev's train.best_metric)",
    )
    parser.add_argument("--dry_run", action="store_true", help="list the trials and exit")
    return parser


def _train(trials: Sequence[Trial], results: Path, args: argparse.Namespace) -> None:
    """Trains what is left to train, and keeps `results` up to date."""
    from common_jax.training.preemption import PreemptionHandler
    from launch.local_executor import run_here

    over = ("finished", "stopped") if args.asha else ("finished",)
    left = [trial for trial in trials if find(trial).state not in over]
    _say(f"{len(trials)} trials, {len(trials) - len(left)} of them finished")
    numbers = itertools.count(1)

    def done(trial: Trial) -> None:
        _say(f"[{next(numbers)}/{len(left)}] {trial.name}: {_said(find(trial))}")
        write_results(results, trials, [find(each) for each in trials])

    if args.executor == "ray" and left:
        from launch.ray_executor import run_on_ray

        given = {name: getattr(args, name) for name in ("jobs", "cpus", "gpus", "asha")}
        run_on_ray(left, args.out, done, **given)
    else:
        running = contextlib.closing(run_here(left, args.jobs or 1))
        with PreemptionHandler() as requests, requests.interruptible(), running as ended:
            for trial in ended:
                done(trial)


def _require_metric(metric: str | None, trial: Trial) -> None:
    task = task_class(trial.config.task)(trial.config)
    splits = task.splits
    split, _, name = (metric or "").partition(".")
    if metric is not None and (split not in splits or not name):
        raise UserError(f"--metric {metric}: write SPLIT.NAME, with {' | '.join(splits)}")
    if split == "dev" and name not in task.metric_names:
        raise UserError(f"--metric {metric}: dev has {' | '.join(task.metric_names)}")


def _draw(trials: Sequence[Trial], found: Sequence[TrialStatus], metric: str, out: Path) -> None:
    from common_jax.compare import comparison_of
    from common_jax.report import charts
    from common_jax.sweep.figure import caption, sweep_charts

    shown = sweep_charts(trials, found, metric)
    if [*trials[0].values] == [SEED]:
        _say("no figure: nothing but the seed varies")
        return
    if not shown:
        known = dict.fromkeys(name for was in found for name in was.metrics)
        _say(f"no figure: no trial has finished with {metric}; there are {', '.join(known)}")
        return
    said = caption(shown, comparison_of(task_class(trials[0].config.task)).findings)
    with writing(out):
        charts.save(shown, out / "figure", said)
    print(f"wrote {out / 'figure.png'} and .svg")


def _said(found: TrialStatus) -> str:
    if found.state == "failed":
        return f"failed at step {found.step}: {found.error}"
    if found.state != "finished":
        return f"{found.state}, step {found.step}" if found.step else found.state
    metrics = "  ".join(f"{name} {value:.2f}" for name, value in found.metrics.items())
    return f"finished in {found.seconds:.0f} s  {metrics}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
