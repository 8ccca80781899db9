"""Compares runs on one page: curves, scores with intervals, differences, speed."""

import os
from pathlib import Path

from common_jax.errors import UserError
from launch.cli import Parser, configure_logging, run

DESCRIPTION = (
    __doc__
    + """
The page is self-contained (with Markdown, charts are files in a folder beside it). Runs of one
family are compared with the first of them by the paired tests of launch.evaluate --against,
translations also by n-grams, answers by type of question and length of answer, labels by confusion
and length of text. The paper's results are included if the config has them (paper.results).

example:
  python -m launch.report runs/csan/quickstart runs/csan/narrow --out report.html
  python -m launch.report sweeps/quickstart/trials/*/ --out report.md"""
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.report", description=DESCRIPTION)
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders of runs, a baseline first"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="file to write")
    parser.add_argument(
        "--format", choices=("html", "md"), help="html | md (as FILE ends, else html)"
    )
    parser.add_argument(
        "--split", metavar="NAME", help="split of the comparisons (the last that is scored)"
    )
    args = parser.parse_args(argv)
    if os.path.isdir(args.out):
        raise UserError(f"--out: {args.out} is a folder; name a file")
    if not args.out.absolute().parent.is_dir():
        raise UserError(f"--out: there is no folder {args.out.absolute().parent}")
    configure_logging()
    from common_jax.compare import read_runs, report
    from common_jax.io.atomic import replace_text, writing
    from common_jax.report import html, markdown

    page = report(read_runs(args.runs), args.split)
    with writing(args.out):
        if (args.format or args.out.suffix) in ("md", ".md"):
            markdown.write(args.out, page)
        else:
            replace_text(args.out, html.to_html(page))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    run(main)
