"""Makes a table or figure of one of the papers: trains what is missing, and writes a page."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common_jax.errors import Interrupted, UserError, error_context
from common_jax.fields import suggestion
from common_jax.io.atomic import replace_text, write_json, writing
from launch.cli import Parser, command_line, configure_logging, run
from launch.sweep import add_executor, summary, train

if TYPE_CHECKING:
    from common_jax.sweep.plan import Trial
    from common_jax.tables.spec import TableSpec

ROOT = Path(__file__).resolve().parents[1]
TABLES, KEPT = ROOT / "tables", ROOT / "docs" / "results"
DESCRIPTION = (
    __doc__
    + """
TABLE is a file tables/TABLE.toml, such as csan/figure2: its rows, seeds, claims and the paper's
numbers. --list prints all of them with what they need. A row is trained with each seed, as a trial
of an ordinary sweep in OUT/trials: the same command again resumes, and trains nothing when all are
finished. Trials that docs/results/TABLE keeps are not trained again, if their config and version
are those of today.

OUT/page.md and page.html have each row beside the paper's and a verdict on each claim,
OUT/table.csv the rows.

example:
  python -m launch.reproduce --list
  python -m launch.reproduce csan/figure2 --scale small --data DIR --out OUT"""
)


def main(argv: list[str]) -> None:
    parser = _parser()
    args = parser.parse_args(argv)
    from common_jax.tables.spec import read_table, read_tables
    from common_jax.tables.trials import require_data, trials_of

    if args.list:
        for spec in read_tables(TABLES).values():
            print(_listed(spec))
        return
    if args.table is None:
        parser.error("name a table, or --list")
    path = TABLES / f"{args.table}.toml"
    if not path.is_file():
        names = [str(file.relative_to(TABLES))[:-5] for file in sorted(TABLES.glob("*/*.toml"))]
        raise UserError(f"{args.table}: no such table{suggestion(args.table, names)}")
    spec = read_table(path)
    if spec.unavailable:
        raise UserError(f"{spec.name}: cannot be made: {spec.unavailable}")
    scale = args.scale or next(iter(spec.scales))
    if scale not in spec.scales:
        raise UserError(f"--scale {scale}: {spec.name} has {' | '.join(spec.scales)}")
    if args.out is None:
        parser.error("--out: name the folder of the runs and the page")
    data = (args.data or Path("data")).absolute()
    trials = trials_of(spec, scale, data, args.out)
    if args.dry_run:
        _print_plan(trials, args)
        return
    configure_logging()
    require_data(spec, scale, data)
    notes = _train(spec, scale, trials, data, args)
    speeds = {} if args.no_speed else _speeds(trials, args.out)
    _write(spec, scale, trials, speeds, notes, args)
    if args.keep:
        _keep(spec, scale, trials, data)


def _parser() -> Parser:
    parser = Parser(prog="python -m launch.reproduce", description=DESCRIPTION)
    parser.add_argument("table", nargs="?", metavar="TABLE", help="PAPER/NAME")
    parser.add_argument("--list", action="store_true", help="print all tables and exit")
    parser.add_argument("--scale", metavar="NAME", help="paper | small (the table's first)")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder with a folder for each corpus (data)"
    )
    parser.add_argument("--out", type=Path, metavar="OUT", help="folder of the runs and the page")
    add_executor(parser)
    parser.add_argument("--no_speed", action="store_true", help="time no training steps")
    parser.add_argument(
        "--keep", action="store_true", help="keep the finished trials in docs/results/TABLE"
    )
    parser.add_argument("--dry_run", action="store_true", help="list the trials and exit")
    parser.add_argument(
        "--topology",
        metavar="CHIP:SHAPE",
        help="with --dry_run: what they cost there (launch.plan)",
    )
    return parser


def _listed(spec: "TableSpec") -> str:
    """A table in a few lines: scales, systems, data, kept trials, what cannot be made."""
    from common_jax.tables.trials import corpora_of, trials_of

    lines = [f"{spec.name}: {spec.title} ({spec.source})"]
    if spec.unavailable:
        lines.append(f"  cannot be made: {spec.unavailable}")
    for name, scale in spec.scales.items():
        rows, folder = spec.rows_of(name), KEPT / spec.name / name
        kept = len([*folder.glob("*.zip")])
        lines.append(
            f"  --scale {name}: {scale.config}, {len(rows)} rows x {scale.seeds} seeds, "
            f"{kept} trials kept"
        )
        for corpus, needed in corpora_of(spec, name).items():
            lines.append(f"    data {corpus}: {', '.join(needed.files)} ({needed.origin})")
        try:
            trials_of(spec, name, Path("data"), Path("out"))
        except UserError as error:
            lines.append(f"    not yet: {error}")
    lines += [f"  not run: {row.name}: {row.missing}" for row in spec.rows if row.missing]
    return "\n".join(lines)


def _print_plan(trials: Sequence["Trial"], args: argparse.Namespace) -> None:
    """Each trial with its command, and what a row costs on a topology."""
    import shlex

    from common_jax.sweep.results import find
    from common_jax.tables.trials import ROW
    from launch.local_executor import command

    for trial in trials:
        print(f"{trial.name}: {summary(find(trial))}\n  {shlex.join(command(trial)[1:])}")
    if args.topology:
        from common_jax.training.config import task_class
        from launch.plan import plan, prepared_shapes, topology_devices

        chip, _, shape = args.topology.partition(":")
        devices = topology_devices(chip, shape)
        for trial in {trial.values[ROW]: trial for trial in trials}.values():
            task = task_class(trial.config.task)(trial.config)
            largest = max(prepared_shapes(task), key=lambda sizes: sizes[0] * sum(sizes[1:]))
            planned = plan(task, args.topology, devices, largest)
            times = [planned.seconds.get(name, 0) for name in ("arithmetic", "memory", "links")]
            hours = trial.config.train.steps * max(times) / 3600
            print(f"{trial.values[ROW]}: at least {hours:.2f} hours a seed on {args.topology}")


def _train(
    spec: "TableSpec", scale: str, trials: Sequence["Trial"], data: Path, args: argparse.Namespace
) -> list[str]:
    """Trains what is neither here nor kept.

    Returns: notes on kept trials that are not used.
    """
    from common_jax.sweep.plan import require_own_folders
    from common_jax.tables.kept import restore

    with error_context("--out"):
        require_own_folders(trials)
    kept = KEPT / spec.name / scale
    notes = [note for trial in trials if (note := restore(trial, kept, data))]
    try:
        train(trials, args.out / "results.csv", argparse.Namespace(**vars(args), asha=None))
    except Interrupted as request:
        raise Interrupted(request.signal, "the same command resumes from there") from request
    return notes


def _speeds(trials: Sequence["Trial"], out: Path) -> Mapping[str, float]:
    """Each row's rate of training steps relative to the first row's; measured once for OUT."""
    from common_jax.io.json_files import read_json
    from common_jax.tables.trials import ROW
    from launch.bench_train import measure_configs

    path = out / "speed.json"
    first = {trial.values[ROW]: trial.config for trial in reversed(trials)}
    configs = {row: first[row] for row in dict.fromkeys(trial.values[ROW] for trial in trials)}
    if not path.exists() and len(configs) > 1:
        options = {"steps": 10, "inference": False, "parts": False, "profile": None}
        measures = measure_configs(configs, argparse.Namespace(**options))
        speeds = next((m for m in measures if m["measure"] == "speed_to_first"), {})
        with writing(path):
            write_json(path, {row: speeds.get(row) or 1.0 for row in configs})
    return read_json(path).value if path.exists() else {}


def _write(
    spec: "TableSpec",
    scale: str,
    trials: Sequence["Trial"],
    speeds: Mapping[str, float],
    notes: Sequence[str],
    args: argparse.Namespace,
) -> None:
    """The page, and the rows; exits with 1 if trials have failed."""
    from common_jax.report import html, markdown
    from common_jax.tables.page import page, read_results, to_csv

    results = read_results(spec, scale, trials, speeds, notes)
    made_by = command_line(
        "reproduce", [spec.name, "--scale", scale, "--data", "DIR", "--out", "OUT"]
    )
    report = page(results, made_by)
    with writing(args.out):
        markdown.write(args.out / "page.md", report)
        replace_text(args.out / "page.html", html.to_html(report))
        replace_text(args.out / "table.csv", to_csv(results))
    print(f"wrote {args.out / 'page.md'}, page.html and table.csv")
    if missing := [
        t.name for t, s in zip(trials, results.statuses, strict=True) if s.state != "finished"
    ]:
        print(f"{len(missing)} of {len(trials)} trials have not finished: {', '.join(missing)}")
        sys.exit(1)


def _keep(spec: "TableSpec", scale: str, trials: Sequence["Trial"], data: Path) -> None:
    from common_jax.sweep.plan import SEED
    from common_jax.tables.kept import keep

    folder, split = KEPT / spec.name / scale, spec.scales[scale].split
    first = min(trial.values[SEED] for trial in trials)
    for trial in trials:
        keep(trial, folder, split, data, predictions=trial.values[SEED] == first)
    print(f"kept {len(trials)} trials in {folder}")


if __name__ == "__main__":
    run(main)
