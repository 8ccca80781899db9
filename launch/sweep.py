"""Trains a config with every combination of some of its fields, and with several seeds."""

import sys
from pathlib import Path

from common_jax.errors import Interrupted
from common_jax.sweep.plan import grid_axis, plan, require_own_folders, zipped_axis
from common_jax.sweep.results import Found, find, write_results
from common_jax.training.config import task_class
from launch.cli import Parser, quiet, run
from launch.measure import positive

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
    --zip model.mlp_dim=512,1024 --config.train.steps=1000 --out sweeps/size --dry_run"""
)


def main(argv: list[str]) -> None:
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
    parser.add_argument("--seeds", type=positive, default=1, metavar="N", help="seeds of each (1)")
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="folder of the sweep"
    )
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N", help="trials side by side (1)"
    )
    parser.add_argument(
        "--metric",
        metavar="SPLIT.NAME",
        help="what the figure shows, a column of results.csv (dev's train.best_metric)",
    )
    parser.add_argument("--dry_run", action="store_true", help="list the trials and exit")
    args, overrides = parser.parse_known_args(argv)
    axes = [grid_axis(text) for text in args.grid]
    if args.zip:
        axes.append(zipped_axis(args.zip))
    trials = plan(args.config, overrides, axes, args.seeds, args.out)
    require_own_folders(trials)
    found = [find(trial) for trial in trials]
    if args.dry_run:
        for trial, was in zip(trials, found, strict=True):
            print(f"{trial.name}: {_said(was)}")
        return
    quiet()
    from common_jax.training.interrupt import Requests
    from launch.executors import run_here

    left = [t for t, was in zip(trials, found, strict=True) if was.state not in _OVER]
    _say(f"{len(trials)} trials, {len(trials) - len(left)} of them finished")
    results = args.out / "results.csv"
    with Requests() as requests:
        try:
            with requests.at_once():
                for number, trial in enumerate(run_here(left, args.jobs), start=1):
                    _say(f"[{number}/{len(left)}] {trial.name}: {_said(find(trial))}")
                    write_results(results, trials, [find(each) for each in trials])
        except Interrupted as request:
            raise Interrupted(request.signal, "the same command goes on from there") from request
    found = [find(trial) for trial in trials]
    write_results(results, trials, found)
    print(f"wrote {results}")
    _draw(trials, found, args.metric or f"dev.{trials[0].config.train.best_metric}", args.out)
    if failed := sum(was.state == "failed" for was in found):
        print(f"{failed} of {len(trials)} trials failed; the same command tries them again")
        sys.exit(1)


def _draw(trials: Sequence[Trial], found: Sequence[Found], metric: str, out: Path) -> None:
    from common_jax.report import charts
    from common_jax.sweep.figure import caption, sweep_charts

    shown = sweep_charts(trials, found, metric)
    if not shown:
        known = dict.fromkeys(name for was in found for name in was.metrics)
        _say(f"no figure: no trial has finished with {metric}; there are {', '.join(known)}")
        return
    said = caption(shown, task_class(trials[0].config.task).findings)
    charts.draw(shown, said).savefig(out / "figure.png")
    (out / "figure.svg").write_text(charts.svg(shown, "figure", said), encoding="utf-8")
    print(f"wrote {out / 'figure.png'} and .svg")


_OVER = ("finished", "stopped")


def _said(found: Found) -> str:
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
