"""What becomes of examples that cannot be used: the first ends the run, or all are counted."""

from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

from common_jax.errors import UserError

P = ParamSpec("P")
T = TypeVar("T")

_NAMED = 3  # places named of each kind of fault
_SKIP = "; mend it, or set data.on_bad_example=skip"


class BadExamples:
    """Examples that were left out, counted by kind, the first few of each named."""

    def __init__(self, policy: Literal["error", "skip"]):
        self._policy = policy
        self.kinds: dict[str, dict[str, Any]] = {}

    def attempt(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What `read` gives; None for an example that cannot be read, as its UserError says.

        Raises:
          UserError: under the policy "error".
        """
        try:
            return read(*args, **kwargs)
        except UserError as error:
            if self._policy == "error":
                raise UserError(f"{error}{_SKIP}") from error
            self.drop("unreadable", str(error))
            return None

    def bad(self, kind: str, place: str) -> None:
        """An example that cannot be used.

        Raises:
          UserError: under the policy "error".
        """
        if self._policy == "error":
            raise UserError(f"{place}: {kind}{_SKIP}")
        self.drop(kind, place)

    def drop(self, kind: str, place: str) -> None:
        """An example that is left out under either policy."""
        fault = self.kinds.setdefault(kind, {"count": 0, "first": []})
        fault["count"] += 1
        if len(fault["first"]) < _NAMED:
            fault["first"].append(place)


def summary(dropped: dict[str, dict[str, Any]]) -> str:
    """What was left out, in one line: how many of each kind, and the first few places."""
    return "; ".join(
        f"{fault['count']} {kind} ({', '.join(fault['first'])}"
        + (", ...)" if fault["count"] > len(fault["first"]) else ")")
        for kind, fault in dropped.items()
    )
