"""The exceptions that end a command without a traceback."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path


class UserError(Exception):
    """A mistake in what a person typed or supplied: a key, a file, a line of data.

    The message is one line that names the place and says what would be right. `launch` prints it
    alone on standard error and exits with status 2; every other exception is a bug of ours and
    keeps its traceback.
    """


@contextlib.contextmanager
def error_context(place: str | Path) -> Iterator[None]:
    """Says before a mistake where it stands."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class Interrupted(Exception):  # noqa: N818 (nothing is wrong)
    """The run was asked to stop, and has. `launch` exits with status 128 + `signal`.

    Attributes:
      signal: what asked, such as SIGTERM.
    """

    def __init__(self, number: int, message: str = ""):
        super().__init__(message)
        self.signal = signal.Signals(number)
