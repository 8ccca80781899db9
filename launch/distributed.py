"""Start and exit of the processes of a distributed run.

When a process dies or cannot be reached, `jax.distributed` aborts the others in C++, with pages of
output. Hence each process trains in a child; the parent forwards requests to stop, and reports in
one line how the child ended.

JAX 0.10.2 has no alternative: with `jax_enable_recoverability` a process can wait forever in a
collective operation, and still aborts with the first process; the `missed_heartbeat_callback` of
the client cannot be set by `jax.distributed.initialize`, and aborts too (std::bad_cast).
"""

import argparse
import contextlib
import ctypes
import dataclasses
import glob
import importlib.util
import logging
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn, Self

from common_jax.errors import UserError, causes
from common_jax.io import bucket_state
from common_jax.io.terminal import hangup, leave_terminal
from launch.rendezvous import meet

HEARTBEAT_SECONDS = 20  # timeout of the heartbeats of a process
JOIN_SECONDS = 300  # timeout for all processes to start
LEAVE_SECONDS = 5.0  # timeout for the others when a process ends with an error
LOST = 75  # exit status when another process died: EX_TEMPFAIL of sysexits.h

_PR_SET_PDEATHSIG = 1  # Linux's prctl.h


@dataclasses.dataclass(frozen=True)
class DistributedArgs:
    """The processes of a run, and this one's number.

    Attributes:
      scheduler: name of the scheduler from which JAX gets the other values; "" for none.
      coordinator: HOST:PORT of the first process, without a scheduler.
      count: number of processes.
      number: number of this process, from 0.
      devices: numbers of this machine's devices that this process uses; None for all that it sees.
    """

    scheduler: str = ""
    coordinator: str = ""
    count: int = 1
    number: int = 0
    devices: tuple[int, ...] | None = None

    @staticmethod
    def add_flags(parser: argparse.ArgumentParser) -> None:
        """Adds the flags for processes started without a scheduler."""
        group = parser.add_argument_group("several processes")
        group.add_argument("--coordinator", metavar="HOST:PORT", help="address of the first")
        group.add_argument(
            "--num_processes", type=int, metavar="N", help="number of processes (1: a single one)"
        )
        group.add_argument("--process_id", type=int, metavar="I", help="number of this one, from 0")

    @classmethod
    def of(cls, args: argparse.Namespace) -> Self:
        """The processes by the flags, or else by a scheduler's environment variables.

        Raises:
          UserError: for inconsistent flags.
        """
        coordinator, count, number = args.coordinator, args.num_processes, args.process_id
        if coordinator is None and count is None and number is None:
            return cls._of_torchrun(os.environ) or cls._of_scheduler(os.environ)
        if count is not None and count < 1:
            raise UserError(f"--num_processes {count}: at least 1")
        if count == 1 and coordinator is None and number in (None, 0):
            return cls()
        if None in (coordinator, count, number):
            raise UserError("--coordinator, --num_processes and --process_id: give all three")
        if not 0 <= number < count:
            raise UserError(f"--process_id {number}: from 0 to {count - 1}")
        host, _, port = coordinator.rpartition(":")
        if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 2**16:
            raise UserError(f"--coordinator {coordinator}: write HOST:PORT")
        return cls("", coordinator, count, number)

    @classmethod
    def _of_torchrun(cls, environment: Mapping[str, str]) -> Self | None:
        """The processes by the variables of torchrun, which Kubeflow's PyTorchJob sets too; None
        without them, or for a single process."""
        names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
        host, *values = (environment.get(name, "") for name in names)
        if not host or not all(value.isdecimal() for value in values):
            return None
        port, count, number = map(int, values)
        if count == 1:
            return None
        if not number < count:
            raise UserError(f"RANK={number}: from 0 to WORLD_SIZE - 1, {count - 1}")
        # torchrun's own store listens at MASTER_PORT
        port += environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        devices = local_devices(environment, "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        return cls("", f"{host}:{port}", count, number, devices)

    @classmethod
    def _of_scheduler(cls, environment: Mapping[str, str]) -> Self:
        """The processes of a scheduler; the first ones of a machine use the first of its GPUs."""
        name = scheduler(environment)
        if name == SLURM:
            if environment.get("SLURM_STEP_NUM_TASKS") == "1":
                raise UserError(
                    f"SLURM_NTASKS={environment['SLURM_NTASKS']}, but this is the only task of its "
                    "step, as in salloc's shell: start all tasks with srun, or give "
                    "--num_processes=1, which trains alone"
                )
            return cls(SLURM, devices=local_devices(_slurm_node(environment), "rank", "size"))
        names = ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
        return cls(name, devices=local_devices(environment, *names))

    def start(self) -> None:
        """Returns in a child process, before any library has threads; a single process returns at
        once."""
        if self != DistributedArgs():
            _continue_in_child()

    def join(self) -> None:
        """Connects the processes; a single process returns at once.

        Raises:
          UserError: if the processes cannot connect.
        """
        if self == DistributedArgs():
            return
        _redirect_libraries()
        import jax

        try:
            coordinator, count, number = self._detected()
            if (
                coordinator is None
                and self.scheduler == CLOUD_TPU
                and not _several_hosts(os.environ)
            ):
                return
            if None in (coordinator, count, number):
                raise RuntimeError("no known environment")
            meet(coordinator, count, number, JOIN_SECONDS, ALONE if self.scheduler else "")
            jax.distributed.initialize(
                *(coordinator, count, number),
                local_device_ids=self.devices,
                cluster_detection_method="deactivate",
                initialization_timeout=JOIN_SECONDS,
                heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            )
        except UserError:
            raise
        except Exception as error:  # each scheduler's detection raises its own exceptions
            raise UserError(self._message(error)) from error
        if jax.process_index() > 0:  # only the first process logs
            logging.disable(logging.WARNING)

    def _detected(self) -> tuple[Any, Any, Any]:
        """Coordinator, count and number, by JAX's detection if they are not given (without the
        devices that it detects: a single GPU for each process)."""
        if self.coordinator:
            return self.coordinator, self.count, self.number
        from jax._src.clusters import ClusterEnv

        unset = (os.environ.get("JAX_COORDINATOR_ADDRESS"), None, None, None, None)
        return ClusterEnv.auto_detect_unset_distributed_params(*unset, JOIN_SECONDS)[:3]

    def _message(self, error: Exception) -> str:
        """The message of an error while connecting."""
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if self.coordinator:
            return f"coordinator {self.coordinator}: {reason}"
        return (
            f"{self.scheduler} seems to have started several processes, but JAX does not detect "
            f"them: {reason}; give --coordinator, --num_processes and --process_id, or "
            "--num_processes=1 for a single process"
        )


CLOUD_TPU, SLURM, OPEN_MPI = "Cloud TPU", "SLURM", "Open MPI"
ALONE = "; --num_processes=1 trains alone"


def scheduler(environment: Mapping[str, str]) -> str:
    """The scheduler that seems to have started several processes; "" for none.

    JAX's own detection also takes a SLURM step of one process for a cluster, with a single GPU.
    """
    several = lambda name: environment.get(name, "").isdecimal() and int(environment[name]) > 1
    if several("SLURM_NTASKS") and {"SLURM_STEP_NODELIST", "SLURM_PROCID"} <= environment.keys():
        return SLURM
    if several("OMPI_COMM_WORLD_SIZE"):
        return OPEN_MPI
    if {"KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"} <= environment.keys():
        return "Kubernetes"
    tpu = _several_hosts(environment) or (
        importlib.util.find_spec("libtpu") and glob.glob("/dev/accel*") + glob.glob("/dev/vfio/*")
    )
    return CLOUD_TPU if tpu else ""


def _several_hosts(environment: Mapping[str, str]) -> bool:
    return "," in environment.get("TPU_WORKER_HOSTNAMES", "")


def local_devices(
    environment: Mapping[str, str], rank_name: str, size_name: str
) -> tuple[int, ...] | None:
    """The GPUs of a process that shares its machine with others; None for all that it sees.

    JAX's detection would give each process one and leave the rest unused.

    Args:
      rank_name, size_name: the variables with the number of the process on its machine, and with
        the number of processes there.

    Raises:
      UserError: for GPUs that cannot be shared equally.
    """
    rank, size = (environment.get(name, "") for name in (rank_name, size_name))
    if not (rank.isdecimal() and size.isdecimal()) or int(size) < 2:
        return None
    seen, on_node = _gpus(environment), environment.get("SLURM_GPUS_ON_NODE", "")
    if 0 < seen < max(int(size), int(on_node) if on_node.isdecimal() else 0):
        return None  # those of this process alone
    if seen % int(size):
        raise UserError(
            f"{seen} GPUs cannot be shared equally by the {size} processes of this machine: start "
            "one, which uses all of them, or one for each GPU"
        )
    share = max(seen // int(size), 1)
    return tuple(range(int(rank) * share, (int(rank) + 1) * share))


def _gpus(environment: Mapping[str, str]) -> int:
    """The number of NVIDIA GPUs that this process sees."""
    if (visible := environment.get("CUDA_VISIBLE_DEVICES")) is not None:
        return len([name for name in visible.split(",") if name.strip() not in ("", "-1")])
    return len(glob.glob("/dev/nvidia[0-9]*"))


def _slurm_node(environment: Mapping[str, str]) -> dict[str, str]:
    """Adds "rank" and "size" on its node, of a task of a SLURM step, to the variables.

    SLURM_STEP_TASKS_PER_NODE is as "2(x3),1": three nodes with two tasks, one with one.
    """
    counts = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    sizes = [size for size, nodes in counts for _ in range(int(nodes or 1))]
    node = environment.get("SLURM_NODEID", "")
    size = sizes[int(node)] if node.isdecimal() and int(node) < len(sizes) else ""
    return {**environment, "rank": environment.get("SLURM_LOCALID", ""), "size": size}


def exit_process(status: int, error: BaseException | None = None, *, at_once: bool = False) -> None:
    """Exits without waiting for the other processes, or for requests to a bucket that is given up;
    returns if there are neither.

    Python's own exit would wait for them at JAX's barrier or for Orbax's threads, for minutes.

    Args:
      error: printed with its traceback.
      at_once: exits also without other processes, and does not wait for threads, which may be
        inside a program without an end.
    """
    jax: Any = sys.modules.get("jax")
    several = jax is not None and jax.distributed.is_initialized()
    if not several and not bucket_state.lost_bucket():
        if at_once:
            _flush()
            os._exit(status)
        return
    if several and any(isinstance(cause, jax.errors.JaxRuntimeError) for cause in causes(error)):
        # If another process has died, JAX ends this one during this time.
        time.sleep(1.5 * HEARTBEAT_SECONDS)
    if error is not None:
        traceback.print_exception(error)
    _flush()
    if several:
        ending = threading.Thread(target=jax.distributed.shutdown, daemon=True)
        ending.start()
        ending.join(LEAVE_SECONDS)
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed or broken pipe
            stream.flush()


def _continue_in_child() -> None:
    """Returns in a child of this process; the parent waits, and exits with the child's status."""
    parent, signals = os.getpid(), list[int]()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # sent to both; the parent forwards it
        for number in hangup():
            signal.signal(number, lambda number, frame: leave_terminal())
        if sys.platform.startswith("linux"):  # end with the parent
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(LOST)
        return

    def forward(number: int, frame: object) -> None:
        signals.append(number)
        leave_terminal()
        os.kill(child, signal.SIGTERM)  # which JAX handles

    for number in (signal.SIGTERM, signal.SIGINT, *hangup()):
        signal.signal(number, forward)
    _, status = os.waitpid(child, 0)
    _exit_like_child(os.waitstatus_to_exitcode(status), signals)


def _exit_like_child(status: int, signals: list[int]) -> NoReturn:
    """Exits with the child's status, and reports a signal that ended it.

    Args:
      status: of the child; negative is a signal's number.
      signals: that were forwarded to it.
    """
    if status == -signal.SIGABRT:
        print(
            "error: JAX has ended this process (its messages above), most likely because another "
            "process of the run has died or cannot be reached; the same command on all machines "
            "resumes from the last checkpoint",
            file=sys.stderr,
        )
        status = LOST
    elif status == -signal.SIGTERM and signals:
        print(f"{signal.Signals(signals[0]).name}: stopped", file=sys.stderr)
        status = 128 + signals[0]
    elif status < 0:
        reason = " (out of memory?)" if status == -signal.SIGKILL else ""
        print(f"error: ended by {signal.Signals(-status).name}{reason}", file=sys.stderr)
        status = 128 - status
    elif status == 128 + signal.SIGTERM and signals:
        status = 128 + signals[0]
    sys.stderr.flush()
    os._exit(status)


def _redirect_libraries() -> None:
    """Redirects the output of C++ libraries, such as Gloo, from stdout to stderr."""
    if sys.stdout is None:
        return
    sys.stdout.flush()
    sys.stdout = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors="replace")
    os.dup2(2, 1)
