"""Serves a live page of the runs in a folder or bucket: state, time left, curves."""

import contextlib
import os

from common_jax.errors import UserError
from common_jax.io.paths import as_path, in_bucket
from launch.cli import Parser, configure_logging, run
from launch.web.arguments import add_address, require_extra

_EVERY, _EVERY_IN_BUCKET = 5.0, 15.0  # seconds
_NICE = 5  # with more, the page takes minutes on a busy machine

DESCRIPTION = (
    (__doc__ or "")
    + """
FOLDER is a run, or a folder or bucket with runs and sweeps at any depth. The page refreshes itself
while they train. It shows the curves of the runs that are chosen on it, and the settings in which
they differ. It reads only what is new in their files, takes no locks, and computes at a low
priority, and nothing while the page is hidden or closed. It has no password: without --host only
this machine can reach it (docs/reports.md). It needs the extra serve.

example:
  python -m launch.watch runs
  python -m launch.watch sweeps/quickstart --port 8001
  python -m launch.watch gs://BUCKET/runs --every 60"""
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.watch", description=DESCRIPTION)
    add = parser.add_argument
    add("folder", type=as_path, metavar="FOLDER", help="folder or bucket of runs and sweeps")
    add_address(parser, 8080)
    text = f"time between two refreshes ({_EVERY:g}; in a bucket {_EVERY_IN_BUCKET:g})"
    add("--every", type=float, metavar="SECONDS", help=text)
    args = parser.parse_args(argv)
    default = _EVERY_IN_BUCKET if in_bucket(args.folder) else _EVERY
    every = default if args.every is None else args.every
    if not 0.1 <= every <= 86400:
        raise UserError(f"--every {every:g}: from 0.1 to 86400 seconds")
    require_extra("watch")
    from launch.watch.app import Watch
    from launch.watch.folder import WatchedFolder
    from launch.web.server import listen, serve

    configure_logging()
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    folder = WatchedFolder(args.folder, every)
    with listen(args.host, args.port) as listening:
        serve(Watch(folder, args.allowed_hosts), listening, f"the runs in {args.folder}")


if __name__ == "__main__":
    run(main)
