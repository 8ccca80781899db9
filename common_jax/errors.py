"""The exceptions that end a command without a traceback, and locations in their messages."""

import contextlib
import dataclasses
import importlib.metadata
import json
import shlex
import signal
import sysconfig
import traceback
import urllib.parse
from collections.abc import Iterator
from pathlib import Path, PurePath

PACKAGE = "conv-attention-jax"
_ROOT = Path(__file__).parents[1]
_INSTALLED = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
_CALLING = (*map(Path, _INSTALLED), _ROOT / "common_jax", _ROOT / "launch")


class UserError(Exception):
    """An error in the user's input: a config key, a file, a line of data.

    The message is one line with the location and the fix. `launch` prints it on standard error and
    exits with status 2; any other exception is a bug and prints its traceback.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython prints instead of a traceback."""
        return [f"error: {self}"]


def missing_extra(need: str, extra: str, end: str = "") -> UserError:
    """The error for a missing package: "NEED needs the extra EXTRA (COMMAND)END"."""
    return UserError(f"{need} needs the extra {extra} ({install_command(extra)}){end}")


def install_command(extra: str) -> str:
    """The command that installs an extra, from where this package was installed.

    The installer records the source in `direct_url.json` (Python's packaging specification "Direct
    URL Data Structure"): a clone, the file of a wheel, or a repository; of an index there is none.
    """
    # Read the records; without any, the code runs in a clone that is not installed.
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return f"uv sync --extra {extra}"
    by_uv = (distribution.read_text("INSTALLER") or "").strip() == "uv"
    record = json.loads(distribution.read_text("direct_url.json") or "{}")
    url = urllib.parse.urlsplit(record.get("url", ""))
    path = urllib.parse.unquote(url.path)
    editable = record.get("dir_info", {}).get("editable", False)

    # Name the same source again, with the extra.
    if editable and by_uv:
        elsewhere = not Path.cwd().is_relative_to(path)
        return f"uv sync --extra {extra}" + (f" --project {shlex.quote(path)}" if elsewhere else "")
    pip = "uv pip install" if by_uv else "pip install"
    if "vcs_info" in record:
        system, commit = record["vcs_info"]["vcs"], record["vcs_info"]["commit_id"]
        source = f"{PACKAGE}[{extra}] @ {system}+{record['url']}@{commit}"
    elif url.scheme == "file":
        source = f"{path}[{extra}]"
    else:
        source = f"{PACKAGE}[{extra}]" + (f" @ {record['url']}" if record else "")
    return f"{pip} {'-e ' if editable else ''}{shlex.quote(source)}"


@dataclasses.dataclass(frozen=True)
class Location:
    """A line of a file, for messages: "FILE:LINE" as text.

    Attributes:
      file: its name, or what else has the lines.
      line: from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@contextlib.contextmanager
def error_context(place: str | PurePath | Location) -> Iterator[None]:
    """Prefixes the message of a UserError with its location."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and the chain of its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def own_error(error: BaseException) -> str | None:
    """ "FILE:LINE: TYPE: MESSAGE" of an error, or else of its first cause, that passed through a
    file outside of installed packages, `common_jax` and `launch`, which call all others: the last
    such line of its traceback, or that of a syntax error; None if there is none."""
    for cause in causes(error):
        frames = traceback.extract_tb(cause.__traceback__)
        lines = [(frame.filename, frame.lineno) for frame in frames]
        message = str(cause)
        if isinstance(cause, SyntaxError):
            lines = [(cause.filename or "", cause.lineno)]
            message = cause.msg

        # the last line, by the shortest name of its file
        for name, line in reversed(lines):
            path = Path(name).absolute()
            if path.is_file() and not any(map(path.is_relative_to, _CALLING)):
                shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
                return f"{shown}:{line}: {type(cause).__name__}: {message}"
    return None


class Interrupted(Exception):  # noqa: N818 (a requested stop, not an error)
    """A run stopped at a signal's request; `launch` exits with status 128 + `signal`.

    Attributes:
      signal: the signal received, such as SIGTERM.
    """

    def __init__(self, number: int, message: str = ""):
        super().__init__(message)
        self.signal = signal.Signals(number)

    def _render_traceback_(self) -> list[str]:
        return [f"{self.signal.name}: {str(self) or 'stopped'}"]
