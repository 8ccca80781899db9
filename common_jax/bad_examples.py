"""Policy for invalid examples: raise on the first, or skip and count them."""

from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

from common_jax.errors import UserError

P = ParamSpec("P")
T = TypeVar("T")
Counts = dict[str, dict[str, Any]]  # by reason: "count", and "first", the first few locations

_LOCATIONS = 3  # reported for each reason


class BadExamples:
    """Raises an error at an invalid example, or skips and counts it, as `policy` says.

    Attributes:
      counts: by reason, the number of examples and the first few locations.
      fault: the error that the policy "error" would have raised first; "" for none.
    """

    def __init__(self, policy: Literal["error", "skip"], option: str = "data.on_bad_example"):
        """
        Args:
          policy: "error" or "skip".
          option: the setting (to be "skip") or the flag ("--...") that error messages suggest; ""
            suggests nothing.
        """
        self._policy = policy
        advice = f"give {option}" if option.startswith("--") else f"set {option}=skip"
        self._hint = f"; fix it, or {advice}" if option else ""
        self.counts: Counts = {}
        self.fault = ""

    def parse(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of `read`, or None if it raises a UserError.

        Raises:
          UserError: under the policy "error".
        """
        try:
            return read(*args, **kwargs)
        except UserError as error:
            self._refuse(str(error), error)
            self.skip("unreadable", str(error))
            return None

    def reject(self, reason: str, location: str) -> None:
        """Counts an invalid example.

        Raises:
          UserError: under the policy "error".
        """
        self._refuse(f"{location}: {reason}")
        self.skip(reason, location)

    def _refuse(self, fault: str, cause: UserError | None = None) -> None:
        message = f"{fault}{self._hint}"
        if self._policy == "error":
            raise UserError(message) from cause
        self.fault = self.fault or message

    def skip(self, reason: str, location: str) -> None:
        """Counts an example that either policy skips."""
        entry = self.counts.setdefault(reason, {"count": 0, "first": []})
        entry["count"] += 1
        if len(entry["first"]) < _LOCATIONS:
            entry["first"].append(location)


def summary(counts: Counts) -> str:
    """The counts and the first few locations in one line."""
    return "; ".join(
        f"{entry['count']} {reason} ({', '.join(entry['first'])}"
        + (", ...)" if entry["count"] > len(entry["first"]) else ")")
        for reason, entry in counts.items()
    )
