"""Compares runs on one page: curves, scores with intervals, differences, speed."""

from common_jax.io.paths import as_path
from launch.cli import Parser, configure_logging, output_file, run

DESCRIPTION = (
    (__doc__ or "")
    + """
The page is self-contained (with Markdown, charts are files in a folder beside it). Runs of one
family are compared with the first of them by the paired tests of launch.evaluate --against,
translations also by n-grams, answers by type of question and length of answer, labels by confusion
matrix and length of text. The paper's results are included if the config has them (paper.results).
Examples where runs differ most are shown side by side, and the attention of the first two runs of a
family in pictures, which need their checkpoints.

example:
  python -m launch.report runs/csan/quickstart runs/csan/narrow --out report.html
  python -m launch.report sweeps/quickstart/trials/*/ --out report.md"""
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.report", description=DESCRIPTION)
    add = parser.add_argument
    add("runs", nargs="+", type=as_path, metavar="RUN", help="folders of runs, a baseline first")
    add("--out", required=True, type=output_file, metavar="FILE", help="file to write")
    add("--format", choices=("html", "md"), help="html | md (by the ending of FILE, else html)")
    add("--split", metavar="NAME", help="split of the comparisons (the task's last)")
    args = parser.parse_args(argv)
    configure_logging()
    from launch.api.comparison import compare

    compare(*args.runs, split=args.split).write(args.out, args.format)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    run(main)
