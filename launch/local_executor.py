"""Where the trials of a sweep run: each is `launch.train` in a process of its own.

A process for each keeps a crash, or a device out of memory, from the other trials, and what it does
is what the same command typed by hand does.
"""

import contextlib
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
from common_jax.sweep.plan import Trial
from common_jax.sweep.results import find, record

POLL_SECONDS = 1.0


def command(trial: Trial) -> list[str]:
    """What trains a trial, or goes on training it."""
    program = [sys.executable, "-m", "launch.train", "--config", trial.file, *trial.overrides]
    # alone, though a scheduler may have started the sweep as one of several processes
    return [*program, "--workdir", str(trial.workdir.path), "--num_processes", "1"]


class Process:
    """A trial under way."""

    def __init__(self, trial: Trial, environment: Mapping[str, str] | None = None):
        """Starts it.

        Args:
          environment: variables beside those of this process.

        Raises:
          UserError: if the sweep's folder cannot be written.
        """
        self._trial = trial
        with writing(trial.folder):
            trial.folder.mkdir(parents=True, exist_ok=True)
            trial.record.unlink(missing_ok=True)
            self._said_before = trial.log.stat().st_size if trial.log.exists() else 0
            with trial.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command(trial),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,  # Ctrl-C reaches this process, which tells the trials
                )

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, after so many seconds at most."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll() is not None

    def stop(self) -> None:
        """Lets it save where it stands, and waits for its end."""
        self._process.terminate()
        self._process.wait()

    @property
    def fault(self) -> str:
        """Why it ended before its time, in a line; "" if it did not."""
        status = self._process.returncode
        if status == 0:
            return ""
        if status < 0:
            name = signal.Signals(-status).name
            return f"ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        with self._trial.log.open("rb") as log:
            log.seek(self._said_before)
            said = log.read().decode(errors="replace").splitlines()
        lines = [line.strip() for line in said if line.strip()]
        mistakes = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return [f"exit status {status}", *lines[-1:], *mistakes[-1:]][-1]


def run_trial(
    trial: Trial, environment: Mapping[str, str] | None = None
) -> Iterator[Process | None]:
    """Trains a trial to its end, and records if it fails.

    While another process trains it, one that outlived its sweep or another sweep's, it is waited
    for.

    Yields: about every second, the process under way, or None while there is none of ours.
    """
    while True:
        if holder := trial.workdir.trained_by:
            print(f"waiting for {trial.name}, trained by {holder}", file=sys.stderr, flush=True)
        while trial.workdir.trained_by:
            time.sleep(POLL_SECONDS)
            yield None
        if find(trial).state == "finished":
            return
        process = Process(trial, environment)
        while not process.wait(POLL_SECONDS):
            yield process
        if not process.fault:
            return
        if not trial.workdir.trained_by:  # else another process was faster
            record(trial, "failed", process.fault)
            return


def run_here(trials: Sequence[Trial], jobs: int) -> Generator[Trial]:
    """Runs trials on this machine, `jobs` at a time; gives each as it ends. Left early, it stops
    those under way, which save where they stand.

    Where there are GPUs, they are dealt out to the jobs.

    Raises:
      UserError: for more jobs than GPUs.
    """
    seats: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
    for environment in _gpu_shares(jobs):
        seats.put(environment)
    leaving = threading.Event()

    def run(trial: Trial) -> Trial:
        seat = seats.get()
        try:
            for process in run_trial(trial, seat) if not leaving.is_set() else ():
                if leaving.is_set():
                    if process is not None:
                        process.stop()
                    break
        finally:
            seats.put(seat)
        return trial

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run, trial) for trial in trials]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            leaving.set()
            for future in futures:
                future.cancel()


def _gpu_shares(jobs: int) -> list[dict[str, str]]:
    """The environment of each job: its share of the GPUs, where there are some and several jobs."""
    gpus = _gpus() if jobs > 1 else []
    if gpus and jobs > len(gpus):
        raise UserError(f"--jobs {jobs}: this machine has {len(gpus)} GPUs, one a job at least")
    return [{"CUDA_VISIBLE_DEVICES": ",".join(gpus[n::jobs])} if gpus else {} for n in range(jobs)]


def _gpus() -> list[str]:
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
