"""Whether buckets answer: limits of waiting, a line on a long wait, buckets that are given up, and
the reasons of errors.

Of a bucket that stops answering, all requests together wait 300 seconds from the first of them on.
Then it is given up: each further request is tried once, until one is answered.
"""

import logging
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from common_jax.errors import UserError

State = Literal["new", "answering", "given up"]

# The limits of waiting for an answer.
SECONDS: dict[State, float] = {"new": 30.0, "answering": 300.0, "given up": 2.0}
SHOWN_SECONDS = 30.0  # of waiting, after which a line says so
TICK_SECONDS = 0.5  # between two looks at what other threads have learned

# The text of a TensorStore error, and the statuses of a service that failed or denied a request.
_REASON = re.compile(r"(?P<status>[A-Z_]+): (?P<text>.*?)( \[[a-z_]+=.*)?", re.DOTALL)
_TRANSIENT = (
    r"PERMISSION_DENIED|UNAUTHENTICATED|UNAVAILABLE|ABORTED|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED"
)
_CREDENTIALS = (
    "credentials are those of the machine's service account, of GOOGLE_APPLICATION_CREDENTIALS, or "
    "of gcloud auth application-default login"
)

_log = logging.getLogger(__name__)
_states: dict[str, "BucketState"] = {}


class BucketState:
    """What this process knows of a bucket.

    Attributes:
      state: "new" before its first answer.
      silence: for how long it did not answer before it was given up.
    """

    def __init__(self, name: str, failures: Callable[[], Counter[str]]):
        """
        Args:
          failures: the number of failed requests of this process so far, by HTTP status.
        """
        self._name = name
        self._failures = failures
        self.state: State = "new"
        self.silence = ""
        self._mutex = threading.Lock()
        self._pending = 0
        self._since = 0.0  # of the first pending request, or of an answer after it
        self._before = Counter[str]()  # failures when it began to be slow
        self._shown = False

    @property
    def silent_seconds(self) -> float:
        """The time without an answer to a pending request; 0 if none is pending."""
        return time.monotonic() - self._since if self._pending else 0.0

    def answer(self, send: Callable[[], Any], seconds: float = 0.0) -> Any:
        """The answer to a request.

        Args:
          send: sends it; returns TensorStore's future of the answer.
          seconds: that an answer may take longer, as for a large object.

        Raises:
          UserError: if there is none within the limit, or the bucket is given up meanwhile.
          ValueError: of TensorStore, if the service refuses the request; or fails always, before
            its first answer and once it is given up.
        """
        # Count the request; those that are pending together share the limit of the first.
        state = self.state
        began = time.monotonic()
        with self._mutex:
            if not self._pending:
                self._since = began
                self._before = Counter()
            self._pending += 1
            first = began if state == "given up" else self._since

        # An answer ends the silence of all.
        try:
            answer = self._wait(send(), state, first, seconds)
            self.state = "answering"
            self._shown = False
            self._since = time.monotonic()
            self._before = Counter()
            return answer
        finally:
            with self._mutex:
                self._pending -= 1

    def give_up(self) -> None:
        """Ends the waits of all threads."""
        if self.state == "answering":
            reason = f"{self._reason()} for {self.silent_seconds:.0f} s"
            self.state = "given up"
            self.silence = f"gs://{self._name}: {reason}"

    def _wait(self, future: Any, state: State, first: float, seconds: float) -> Any:
        """Waits as `answer`, from the time `first` on; `seconds` longer if no request fails."""
        while True:
            try:
                return future.result(timeout=TICK_SECONDS)
            except TimeoutError as error:
                self._before = self._before or self._failures()
                longer = 0.0 if self._failures() - self._before else seconds
                if time.monotonic() > first + SECONDS[state] + longer:
                    self.give_up()
                    silence = f"gs://{self._name}: no answer for {SECONDS[state]:.0f} s"
                    raise UserError(self.silence or silence) from error
                if self.state == "given up" != state:
                    raise UserError(self.silence) from error
                self._show(SHOWN_SECONDS + longer)

    def _show(self, seconds: float) -> None:
        """Logs a line, once until the next answer, if no request was answered for this time."""
        if not self._shown and self.silent_seconds > seconds:
            self._shown = True
            since = f"{self._reason()} since {self.silent_seconds:.0f} s"
            limit = SECONDS[self.state]
            _log.warning("gs://%s: %s; given up after %.0f s", self._name, since, limit)

    def _reason(self) -> str:
        """The status of most requests that failed since the last answer."""
        failed = (self._failures() - self._before).most_common(1)
        return f"HTTP status {failed[0][0]}" if failed else "no answer"


def state_of(bucket: str, failures: Callable[[], Counter[str]]) -> BucketState:
    """The state of a bucket; `failures` as of `BucketState`."""
    return _states.setdefault(bucket, BucketState(bucket, failures))


def any_reached() -> bool:
    """Whether a bucket has answered."""
    return any(state.state != "new" for state in _states.values())


def lost_bucket() -> str:
    """The `BucketState.silence` of a bucket that is given up; "" if there is none."""
    states = _states.values()
    return next((state.silence for state in states if state.state == "given up"), "")


def silence_of(bucket: str) -> str:
    """The `BucketState.silence` of a bucket; "" if it is not given up."""
    state = _states.get(bucket)
    return state.silence if state and state.state == "given up" else ""


def give_up_silent(seconds: float) -> str:
    """Gives up buckets that have not answered a pending request for so long; returns
    `lost_bucket`."""
    for state in _states.values():
        if state.silent_seconds >= seconds:
            state.give_up()
    return lost_bucket()


def repeated_requests() -> int:
    """The number of requests of this process that failed and were repeated, Orbax's included."""
    tensorstore = sys.modules.get("tensorstore")  # slow to import
    if tensorstore is None:
        return 0
    retries = "/tensorstore/kvstore/gcs/retries"
    metrics = tensorstore.experimental_collect_matching_metrics(retries)
    return sum(int(value.get("value", 0)) for metric in metrics for value in metric["values"])


def service_error(error: BaseException) -> str | None:
    """The reason of a TensorStore error if its service failed or denied a request; or None."""
    text = str(error)
    if not isinstance(error, ValueError) or "os_error_code=" in text:  # of a disk
        return None
    match = re.search(rf"\b({_TRANSIENT}):", text)
    return reason(text[match.start() :]) if match else None


def reason(text: str) -> str:
    """The reason in the text of a TensorStore error, in one line."""
    match = _REASON.fullmatch(text.strip())
    found = " ".join((match["text"] if match else text).split())[:300]
    if code := re.search(r"http_response_code='(\d+)'", text):
        found += f" (HTTP status {code[1]})"
    if match and match["status"] in ("PERMISSION_DENIED", "UNAUTHENTICATED"):
        return f"no permission: {found}; {_CREDENTIALS}"
    return found
