"""Batches inputs that wait for one predictor.

Inputs of one shape (their own padded lengths) are computed together, the longest waiting first.
Since each pair of shape and batch size is compiled, `batch_size` allows few sizes.

Inputs that are no longer than compiled ones wait for no compilation: larger programs compute them
until theirs is compiled (`common_jax.deploy.bounded_program`). Longer ones have a thread of their
own.
"""

import asyncio
import concurrent.futures
import dataclasses
import logging
from collections.abc import Sequence

from starlette.exceptions import HTTPException

from common_jax.deploy.answer import Answer
from common_jax.deploy.bounded_program import InputTooLargeError
from common_jax.deploy.predictor import ParsedLine, Predictor
from launch.failures import location
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics

_log = logging.getLogger(__name__)
_FAILED = "the model failed on this input"


@dataclasses.dataclass(frozen=True, eq=False)
class _Waiting:
    """A waiting input.

    Attributes:
      shape: padded lengths; inputs of one shape are computed together.
      answer: the predictor's, or an exception.
    """

    line: ParsedLine
    shape: tuple[int, ...]
    answer: asyncio.Future[Answer]


@dataclasses.dataclass(eq=False)
class _Lane:
    """A thread, and the inputs that wait for it."""

    thread: concurrent.futures.Executor
    waiting: list[_Waiting] = dataclasses.field(default_factory=list)
    worker: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it computes, or something waits."""
        return self.worker is not None and not self.worker.done()


class Batcher:
    """Answers the inputs of one predictor, one batch at a time in a thread; longer ones than those
    that are compiled in another.

    All methods but `warm_up` are called in one event loop.
    """

    def __init__(self, predictor: Predictor, limits: Limits, metrics: Metrics):
        self._predictor = predictor
        self._limits = limits
        self._metrics = metrics
        self._compiled: list[tuple[int, ...]] = []  # shapes
        self._ready, self._longer = (
            _Lane(concurrent.futures.ThreadPoolExecutor(1, name)) for name in ("ready", "longer")
        )

    @property
    def waiting(self) -> int:
        """The number of inputs that wait for an answer."""
        lanes = (self._ready, self._longer)
        return sum(not entry.answer.done() for lane in lanes for entry in lane.waiting)

    @property
    def compiling(self) -> bool:
        """Whether an input waits for the compilation of a program."""
        return self._longer.is_busy

    def warm_up(self, line: ParsedLine) -> None:
        """Compiles the programs for lines that are not longer than this one.

        Raises:
          UserError: if the predictor cannot answer it.
        """
        for _ in self._predictor.answers([line]):
            pass
        self._compiled.append(self._predictor.widths(line))

    async def answers(self, lines: Sequence[ParsedLine]) -> list[Answer | HTTPException]:
        """The predictor's answer to each line, or an error with status 422.

        Raises:
          HTTPException: with status 429 if too many inputs wait, 500 if the predictor fails.
        """
        waiting = self.waiting
        if waiting + len(lines) > self._limits.queue:
            message = f"{waiting} inputs wait, and at most {self._limits.queue} may; try again"
            raise HTTPException(429, message, {"retry-after": "1"})
        loop = asyncio.get_running_loop()
        new = [_Waiting(line, self._predictor.widths(line), loop.create_future()) for line in lines]
        for entry in new:
            lane = self._ready if self._is_compiled(entry.shape) else self._longer
            lane.waiting.append(entry)
            if not lane.is_busy:
                lane.worker = loop.create_task(self._work(lane))
        results = await asyncio.gather(*(entry.answer for entry in new), return_exceptions=True)
        return [_unless_failed(result) for result in results]

    def _is_compiled(self, shape: tuple[int, ...]) -> bool:
        """Whether programs for this shape or a larger one are compiled."""
        return any(all(map(int.__le__, shape, compiled)) for compiled in self._compiled)

    async def _work(self, lane: _Lane) -> None:
        """Computes batches until nothing waits."""
        loop = asyncio.get_running_loop()
        while batch := self._next_batch(lane):
            lines = [entry.line for entry in batch]
            answers = await loop.run_in_executor(lane.thread, self._computed, lines)
            self._metrics.batches.observe(len(lines))
            if not (self._is_compiled(batch[0].shape) or any(map(_is_error, answers))):
                self._compiled.append(batch[0].shape)
            for entry, answer in zip(batch, answers, strict=True):
                if entry.answer.done():  # given up
                    continue
                if isinstance(answer, HTTPException):
                    entry.answer.set_exception(answer)
                else:
                    entry.answer.set_result(answer)

    def _next_batch(self, lane: _Lane) -> list[_Waiting]:
        """The input that has waited longest, and others of its shape."""
        waiting = [entry for entry in lane.waiting if not entry.answer.done()]
        same = [entry for entry in waiting if entry.shape == waiting[0].shape]
        batch = same[: batch_size(len(same), self._limits.batch)] if same else []
        chosen = set(batch)
        lane.waiting = [entry for entry in waiting if entry not in chosen]
        return batch

    def _computed(self, lines: Sequence[ParsedLine]) -> Sequence[Answer | HTTPException]:
        """The answers, or errors where the predictor fails; runs in the thread."""
        try:
            return [*self._predictor.answers(lines)]
        except Exception as error:
            if len(lines) > 1:  # so that only the inputs that fail have errors
                return [answer for line in lines for answer in self._computed([line])]
            if isinstance(error, InputTooLargeError):
                return [HTTPException(422, str(error))]
            _log.error("%s", location(error))
            return [HTTPException(500, _FAILED)]


def _is_error(answer: Answer | HTTPException) -> bool:
    return isinstance(answer, HTTPException)


def _unless_failed(result: Answer | BaseException) -> Answer | HTTPException:
    """An answer, or the error of an unusable input; raises any other error."""
    if isinstance(result, BaseException) and getattr(result, "status_code", 0) != 422:
        raise result
    return result  # type: ignore[return-value]


def batch_size(count: int, most: int) -> int:
    """The batch size for `count` waiting inputs: `most`, or with fewer the largest power of two up
    to `count`."""
    return most if count >= most else 1 << (count.bit_length() - 1)
