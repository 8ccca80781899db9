"""Connects the processes of a run by `jax.distributed`.

JAX waits without a message, does not notice processes that expect another number, and aborts with a
native stack trace at its time limit or for a port in use.
"""

import logging
import os
import socket
import sys
import threading
from typing import Any

from common_jax.errors import UserError
from launch.exits import HEARTBEAT_SECONDS, flush
from launch.train.schedulers import CLOUD_TPU, DistributedArgs, several_hosts

JOIN_SECONDS = 300  # timeout for all processes to start
LOG_SECONDS = 60  # between two messages while waiting
ALONE = "; --num_processes=1 trains alone"

_log = logging.getLogger(__name__)


def join(processes: DistributedArgs) -> None:
    """Connects the processes; a single process returns at once.

    Raises:
      UserError: if the processes cannot connect.
    """
    if processes == DistributedArgs():
        return
    _redirect_libraries()
    import jax

    try:
        # the processes, by JAX's detection if they are not given
        coordinator, count, number = _detected(processes)
        if (
            coordinator is None
            and processes.scheduler == CLOUD_TPU
            and not several_hosts(os.environ)
        ):
            return
        if None in (coordinator, count, number):
            raise RuntimeError("no known environment")

        # JAX's own timeout is longer than that of the messages
        waiting = _waiting(coordinator, count, ALONE if processes.scheduler else "")
        if number == 0:
            _require_free_port(os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", coordinator))
        try:
            jax.distributed.initialize(
                *(coordinator, count, number),
                local_device_ids=processes.devices,
                cluster_detection_method="deactivate",
                initialization_timeout=2 * JOIN_SECONDS,
                heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            )
        finally:
            waiting.set()
        _require_equal_counts(count, number)
    except UserError:
        raise
    except Exception as error:  # each scheduler's detection raises its own exceptions
        raise UserError(_message(processes, error)) from error

    # only the first process logs
    if jax.process_index() > 0:
        logging.disable(logging.WARNING)


def _waiting(address: str, count: int, advice: str) -> threading.Event:
    """Logs each minute, until the event is set, where how many processes are expected; ends this
    process with a line and status 2 after `JOIN_SECONDS`."""
    joined = threading.Event()

    def report() -> None:
        for seconds in range(LOG_SECONDS, JOIN_SECONDS, LOG_SECONDS):
            if joined.wait(LOG_SECONDS):
                return
            text = "waiting for %d processes at %s since %d s%s"
            _log.warning(text, count, address, seconds, advice)
        if not joined.wait(LOG_SECONDS):
            line = f"fewer than {count} processes at {address} within {JOIN_SECONDS} s{advice}"
            print(f"error: {line}", file=sys.stderr)
            flush()
            os._exit(2)

    threading.Thread(target=report, daemon=True).start()
    return joined


def _require_free_port(address: str) -> None:
    """Raises UserError if the port, of all interfaces as JAX will use it, is in use."""
    port = int(address.rpartition(":")[2])
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=dual).close()
    except OSError as error:
        raise UserError(f"coordinator: port {port}: {os.strerror(error.errno or 0)}") from error


def _require_equal_counts(count: int, number: int) -> None:
    """Raises UserError if another process of the run expects another number of processes."""
    from jax._src import distributed

    client: Any = distributed.global_state.client
    key = "conv_attention/count"
    client.key_value_set(f"{key}/{number}", str(count))
    for other in range(count):
        expected = client.blocking_key_value_get(f"{key}/{other}", 1000 * JOIN_SECONDS)
        if expected != str(count):
            raise UserError(
                f"process {number} is one of {count}, process {other} one of {expected}"
            )


def _detected(processes: DistributedArgs) -> tuple[Any, Any, Any]:
    """Coordinator, count and number, by JAX's detection if they are not given (without the devices
    that it detects: a single GPU for each process)."""
    if processes.coordinator:
        return processes.coordinator, processes.count, processes.number
    from jax._src.clusters import ClusterEnv

    unset = (os.environ.get("JAX_COORDINATOR_ADDRESS"), None, None, None, None)
    return ClusterEnv.auto_detect_unset_distributed_params(*unset, JOIN_SECONDS)[:3]


def _message(processes: DistributedArgs, error: Exception) -> str:
    """The message of an error while connecting."""
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    if processes.coordinator:
        return f"coordinator {processes.coordinator}: {reason}"
    return (
        f"{processes.scheduler} seems to have started several processes, but JAX does not detect "
        f"them: {reason}; give --coordinator, --num_processes and --process_id, or "
        "--num_processes=1 for a single process"
    )


def _redirect_libraries() -> None:
    """Redirects the output of C++ libraries, such as Gloo, from stdout to stderr."""
    if sys.stdout is None:
        return
    sys.stdout.flush()
    sys.stdout = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors="replace")
    os.dup2(2, 1)
