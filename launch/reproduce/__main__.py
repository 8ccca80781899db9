"""Reproduces a table or figure of a paper: trains missing trials and writes a page.

TABLE is a file tables/TABLE.toml, such as csan/figure2, or FILE.toml: rows, seeds, claims and the
paper's numbers. --list [PAPER] prints tables and the data that they need. A row is trained with
each seed, as a trial of an ordinary sweep in OUT/trials; the same command resumes. Trials stored in
a clone's docs/results are not trained again while config and version are the same.

OUT/page.md and page.html have each row beside the paper's, and a verdict on each claim; table.csv
has the rows, claims.csv the claims. --config.KEY=VALUE makes a try in OUT/try, which is no result.

example:
  python -m launch.reproduce --list
  python -m launch.reproduce csan/figure2 --scale small --data DIR --out OUT
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common_jax.errors import UserError
from common_jax.fields import suggestion
from common_jax.io.atomic import replace_text
from common_jax.io.paths import disk_path
from launch.arguments import Parser, positive
from launch.cli import command_line, configure_logging, run
from launch.trials.executor import Executor, add_executor

if TYPE_CHECKING:
    from common_jax.deploy.configs import OpenedSources
    from launch.reproduce.make import TableRequest
    from launch.reproduce.table_file import Scale, TableSpec
    from launch.trials.trials import Trial

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT / "configs" / "tables"
STORED = ROOT / "docs" / "results"
TRY = "try"  # the folder of tries in OUT


def main(argv: list[str]) -> None:
    parser = _parser()
    args, tried = parser.parse_known_args(argv)
    from common_jax.deploy.configs import OpenedSources
    from launch.reproduce.listing import print_trials
    from launch.reproduce.make import TableRequest
    from launch.reproduce.spec import read_table
    from launch.reproduce.trials import require_data, trials_of

    stores = args.keep or args.keep_model
    if stores and not (ROOT / "docs").is_dir():
        parser.error(
            "--keep, --keep_model: store in docs/results of a clone, not of an installed package"
        )
    unknown = [text for text in tried if args.list or not text.startswith("--config.")]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if args.list:
        _list(args)
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
    if stores and tried:
        parser.error(f"--keep, --keep_model: store no try; leave out {tried[0]}")

    # Its trials.
    data = (args.data or Path("data")).absolute()
    models = OpenedSources()
    out = args.out / TRY if tried else args.out
    trials = trials_of(spec, scale, data, out, tried, models)
    request = TableRequest(
        spec=spec,
        scale=scale,
        trials=trials,
        data=data,
        out=out,
        stored=STORED,
        executor=None if args.no_train else Executor.of(args),
        times=not args.no_speed,
        keeps=args.keep,
        command=_command(spec, scale, args, tried),
        tried=tried,
    )

    # They are printed, prepared, or trained.
    if args.dry_run:
        print_trials(request)
        if args.data:
            require_data(spec, scale, trials, data)
        return
    configure_logging()
    if not (args.no_train and args.no_speed):
        require_data(spec, scale, trials, data)
    if args.prepare:
        _prepare(trials, models)
    elif args.keep_model:
        from launch.reproduce.kept_model import keep_model

        stored = request.page_folder
        print(f"wrote {keep_model(args.keep_model, trials, stored, Executor.of(args))}")
    else:
        _make(request)


def _list(args: argparse.Namespace) -> None:
    """Prints all tables, or those of a paper, or one; and writes the pages that are made of all."""
    from launch.reproduce.listing import listed, stored_page
    from launch.reproduce.spec import read_tables
    from launch.reproduce.statements import statements_page

    specs = read_tables(TABLES)
    name = args.table or ""
    chosen = [spec for table, spec in specs.items() if name in ("", table, table.split("/")[0])]
    if not chosen:
        papers = dict.fromkeys(table.split("/")[0] for table in specs)
        raise UserError(f"--list {name}: no such paper or table{suggestion(name, [*papers])}")
    for spec in chosen:
        print(listed(spec, STORED))
    if args.keep:
        replace_text(STORED / "tables.md", stored_page(specs.values(), STORED))
        replace_text(STORED / "claims.md", statements_page(specs.values(), STORED))


def _prepare(trials: Sequence["Trial"], models: "OpenedSources") -> None:
    """Prepares the corpora of trials, those of a row's seeds once."""
    from launch.api.configs import config
    from launch.reproduce.trials import ROW, first_trials

    for trial in first_trials(trials):
        config(trial.file, trial.overrides, models).prepare([trial.workdir])
        print(f"prepared the corpus of {trial.values[ROW]}")


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


def _make(request: "TableRequest") -> None:
    """Makes the table and prints what was written; exits with status 1 if trials are unfinished."""
    from launch.reproduce.make import make

    made = make(request)
    print(f"wrote {request.out / 'page.md'}, page.html and table.csv")
    if made.unfinished and request.executor:
        names = ", ".join(made.unfinished)
        count = f"{len(made.unfinished)} of {len(request.trials)}"
        print(f"{count} trials have not finished: {names}")
        sys.exit(1)
    if made.stored is not None:
        print(f"stored {made.stored} trials in {request.page_folder}")


def _command(
    spec: "TableSpec", scale: "Scale", args: argparse.Namespace, tried: Sequence[str]
) -> str:
    """The command that makes the page."""
    options = {"scale": scale.name, "rows": args.rows, "seeds": args.seeds}
    argv = [spec.name]
    argv += [text for k, v in options.items() if v for text in (f"--{k}", str(v))]
    argv += [f"--{flag}" for flag in ("no_train", "no_speed") if getattr(args, flag)]
    return command_line("reproduce", [*argv, *tried, "--data", "DIR", "--out", "OUT"])


def _scale(spec: "TableSpec", args: argparse.Namespace) -> "Scale":
    """The scale, restricted to the rows and seeds of the arguments."""
    name = args.scale or next(iter(spec.scales))
    if name not in spec.scales:
        raise UserError(f"--scale {name}: {spec.name} has {' | '.join(spec.scales)}")
    scale = spec.scales[name]
    if scale.unavailable:
        raise UserError(f"{spec.name} --scale {name}: cannot be made: {scale.unavailable}")
    return scale.only(_row_names(args.rows or "", [row.name for row in scale.systems]), args.seeds)


def _row_names(text: str, known: Sequence[str]) -> list[str]:
    """Splits names at commas; a known name may contain commas itself, and the longest is taken."""
    names = []
    while text := text.strip():
        fits = [name for name in known if f"{text},".startswith(f"{name},")]
        names.append(max(fits, key=len, default=text.partition(",")[0]))
        text = text[len(names[-1]) + 1 :]
    return names


def _parser() -> Parser:
    usage = "%(prog)s --list [PAPER] | TABLE --out OUT [options]"
    parser = Parser(prog="python -m launch.reproduce", usage=usage, description=__doc__)

    # The table, and which of its rows and seeds.
    add = parser.add_argument
    table = add("table", nargs="?", metavar="TABLE", help="PAPER/NAME, or FILE.toml")
    parser.add_argument("--config.KEY", metavar="VALUE", dest="_", help="make a try with a field")
    table.completer = lambda **_: table_names()  # type: ignore[attr-defined]
    text = "print tables and exit; with --keep also write the pages of docs/results"
    add("--list", action="store_true", help=text)
    add("--scale", metavar="NAME", help="one that --list names (the table's first)")
    add("--data", type=disk_path, metavar="DIR", help="folder with a folder for each corpus (data)")
    add("--out", type=disk_path, metavar="OUT", help="folder of the runs and the page")
    add("--rows", metavar="ROW,ROW,...", help="some rows (all)")
    add("--seeds", type=positive, metavar="N", help="seeds of each row (the file's)")

    # How trials run, what is left out, and what is stored.
    add_executor(parser)
    add("--prepare", action="store_true", help="prepare the corpora of the rows and exit")
    add("--no_train", action="store_true", help="train nothing: make the page of existing trials")
    add("--no_speed", action="store_true", help="do not time training steps")
    add("--keep", action="store_true", help="store the page and the trials in docs/results/TABLE")
    text = "train this row's first seed and store its export in docs/results/TABLE"
    add("--keep_model", metavar="ROW", help=text)
    add("--dry_run", action="store_true", help="list the trials: stored, to train or data missing")
    return parser


if __name__ == "__main__":
    run(main)
