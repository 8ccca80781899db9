"""How fast a run trains: its arithmetic, its memory, and traces of its steps."""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import jax
from jax.sharding import Mesh

from common_jax.errors import UserError
from common_jax.io.atomic import writing
from common_jax.io.storage import folder_of
from common_jax.training.multihost import is_first
from common_jax.training.run_folder import RunFolder
from common_jax.training.step_metrics import StallTimer
from common_jax.training.task import Task
from launch.measure.chips import chip_of
from launch.measure.flops import count_flops

SIGNAL = signal.SIGUSR1
TRACED = 3  # steps after a signal

_log = logging.getLogger(__name__)


class StepTracer:
    """Traces steps of a run by JAX's profiler, into folders of `RunFolder.profile`.

    In the context, SIGUSR1 has the process that receives it trace its next steps; outside the main
    thread Python cannot handle signals.
    """

    def __init__(self, task: Task, profile: tuple[int, int] | None = None):
        """
        Args:
          profile: the first and the last step to trace, in the first process of the run.

        Raises:
          UserError: for steps that the run does not have.
        """
        steps = task.config.train.steps
        if profile and not 1 <= profile[0] <= profile[1] <= steps:
            text = "{}:{}".format(*profile)
            raise UserError(f"--profile {text}: must be FIRST:LAST from 1 to train.steps={steps}")
        self._profile = profile
        self._requested = False
        self._wanted: set[int] = set()  # steps
        self._last = 0  # step traced
        self._trace: contextlib.ExitStack | None = None  # the one in progress
        self._before: Any = None  # handler of the signal

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(SIGNAL, self._request)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._end()
        if self._before is not None:
            signal.signal(SIGNAL, self._before)

    def _request(self, number: int, frame: object) -> None:
        self._requested = True

    def traced(self, train_step: Callable, run: RunFolder, step: int) -> Callable:
        """The training step, of which some calls are traced.

        Args:
          step: the last one taken.
        """
        if self._profile and is_first():
            first, last = self._profile
            self._wanted = {*range(max(first, step + 1), last + 1)}
            if not self._wanted:
                message = "--profile %d:%d: not traced, since step %d is done"
                _log.warning(message, first, last, step)

        def call(*args: Any) -> Any:
            nonlocal step
            first = step + 1
            step += len(args[1])
            if self._requested:
                self._requested = False
                self._wanted |= {*range(first, first + TRACED)}
            if self._wanted.isdisjoint(range(first, step + 1)):
                return train_step(*args)

            # a call to trace, perhaps the last one
            if self._trace is None:
                self._trace = contextlib.ExitStack()  # empty if a trace cannot begin
                with contextlib.ExitStack() as begun:
                    begun.enter_context(_warning_of_errors(run))
                    begun.enter_context(self._tracing(run, first))
                    self._trace = begun.pop_all()
            with jax.profiler.StepTraceAnnotation("train", step_num=first):
                results = train_step(*args)
            self._last = step
            if step + 1 not in self._wanted:
                jax.block_until_ready(results)
                self._end()
            return results

        return call

    @contextlib.contextmanager
    def _tracing(self, run: RunFolder, first: int) -> Iterator[None]:
        """A trace from a step to the last one traced, written at the end of the context."""
        run.profile.mkdir(parents=True, exist_ok=True)
        parent = folder_of(run.profile)
        with parent.building("steps") as folder:
            with jax.profiler.trace(str(folder)):
                yield
            process = f"-process-{number}" if (number := jax.process_index()) else ""
            name = f"steps-{first}-{self._last}{process}"
            parent.remove(name)
            parent.publish(folder, name)
        _log.info("traced steps %d to %d: %s", first, self._last, run.profile / name)

    def _end(self) -> None:
        """Ends the trace in progress, if any."""
        trace = self._trace
        self._trace = None
        if trace is not None:
            trace.close()


@contextlib.contextmanager
def _warning_of_errors(run: RunFolder) -> Iterator[None]:
    """A context in which a trace that fails, as on a full disk, is a warning: the run goes on."""
    try:
        with writing(run.profile):
            yield
    except (UserError, RuntimeError) as error:
        _log.warning("no trace: %s", error)


class StepMeter(StallTimer):
    """A timer of a run that also counts its operations, reads the devices' memory, and traces."""

    def __init__(self, task: Task, tracer: StepTracer):
        super().__init__()
        self._dtype = task.config.train.compute_dtype
        self._tracer = tracer
        self._peak: float | None = None
        self._flops = 0  # of the steps since the last line of the log

    def measured(self, train_step: Any, mesh: Mesh, run: RunFolder, step: int) -> Any:
        self._peak = peak_flops(mesh, self._dtype)
        traced_step = self._tracer.traced(train_step, run, step)
        flops: dict[Any, int] = {}  # of a call, by the shapes of its batches

        def call(*args: Any) -> Any:
            shapes = batch_shapes(args[1])
            if shapes in flops:
                results = traced_step(*args)
            else:
                with self.at("compiling_seconds"):
                    flops[shapes] = count_flops(train_step.trace(*args).jaxpr)
                    results = traced_step(*args)
            self._flops += flops[shapes]
            return results

        return call

    def reset(self, seconds: float) -> dict[str, float]:
        """As of the base class, with the rate of operations and the memory."""
        rate = self._flops / seconds
        self._flops = 0
        values = {"tflop_per_second": rate / 1e12}
        if self._peak:
            values["flop_utilisation"] = rate / self._peak
        if memory := peak_memory():
            values["peak_memory_mib"] = memory / 2**20
        return values | super().reset(seconds)


def batch_shapes(batches: Sequence[Any]) -> Any:
    """The shapes of a call's batches, as a key."""
    return tuple(tuple(sorted((k, v.shape) for k, v in batch.items())) for batch in batches)


def peak_flops(mesh: Mesh, dtype: str) -> float | None:
    """Operations a second of all devices at their peak; None for an unknown device.

    Args:
      dtype: of the products.
    """
    chip = chip_of(mesh.devices.flat[0].device_kind)
    return chip.peak[dtype] * mesh.size if chip else None


def peak_memory() -> int | None:
    """The most bytes in use at once, of the device of this process that had most; None if devices
    do not tell, as CPUs."""
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    return max((s["peak_bytes_in_use"] for s in stats if "peak_bytes_in_use" in s), default=None)
