"""Reproduces a table or figure of a paper: trains missing trials and writes a page."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common_jax.errors import UserError, error_context
from common_jax.fields import suggestion
from common_jax.io.atomic import replace_text, write_json, writing
from launch.cli import Parser, command_line, configure_logging, disk_path, positive, run
from launch.reproduce.measurements import ANSWERS, SPEED, answers_of, speeds_of
from launch.trials.executor import Executor, add_executor
from launch.trials.train import train

if TYPE_CHECKING:
    from common_jax.document import Report
    from launch.reproduce.claims import Judged
    from launch.reproduce.results import TableResults
    from launch.reproduce.spec import Scale, TableSpec
    from launch.trials.trials import Trial

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT / "configs" / "tables"
STORED = ROOT / "docs" / "results"
DESCRIPTION = (
    (__doc__ or "")
    + """
TABLE is a file tables/TABLE.toml, such as csan/figure2, or FILE.toml: rows, seeds, claims and the
paper's numbers. --list prints all tables and the data that they need. A row is trained with each
seed, as a trial of an ordinary sweep in OUT/trials; the same command resumes. Trials stored in a
clone's docs/results, for this table or another, are not trained again while config and version are
the same.

OUT/page.md and page.html have each row beside the paper's, and a verdict on each claim;
OUT/table.csv has the rows, OUT/claims.csv the claims.

example:
  python -m launch.reproduce --list
  python -m launch.reproduce csan/figure2 --scale small --data DIR --out OUT"""
)


def main(argv: list[str]) -> None:
    parser = _parser()
    args = parser.parse_args(argv)
    from launch.reproduce.listing import listed, print_trials, stored_page
    from launch.reproduce.spec import read_table, read_tables
    from launch.reproduce.statements import statements_page
    from launch.reproduce.trials import require_data, trials_of

    if (args.keep or args.keep_model) and not (ROOT / "docs").is_dir():
        parser.error(
            "--keep, --keep_model: store in docs/results of a clone, not of an installed package"
        )

    # The list of tables, and the pages that are made with it.
    if args.list:
        specs = read_tables(TABLES).values()
        for spec in specs:
            print(listed(spec, STORED))
        if args.keep:
            replace_text(STORED / "tables.md", stored_page(specs, STORED))
            replace_text(STORED / "claims.md", statements_page(specs, STORED))
        return

    # One table at one scale.
    if args.table is None:
        parser.error("name a table, or --list")
    spec = read_table(_table_file(args.table))
    scale = _scale(spec, args)
    if args.out is None:
        parser.error("--out: name the folder of the runs and the page")
    if args.keep and args.rows:
        parser.error("--keep: the stored page has all rows; leave out --rows")

    # Its trials, which are printed, or trained.
    data = (args.data or Path("data")).absolute()
    trials = trials_of(spec, scale, data, args.out)
    if args.dry_run:
        print_trials(trials)
        return

    configure_logging()
    if args.keep_model:
        from launch.reproduce.kept_model import keep_model

        require_data(spec, scale, data)
        stored = STORED / spec.name / scale.name
        print(f"wrote {keep_model(args.keep_model, trials, scale, stored, Executor.of(args))}")
        return
    if not (args.no_train and args.no_speed):
        require_data(spec, scale, data)
    _make(spec, scale, trials, data, args)


def _table_file(name: str) -> Path:
    """The file of --list's name, or a file."""
    names = table_names()
    if name in names:
        return TABLES / f"{name}.toml"
    if name.endswith(".toml") and Path(name).is_file():
        return Path(name).absolute()
    raise UserError(f"{name}: no such table{suggestion(name, names)}")


def table_names() -> list[str]:
    """The names of all tables: PAPER/NAME."""
    return [str(file.relative_to(TABLES))[:-5] for file in sorted(TABLES.glob("*/*.toml"))]


def _make(
    spec: "TableSpec",
    scale: "Scale",
    trials: Sequence["Trial"],
    data: Path,
    args: argparse.Namespace,
) -> None:
    """Trains and times the rows, and writes the page; exits with status 1 if trials are unfinished.

    With `--keep` it also stores the page and the finished trials.
    """
    from launch.pages import html
    from launch.reproduce.archive import keep, path_of, unpack
    from launch.reproduce.claims import judged
    from launch.reproduce.results import read_results

    # Training and timing; an earlier page's speeds are used with its own trials only.
    speed_only = spec.kind == "speed"
    stored = STORED / spec.name / scale.name
    notes = [] if speed_only else _train(spec, scale, trials, data, args)
    complete = all(path_of(trial, stored).exists() for trial in trials)
    same = not notes and (args.no_train or complete)
    folders = [args.out, stored] if same else [args.out]
    table = f"{spec.name} {scale.name}"
    speeds = {} if args.no_speed else speeds_of(table, trials, scale.timed_steps, folders)

    # The results, by finished trials; with --keep those that are stored.
    results = read_results(spec, scale, trials, speeds, notes)
    unfinished = [
        trial.name
        for trial, status in zip(trials, results.statuses, strict=True)
        if status.state != "finished" and not speed_only
    ]
    finished = [trial for trial in trials if trial.name not in unfinished and not speed_only]
    if args.keep and (args.no_train or not unfinished):
        for trial in finished:
            keep(trial, stored, data, scale)
            unpack(trial, path_of(trial, stored))  # the page shows the stored, rounded results
        results = read_results(spec, scale, trials, speeds, notes)

    # The page, stored too once all trials have finished.
    answers = answers_of(table, results, folders) if not unfinished else {}
    verdicts = judged(results)
    report = _report(results, verdicts, answers, args)
    with writing(args.out):
        _write(args.out, results, verdicts, report)
        replace_text(args.out / "page.html", html.to_html(report))
    print(f"wrote {args.out / 'page.md'}, page.html and table.csv")
    if unfinished and not args.no_train:
        names = ", ".join(unfinished)
        print(f"{len(unfinished)} of {len(trials)} trials have not finished: {names}")
        sys.exit(1)
    if args.keep:
        _write(stored, results, verdicts, report)
        for name, values in ((SPEED, speeds), (ANSWERS, answers)):
            if values:
                write_json(stored / name, values)
        print(f"stored {len(finished)} trials in {stored}")


def _scale(spec: "TableSpec", args: argparse.Namespace) -> "Scale":
    """The scale, restricted to the rows and seeds of the arguments."""
    name = args.scale or next(iter(spec.scales))
    if name not in spec.scales:
        raise UserError(f"--scale {name}: {spec.name} has {' | '.join(spec.scales)}")
    scale = spec.scales[name]
    if scale.unavailable:
        raise UserError(f"{spec.name} --scale {name}: cannot be made: {scale.unavailable}")
    return scale.only(_row_names(args.rows or "", [row.name for row in scale.rows]), args.seeds)


def _row_names(text: str, known: Sequence[str]) -> list[str]:
    """Splits names at commas; a known name may contain commas itself, and the longest is taken."""
    names = []
    while text := text.strip():
        fits = [name for name in known if f"{text},".startswith(f"{name},")]
        names.append(max(fits, key=len, default=text.partition(",")[0]))
        text = text[len(names[-1]) + 1 :]
    return names


def _parser() -> Parser:
    usage = "%(prog)s --list | TABLE --out OUT [options]"
    parser = Parser(prog="python -m launch.reproduce", usage=usage, description=DESCRIPTION)

    # The table, and which of its rows and seeds.
    add = parser.add_argument
    table = add("table", nargs="?", metavar="TABLE", help="PAPER/NAME, or FILE.toml")
    table.completer = lambda **_: table_names()  # type: ignore[attr-defined]
    text = (
        "print all tables and exit; with --keep also write tables.md and claims.md in docs/results"
    )
    add("--list", action="store_true", help=text)
    add("--scale", metavar="NAME", help="paper | small (the table's first)")
    add("--data", type=disk_path, metavar="DIR", help="folder with a folder for each corpus (data)")
    add("--out", type=disk_path, metavar="OUT", help="folder of the runs and the page")
    add("--rows", metavar="ROW,ROW,...", help="some rows (all)")
    add("--seeds", type=positive, metavar="N", help="seeds of each row (the file's)")

    # How trials run, what is left out, and what is stored.
    add_executor(parser)
    add("--no_train", action="store_true", help="train nothing: make the page of existing trials")
    add("--no_speed", action="store_true", help="do not time training steps")
    add("--keep", action="store_true", help="store the page and the trials in docs/results/TABLE")
    text = "train this row's first seed anew and store its model, an export, in docs/results/TABLE"
    add("--keep_model", metavar="ROW", help=text)
    add("--dry_run", action="store_true", help="list the trials and exit")
    return parser


def _train(
    spec: "TableSpec",
    scale: "Scale",
    trials: Sequence["Trial"],
    data: Path,
    args: argparse.Namespace,
) -> list[str]:
    """Restores stored trials and, without `--no_train`, trains the others.

    Returns: notes on stored trials that are not used.
    """
    from launch.reproduce.archive import restore
    from launch.trials.trials import require_own_folders

    with error_context("--out"):
        require_own_folders(trials)
    stored = STORED / spec.name / scale.name
    notes: list[str] = []
    if not scale.examples or (stored / ANSWERS).exists():  # predictions need a trained model
        archives = [*STORED.glob("*/*/*/*.zip")]
        notes = [
            note for trial in trials if (note := restore(trial, stored, archives, data, scale))
        ]
    if not args.no_train:
        train(trials, args.out / "results.csv", Executor.of(args), args.out)
    return notes


def _report(
    results: "TableResults",
    verdicts: Sequence["Judged"],
    answers: Mapping[str, Any],
    args: argparse.Namespace,
) -> "Report":
    """The page, with the command that makes it."""
    from launch.reproduce.page import page

    options = {"scale": results.scale.name, "rows": args.rows, "seeds": args.seeds}
    argv = [results.spec.name]
    argv += [text for k, v in options.items() if v for text in (f"--{k}", str(v))]
    if args.no_train:
        argv.append("--no_train")
    argv += ["--data", "DIR", "--out", "OUT"]
    return page(results, verdicts, command_line("reproduce", argv), answers.get("rows", {}))


def _write(
    folder: Path, results: "TableResults", verdicts: Sequence["Judged"], report: "Report"
) -> None:
    from launch.pages import markdown
    from launch.reproduce.claim_tables import claims_csv
    from launch.reproduce.results import to_csv
    from launch.reproduce.statements import CLAIMS_FILE

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        markdown.write(folder / "page.md", report)
        replace_text(folder / "table.csv", to_csv(results))
        if verdicts:
            replace_text(folder / CLAIMS_FILE, claims_csv(results, verdicts))


if __name__ == "__main__":
    run(main)
