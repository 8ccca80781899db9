"""How a command starts and ends: its names, logging, one-line errors and exit status."""

import contextlib
import logging
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from common_jax.errors import Interrupted, UserError, own_error
from common_jax.numerics import remove_variables
from launch.exits import exit_process
from launch.failures import failure
from launch.interrupts import ending_on_interrupt

CONSOLE = "conv-attention"
MODULE = "python -m launch"
TRACEBACK = "--traceback"  # of every command, whose parser does not see it
ROOT = Path(__file__).resolve().parents[1]  # the folder of the packages
RED = 31
BOLD = 1
LIBRARY_LEVELS = {  # of libraries' messages, by the names of their loggers
    **dict.fromkeys(
        ("jax", "tensorboardX", "matplotlib", "httpx2", "huggingface_hub"), logging.ERROR
    ),
    **dict.fromkeys(("absl", "asyncio", "orbax"), logging.CRITICAL),
}


def command_line(command: str, argv: Sequence[str]) -> str:
    """The command line as text, as it is stored beside results."""
    line = shlex.join(["python", "-m", f"launch.{command}", *argv])
    return line.encode(errors="backslashreplace").decode()  # a path need not be UTF-8


def program() -> str:
    """The program of which this process runs a command: "conv-attention" or "python -m launch"."""
    return CONSOLE if Path(sys.argv[0]).name == CONSOLE else MODULE


def spelled(text: str, uv: bool = False) -> str:
    """Text with its commands as this one was started: by `python -m` or the console command.

    Args:
      uv: whether with `uv run` in front of each, if uv started this process.
    """
    typed = f"{CONSOLE} " if program() == CONSOLE else f"{MODULE}."
    prefix = "uv run " if uv and "UV" in os.environ else ""  # uv sets UV in its processes
    return text.replace(f"{MODULE}.", prefix + typed)


def module_command(name: str) -> list[str]:
    """The start of a command line that runs `launch.NAME` of these packages, even if the current
    folder has folders of their names."""
    safe_path = [] if Path.cwd() == ROOT else ["-P"]
    return [sys.executable, *safe_path, "-m", f"launch.{name}"]


def colored(text: str, code: int, file: TextIO | None) -> str:
    """Text in a color of a terminal (ECMA-48's SGR); plain for other files, or with NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or file is None or not file.isatty() else f"\033[{code}m{text}\033[0m"


def configure_logging(quiet: bool = False) -> None:
    """Sends log messages to standard error and silences those of libraries.

    Args:
      quiet: shows warnings and errors only, and no progress.
    """
    import absl.logging

    absl.logging.set_verbosity(absl.logging.FATAL)
    sys.unraisablehook = _ignore_closed_loop
    # Orbax leaves the other writes of a failed save unstarted
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    logging.disable(logging.INFO if quiet else logging.NOTSET)
    logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
    for name, level in LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(level)


def _prepare_process() -> None:
    """Makes texts UTF-8, removes variables that change results, and imports from this folder."""
    # names of files have the locale's encoding: start again in Python's UTF-8 mode
    if sys.getfilesystemencoding() != "utf-8":
        words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execve(sys.executable, words, {**os.environ, "PYTHONUTF8": "1"})
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # closed, or another object
            stream.reconfigure(encoding="utf-8", errors=stream.errors)  # type: ignore[union-attr]

    if removed := remove_variables(os.environ):
        print(f"not used, as it would change results: {', '.join(removed)}", file=sys.stderr)
    with contextlib.suppress(OSError):  # a folder that has been deleted
        sys.path.append(os.getcwd())


def _silence() -> None:
    """Redirects stdout to /dev/null once its reader has closed the pipe."""
    with contextlib.suppress(AttributeError, OSError):  # stdout may be None or no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ignore_closed_loop(error: "sys.UnraisableHookArgs") -> None:
    """Suppresses tracebacks of a save on a full disk: Orbax closes its event loop at the first
    failed write, to which tensorstore reports the others."""
    if str(error.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(error)


def _print_error(error: Exception, message: str, with_traceback: bool) -> None:
    """Prints the message in one line, after the traceback if it is wanted."""
    if with_traceback:
        traceback.print_exception(error)
    line = " ".join(message.split())
    print(f"{colored('error:', RED, sys.stderr)} {line}", file=sys.stderr)


def run(main: Callable[[list[str]], None], argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a command's `main` on the arguments, by default those of the process, and exits.

    Settings of jax that change results have their defaults, also in processes that it starts.

    The status is 0, 2 after a user's error, and 128 + the signal's number after a request to stop
    (130 on Ctrl-C, also inside a compiled program, and 143 on SIGTERM). With --traceback a one-line
    error comes after its traceback.

    Modules of the current folder can be imported, since a config can name a user's class, but do
    not hide installed ones.
    """
    _prepare_process()
    status = 0
    words = sys.argv[1:] if argv is None else [*argv]
    with_traceback = TRACEBACK in words
    try:
        with ending_on_interrupt():
            main([word for word in words if word != TRACEBACK])
        if sys.stdout is not None:
            sys.stdout.flush()

    # a user's error, or a request to stop
    except UserError as error:
        _print_error(error, str(error), with_traceback)
        status = 2
    except Interrupted as request:
        print(f"{request.signal.name}: {str(request) or 'stopped'}", file=sys.stderr)
        status = 128 + request.signal
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        exit_process(130, at_once=True)
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        _silence()

    # the machine, or a bug
    except Exception as error:
        line = failure(error)
        if line is None:
            if own := own_error(error):
                error.add_note(f"error: {own}")  # below the traceback
            exit_process(1, error)
            raise
        if isinstance(error, OSError):
            _silence()
        _print_error(error, line, with_traceback)
        status = 2

    if status:
        exit_process(status)
    sys.exit(status)
