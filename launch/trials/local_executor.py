"""Runs the trials of a sweep on this machine, each as a process of `launch.train`.

A trial that crashes or runs out of memory does not affect the others, and a trial has the same
result as a run of the same command.
"""

import contextlib
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from common_jax.errors import UserError
from common_jax.io.atomic import writing
from common_jax.io.storage import folder_of
from launch.cli import module_command
from launch.trials.status import find, record
from launch.trials.trials import Trial

POLL_SECONDS = 1.0

_log = logging.getLogger(__name__)


def arguments(trial: Trial) -> list[str]:
    """The arguments with which `launch.train` trains or resumes a trial."""
    # a single process, even if a scheduler started the sweep as one of several
    folder = ["--workdir", str(trial.workdir.path), "--num_processes", "1"]
    return ["--config", trial.file, *trial.overrides, *folder]


def command(trial: Trial) -> list[str]:
    """The command line of the process of a trial."""
    return [*module_command("train"), *arguments(trial)]


class Process:
    """The process of a trial."""

    def __init__(self, trial: Trial, environment: Mapping[str, str] | None = None):
        """Starts the process.

        Args:
          environment: variables in addition to those of this process.

        Raises:
          UserError: if the sweep's folder cannot be written.
        """
        with writing(trial.folder):
            trial.folder.mkdir(parents=True, exist_ok=True)
            trial.record.unlink(missing_ok=True)
            self._log = folder_of(trial.folder).append(trial.log.name)
            self._log_start = os.path.getsize(self._log.name)
            self._process = subprocess.Popen(
                command(trial),
                stdin=subprocess.DEVNULL,
                stdout=self._log.fileno(),
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # Ctrl-C reaches only this process, which forwards it
            )

    def wait(self, seconds: float) -> bool:
        """Waits at most `seconds`; returns whether the process has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        ended = self._process.poll() is not None
        if ended:
            self._log.close()
        return ended

    def stop(self) -> None:
        """Sends SIGTERM, on which training saves and stops, and waits for the end."""
        self._process.terminate()
        self._process.wait()
        with contextlib.suppress(UserError):  # would hide the error that ended the sweep
            self._log.close()

    @property
    def failure(self) -> str:
        """The error of a failed process, in one line; "" for success."""
        status = self._process.returncode
        if status == 0:
            return ""
        if status < 0:
            name = signal.Signals(-status).name
            return f"ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        with open(self._log.name, "rb") as log:
            log.seek(self._log_start)
            output = log.read().decode(errors="replace").splitlines()
        lines = [line.strip() for line in output if line.strip()]
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return [f"exit status {status}", *lines[-1:], *errors[-1:]][-1]


def run_trial(
    trial: Trial, environment: Mapping[str, str] | None = None
) -> Iterator[Process | None]:
    """Trains a trial, and records a failure.

    If a process of another sweep trains the trial, this waits for its end.

    Yields: about every second the process, or None while waiting.
    """
    while True:
        if holder := trial.workdir.trained_by:
            print(f"waiting for {trial.name}, trained by {holder}", file=sys.stderr, flush=True)
        while trial.workdir.trained_by:
            time.sleep(POLL_SECONDS)
            yield None
        if find(trial).state == "finished":
            return

        # trained by this sweep
        process = Process(trial, environment)
        while not process.wait(POLL_SECONDS):
            yield process
        if not process.failure:
            return
        if not trial.workdir.trained_by:  # else another process had locked the run
            record(trial, "failed", process.failure)
            return


def log_start(number: int, trials: Sequence[Trial]) -> None:
    """Logs that a trial starts, whose output for a while is in its log file only."""
    _log.info("trial %d of %d, compiling: %s", number + 1, len(trials), trials[number].name)


def run_here(trials: Sequence[Trial], jobs: int) -> Generator[Trial]:
    """Runs trials on this machine, `jobs` at a time, and yields each as it ends.

    Closing the generator stops the running trials, which save their state. The GPUs are divided
    among the jobs.

    Raises:
      UserError: for more jobs than GPUs.
    """
    environments: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
    for environment in _gpu_shares(jobs):
        environments.put(environment)
    stopping = threading.Event()

    def run(number: int, trial: Trial) -> Trial:
        environment = environments.get()
        try:
            if not stopping.is_set():
                log_start(number, trials)
            for process in run_trial(trial, environment) if not stopping.is_set() else ():
                if stopping.is_set():
                    if process is not None:
                        process.stop()
                    break
        finally:
            environments.put(environment)
        return trial

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run, number, trial) for number, trial in enumerate(trials)]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            stopping.set()
            for future in futures:
                future.cancel()


def _gpu_shares(jobs: int) -> list[dict[str, str]]:
    """Environment variables of each job: its share of the GPUs, if there are several jobs."""
    gpus = _gpus() if jobs > 1 else []
    if gpus and jobs > len(gpus):
        raise UserError(f"--jobs {jobs}: this machine has {len(gpus)} GPUs; at most one job a GPU")
    return [{"CUDA_VISIBLE_DEVICES": ",".join(gpus[n::jobs])} if gpus else {} for n in range(jobs)]


def _gpus() -> list[str]:
    """The names of the GPUs that this process may use."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return []
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        names = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        return [name for name in names if name.strip() not in ("", "-1")]
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        done = subprocess.run(query, capture_output=True, text=True, check=True)
        return done.stdout.split()
    return []
