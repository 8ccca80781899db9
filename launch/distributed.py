"""A run of several processes: how each of them starts, and how it ends.

JAX joins them (`jax.distributed.initialize`) and watches over them: when one dies or cannot be
reached, it aborts the others, in C++, with pages of its own. So each of them trains in a child of
the process that was started, which waits, passes requests to stop on, and says in a line what
happened.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import glob
import importlib.util
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import NoReturn, Self

from common_jax.errors import UserError, causes

HEARTBEAT_SECONDS = 20  # without a sign of life a process counts as dead
JOIN_SECONDS = 300  # all have to have started by then
LEAVE_SECONDS = 5.0  # that one that ends with an error waits for the others to end with it
LOST = 75  # the exit status for the death of another: sysexits.h's "try again"

_PR_SET_PDEATHSIG = 1  # Linux's prctl.h


@dataclasses.dataclass(frozen=True)
class DistributedArgs:
    """How many processes the run has, and which of them this is.

    Attributes:
      scheduler: that started them, if JAX is to ask it for the rest.
      coordinator: otherwise HOST:PORT of the first process.
      count: of processes.
      number: of this one.
    """

    scheduler: str = ""
    coordinator: str = ""
    count: int = 1
    number: int = 0

    @staticmethod
    def add_flags(parser: argparse.ArgumentParser) -> None:
        """Those that say what a scheduler does not."""
        group = parser.add_argument_group("several processes")
        group.add_argument("--coordinator", metavar="HOST:PORT", help="where the first listens")
        group.add_argument(
            "--num_processes", type=int, metavar="N", help="how many there are (1: this one alone)"
        )
        group.add_argument("--process_id", type=int, metavar="I", help="which is this, from 0")

    @classmethod
    def of(cls, args: argparse.Namespace) -> Self:
        """By the flags, or else by what a scheduler has put into the environment.

        Raises:
          UserError: for flags that do not go together.
        """
        where, count, number = args.coordinator, args.num_processes, args.process_id
        if where is None and count is None and number is None:
            return cls(scheduler=scheduler(os.environ))
        if count is not None and count < 1:
            raise UserError(f"--num_processes {count}: at least 1")
        if count == 1 and where is None and number in (None, 0):
            return cls()
        if None in (where, count, number):
            raise UserError("--coordinator, --num_processes and --process_id: give all three")
        if not 0 <= number < count:
            raise UserError(f"--process_id {number}: from 0 to {count - 1}")
        host, _, port = where.rpartition(":")
        if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 2**16:
            raise UserError(f"--coordinator {where}: write HOST:PORT")
        return cls("", where, count, number)

    def join(self) -> None:
        """Returns, in a child, when all have started; at once if there is only this one.

        Raises:
          UserError: if they do not find each other.
        """
        if self == DistributedArgs():
            return
        _go_on_in_a_child()
        _keep_stdout()
        import jax

        told = dataclasses.astuple(self)[1:] if self.coordinator else ()
        try:
            jax.distributed.initialize(
                *told,
                cluster_detection_method="deactivate" if told else None,
                initialization_timeout=JOIN_SECONDS,
                heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            )
        except Exception as error:  # of any kind: each detection asks others in its own way
            lone = "," not in os.environ.get("TPU_WORKER_HOSTNAMES", "")
            if self.scheduler == CLOUD_TPU and lone and "should be defined" in str(error):
                return
            raise UserError(self._unknown(error)) from error
        if jax.process_index() > 0:
            _silence_secondary()

    def _unknown(self, error: Exception) -> str:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if self.coordinator:
            return f"--coordinator {self.coordinator}: {reason}"
        return (
            f"{self.scheduler} seems to have started several processes, but JAX cannot tell which: "
            f"{reason}; give --coordinator, --num_processes and --process_id, or "
            "--num_processes=1 to train alone"
        )


CLOUD_TPU = "Cloud TPU"


def scheduler(environment: Mapping[str, str]) -> str:
    """Which scheduler seems to have started several processes; "" if none has.

    JAX's own detection takes a SLURM step of one process for a cluster too, and leaves it a single
    GPU of its machine.
    """
    more = lambda name: environment.get(name, "").isdecimal() and int(environment[name]) > 1
    if more("SLURM_NTASKS") and {"SLURM_STEP_NODELIST", "SLURM_PROCID"} <= environment.keys():
        return "SLURM"
    if more("OMPI_COMM_WORLD_SIZE"):
        return "Open MPI"
    if {"KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"} <= environment.keys():
        return "Kubernetes"
    tpu = "," in environment.get("TPU_WORKER_HOSTNAMES", "") or (
        importlib.util.find_spec("libtpu") and glob.glob("/dev/accel*") + glob.glob("/dev/vfio/*")
    )
    return CLOUD_TPU if tpu else ""


def exit_process(status: int, error: BaseException | None = None) -> None:
    """Ends this process if it is one of several, whether or not the others are about to end too.

    Python's own end would wait for them at JAX's barrier, minutes long.

    Args:
      error: of which nothing has been said yet.
    """
    jax = sys.modules.get("jax")
    if jax is None or not jax.distributed.is_initialized():
        return
    if any(isinstance(cause, jax.errors.JaxRuntimeError) for cause in causes(error)):
        # The death of another looks so too. If it was that, JAX ends this process meanwhile.
        time.sleep(1.5 * HEARTBEAT_SECONDS)
    if error is not None:
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads
            stream.flush()
    ending = threading.Thread(target=jax.distributed.shutdown, daemon=True)
    ending.start()
    ending.join(LEAVE_SECONDS)
    os._exit(status)


def _go_on_in_a_child() -> None:
    """Returns in a child of this process, which itself waits and ends as the child does."""
    parent, asked = os.getpid(), list[int]()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells both; this one is passed on
        if sys.platform.startswith("linux"):  # ends with its parent, however that ends
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(LOST)
        return

    def pass_on(number: int, frame: object) -> None:
        asked.append(number)
        os.kill(child, signal.SIGTERM)  # what JAX listens to

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    _, status = os.waitpid(child, 0)
    _end_as(os.waitstatus_to_exitcode(status), asked)


def _end_as(status: int, asked: list[int]) -> NoReturn:
    if status == -signal.SIGABRT:
        print(
            "error: JAX has ended this process (its words above), most likely because another of "
            "the run has died or cannot be reached; the same command, given to all of them again, "
            "goes on from the last checkpoint",
            file=sys.stderr,
        )
        status = LOST
    elif status == -signal.SIGTERM and asked:
        print(f"{signal.Signals(asked[0]).name}: stopped", file=sys.stderr)
        status = 128 + asked[0]
    elif status < 0:
        reason = " (out of memory?)" if status == -signal.SIGKILL else ""
        print(f"error: ended by {signal.Signals(-status).name}{reason}", file=sys.stderr)
        status = 128 - status
    elif status == 128 + signal.SIGTERM and asked:
        status = 128 + asked[0]
    sys.stderr.flush()
    os._exit(status)


def _keep_stdout() -> None:
    """What C++ says there, such as Gloo, goes to standard error."""
    if sys.stdout is None:
        return
    sys.stdout.flush()
    sys.stdout = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors="replace")
    os.dup2(2, 1)


def _silence_secondary() -> None:
    """The first process says what is to be said of all."""
    import logging

    logging.disable(logging.WARNING)
