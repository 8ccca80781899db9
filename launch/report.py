"""Compares runs on one page: curves, scores with intervals, differences, speed.

The page is self-contained (with Markdown, charts are files in a folder beside it). Runs of one
family are compared with the first of them by the paired tests of launch.evaluate --against,
translations also by n-grams, answers by type of question and length of answer, labels by confusion
matrix and length of text. The paper's results are included if the config has them (paper.results).
Examples where runs differ most are shown side by side, and the attention of the first two runs of a
family in pictures, which need their checkpoints.

With --every the page has all runs and sweeps at and below the folders, also those that begin later,
with state, progress and time left of each at its head, without examples. It is written again while
they train, until Ctrl-C, and reloads itself in a browser.

example:
  python -m launch.report runs/csan/quickstart runs/csan/narrow --out report.html
  python -m launch.report sweeps/quickstart/trials/*/ --out report.md
  python -m launch.report runs sweeps gs://BUCKET/runs --every 30 --out report.html
"""

import argparse
import contextlib
import logging
import os
import time
from typing import NoReturn

from common_jax.errors import UserError
from common_jax.io.paths import as_path
from launch.arguments import Parser, output_file
from launch.cli import configure_logging, run
from launch.interrupts import raise_if_interrupted

_log = logging.getLogger(__name__)

_NICE = 5  # of the process that writes the page beside runs that train
_REST = 9  # seconds of pause for each second of computing,
_LONGEST = 4  # but at most so many times --every


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.report", description=__doc__)
    add = parser.add_argument
    text = "folders of runs, a baseline first; with --every also of runs and sweeps"
    add("runs", nargs="+", type=as_path, metavar="FOLDER", help=text)
    add("--out", required=True, type=output_file, metavar="FILE", help="file to write")
    add("--format", choices=("html", "md"), help="html | md (by the ending of FILE, else html)")
    add("--split", metavar="NAME", help="split of the comparisons (the task's last)")
    text = "write the page again every so many seconds, while runs train"
    add("--every", type=float, metavar="SECONDS", help=text)
    args = parser.parse_args(argv)
    configure_logging()
    if args.every is not None:
        _keep_writing(args)
    from launch.api.comparison import compare

    compare(*args.runs, split=args.split).write(args.out, args.format)
    print(f"wrote {args.out}")


def _keep_writing(args: argparse.Namespace) -> NoReturn:
    """Writes the page of `launch.api.live` whenever it has changed."""
    if not 1 <= args.every <= 86400:
        raise UserError(f"--every {args.every:g}: from 1 to 86400 seconds")
    for folder in args.runs:
        if os.path.isfile(folder):
            raise UserError(f"{folder}: not a folder")
    from launch.api.comparison import write_page
    from launch.api.live import LivePage

    with contextlib.suppress(OSError):
        os.nice(_NICE)
    live = LivePage(args.runs, args.split)
    written = None
    while True:
        began = time.process_time()
        try:
            page = live.report()
        except UserError as error:
            if written is None:
                raise
            _log.warning("%s", error)  # as of a bucket that does not answer for a while
            page = written
        if page != written:
            write_page(args.out, page, args.format, args.every)
            if written is None:
                print(f"wrote {args.out}, again every {args.every:g} s until Ctrl-C", flush=True)
            written = page
        raise_if_interrupted()
        rest = _REST * (time.process_time() - began)
        time.sleep(min(max(args.every, rest), _LONGEST * args.every))


if __name__ == "__main__":
    run(main)
