"""Trackers, which show a run's numbers elsewhere: TensorBoard, Weights & Biases, Trackio, MLflow.

TensorBoard's events are written by the run. Each other tracker has a process that follows the log,
where its package may wait, fail and outlive the run: those of Weights & Biases and MLflow hold up
the end of a process whose server does not answer, also from a thread.
"""

import contextlib
import importlib.util
import json
import logging
import os
import pkgutil
import secrets
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol

from common_jax.config import TRACKERS
from common_jax.errors import missing_extra
from common_jax.io import lock
from common_jax.io.atomic import write_json
from common_jax.io.storage import folder_of
from common_jax.processes import module_process
from common_jax.training.run_folder import RunFolder, final_scores

_log = logging.getLogger(__name__)

END_SECONDS = 4  # that a run waits at its end
SENDING_SECONDS = 25  # from then on, for what is not sent; schedulers kill after 30
_GROUPS = ("train", "dev", "final")  # of the numbers of a step, in this order


def require_installed(names: Sequence[str]) -> None:
    """Raises UserError for a tracker whose package is missing."""
    for name in names:
        package = pkgutil.resolve_name(TRACKERS[name]).package
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:  # a folder of that name is no package
            raise missing_extra(f"train.trackers: {package} is not installed; {name}", name)


def open_tracker(
    name: str, run: RunFolder, start: int, config: Mapping[str, Any]
) -> "TensorBoard | TrackerProcess":
    """Opens a tracker of `TRACKERS` for a run that continues after step `start`.

    Args:
      config: its values by the fields' full names.
    """
    if name == "tensorboard":
        return TensorBoard(run, start)
    return TrackerProcess(name, run, start, config)


def _numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line of the log by GROUP/NAME."""
    group = line.get("split", "train")
    names = [k for k, v in line.items() if k != "step" and isinstance(v, int | float)]
    return {f"{group}/{name}": line[name] for name in names}


class TensorBoard:
    """Scalars for TensorBoard; events of an earlier process after the run's start are overridden.

    tensorboardX's `SummaryWriter` (2.6.5) writes in a thread; a full disk ends that thread, and
    `add_scalar` then blocks forever.
    """

    package = "tensorboardX"

    def __init__(self, run: RunFolder, start: int):
        from tensorboardX import summary  # slow to import
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        self._mirror = folder_of(run.tensorboard).mirror()
        self._mirror.folder.mkdir(exist_ok=True)
        self._scalar = summary.scalar
        self._event = event_pb2.Event
        self._writer = EventsWriter(str(self._mirror.folder / "events"), f".{os.getpid()}.{start}")
        started = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._add(start + 1, session_log=started)  # overrides earlier events from this step on

    def write(self, line: Mapping[str, Any]) -> None:
        """Writes the numbers of a line of the log."""
        for name, value in _numbers(line).items():
            self._add(line["step"], summary=self._scalar(name, value))
        self._writer.flush()

    def flush(self) -> None:
        """Uploads the file to a bucket."""
        self._mirror.flush()

    def end(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Closes the file."""
        with contextlib.closing(self._mirror):
            self._writer.close()

    def _add(self, step: int, **content: Any) -> None:
        self._writer.write_event(self._event(wall_time=time.time(), step=step, **content))


class TrackerProcess:
    """Starts a tracker's process; its first failure is a warning, and no method raises one."""

    def __init__(self, name: str, run: RunFolder, start: int, config: Mapping[str, Any]):
        self._name = name
        self._mirror = folder_of(run.tracker(name)).mirror()
        if start:
            self._mirror.fetch()  # the record that is continued
        self._folder = self._mirror.folder.resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        title = run.path.resolve().name
        self._run = {"name": name, "path": str(run.path), "title": title, "config": config}
        self._warned = False
        self._start(start)

    def write(self, line: Mapping[str, Any]) -> None:
        """Starts the process again if it has died before a validation; it reads the log itself."""
        if "split" in line and self._process.poll() is not None:
            self._warn_of_death()
            self._start(line["step"])

    def flush(self) -> None:
        """Uploads the files to a bucket."""
        self._mirror.flush()

    def end(self) -> None:
        """Announces the end of the run; several trackers then send at once."""
        self._deadline = time.monotonic() + END_SECONDS
        self._process.stdin.close()  # type: ignore[union-attr]

    def close(self) -> None:
        """Waits until all is sent, up to `END_SECONDS` from `end` on."""
        try:
            if self._process.wait(max(0, self._deadline - time.monotonic())):
                self._warn_of_death()
        except subprocess.TimeoutExpired:
            self._warn(f"not all is sent; its process goes on for {SENDING_SECONDS} seconds")
        self._mirror.close()

    def _start(self, start: int) -> None:
        arguments = json.dumps({**self._run, "folder": str(self._folder), "start": start})
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                module_process(__name__, arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,  # Ctrl-C does not reach it
                text=True,
            )
        self._relay = Thread(target=self._log_messages, daemon=True)
        self._relay.start()

    def _log_messages(self) -> None:
        for line in self._process.stdout or ():
            level, _, message = line.strip().partition(" ")
            if level == "info":
                _log.info("%s: %s", self._name, message)
            else:
                self._warn(message)

    def _warn_of_death(self) -> None:
        self._relay.join(0.5)  # its last message may say why
        self._warn("its process has died")

    def _warn(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("%s: %s (%s)", self._name, problem, self._folder / "output.log")


class TrackedRun:
    """A run in the process of its tracker, which gets what the log has and its record lacks.

    Attributes:
      folder: for the tracker's files.
      name: the run's name, which no other run has.
      id: unique, of letters and digits; that of the record which a resumed run continues.
      config: its values by the fields' full names.
      ended: is set when the run has ended.
      tell: reports "info" or a "warning" to the process of the run.
    """

    def __init__(self, run: Mapping[str, Any], ended: Event, tell: Callable[[str, str], None]):
        """Reads the record; a run that begins anew has a new one."""
        self.folder = Path(run["folder"])
        self._record = self.folder / "record.json"
        known = run["start"] and self._record.exists()
        stored = json.loads(self._record.read_text()) if known else {}
        self.id: str = stored.get("id") or secrets.token_hex(4)
        self.name = f"{run['title']}-{self.id}"
        self.config: dict[str, Any] = run["config"]
        self.ended = ended
        self.tell = tell
        self._sent = (stored.get("step", -1), len(stored.get("groups", ())))
        self._class = pkgutil.resolve_name(TRACKERS[run["name"]])
        self._tracker: Tracker | None = None
        self._run = RunFolder(run["path"])

    def follow(self) -> None:
        """Sends new lines of the log until the run has ended, and then the final scores."""
        # the log; after a failure, at the next validation
        tried = -1
        pause = 3.0
        while not self.ended.wait(pause):
            began = time.monotonic()
            lines = self._run.metrics()
            pause = max(3.0, 20 * (time.monotonic() - began))  # a long log is read less often
            validations = sum("split" in line for line in lines)
            if self._tracker or validations > tried:
                self._send(lines)
                tried = validations
            if self._tracker is None:
                pause = 30.0  # packages that try to open take much time

        # the rest
        lines = self._run.metrics()
        if result := self._run.result():
            lines.append({"step": result["steps"], **final_scores(result["metrics"])})
        self._send(lines)
        if self._tracker:
            self._tracker.close()
            self._store()

    def _send(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Sends the lines that the record lacks; without a tracker, tries to open it."""
        self._store()  # what was sent before, since packages send in threads of their own
        if self._tracker is None:
            try:
                self._tracker = self._class(self)
                self.tell("info", self._tracker.location)
            except Exception as error:
                self.tell("warning", f"{type(error).__name__}: {error}")
                traceback.print_exc()
                return
        for line in lines:
            at = (line["step"], _GROUPS.index(line.get("split", "train")) + 1)
            if at > self._sent and "resumed_from" not in line:
                self._tracker.log(line["step"], _numbers(line))
                self._sent = at

    def _store(self) -> None:
        step, groups = self._sent
        write_json(self._record, {"id": self.id, "step": step, "groups": _GROUPS[:groups]})


class Tracker(Protocol):
    """Continues or begins the record of a run's id; any exception is an outage.

    Attributes:
      package: the module that it needs, of the extra with the tracker's name.
      location: where to look at the record.
    """

    package: str
    location: str

    def __init__(self, run: TrackedRun): ...

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Writes numbers by name; steps do not decrease."""

    def close(self) -> None:
        """Ends the record."""


class WandB:
    """Weights & Biases (WANDB_PROJECT, WANDB_MODE); offline if its server is away until the end.

    Offline each process writes a folder, whose steps go on; `wandb sync` puts them together.
    """

    package = "wandb"

    def __init__(self, run: TrackedRun):
        import wandb

        settings = wandb.Settings(console="off", init_timeout=8, finish_timeout=SENDING_SECONDS - 5)
        project = os.environ.get("WANDB_PROJECT", "conv-attention")
        fields: dict[str, Any] = {"project": project, "name": run.name, "id": run.id}
        fields |= {"resume": "allow", "dir": str(run.folder), "settings": settings}
        try:
            self._run = wandb.init(**fields)
        except Exception:  # no server, or no account on this machine
            wandb.teardown(exit_code=1)  # else the id is in use
            if not run.ended.is_set():
                raise
            self._run = wandb.init(**fields, mode="offline")
        self._run.config.update(run.config, allow_val_change=True)
        self.location = self._run.url or f"offline; `wandb sync {self._run.settings.sync_dir}`"

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """Trackio (TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL).

    Without its server it stores the numbers on this machine and sends them with the next run.
    """

    package = "trackio"

    def __init__(self, run: TrackedRun):
        import trackio

        # it never raises: an outage is a warning
        warnings.showwarning = lambda message, *_: run.tell("warning", str(message))
        project = os.environ.get("TRACKIO_PROJECT", "conv-attention")
        self._run = trackio.init(
            project, name=run.name, resume="allow", config=run.config, embed=False
        )
        self.location = f"`trackio show --project {project}`, {run.name}"

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """MLflow (MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME); the config are its parameters, which
    stay those of the first process."""

    package = "mlflow"

    def __init__(self, run: TrackedRun):
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # default: for minutes
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "8")
        import mlflow

        # the record, which a resumed run finds by its tag
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "conv-attention")
        mlflow.set_experiment(name)
        tag = "conv_attention.id"
        runs = mlflow.search_runs(filter_string=f"tags.`{tag}`='{run.id}'", output_format="list")
        record = mlflow.active_run() or mlflow.start_run(
            runs[0].info.run_id if runs else None, run_name=run.name, tags={tag: run.id}
        )
        self._mlflow = mlflow
        self.location = f"experiment {name}, run {run.name}"

        # the config
        known = record.data.params
        mlflow.log_params({k: v for k, v in run.config.items() if k not in known})

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(dict(numbers), step)

    def close(self) -> None:
        self._mlflow.end_run()


def main() -> None:
    """A tracker's process; the end of standard input is that of the run, which the argument has as
    JSON. Messages go to standard output; what packages print goes to standard error."""
    os.nice(10)  # training goes first
    run = json.loads(sys.argv[1])
    ended = Event()
    messages = os.dup(1)
    os.dup2(2, 1)

    def wait_for_end() -> None:
        sys.stdin.read()
        signal.alarm(SENDING_SECONDS)  # ends this process, also inside a call
        ended.set()

    def tell(level: str, text: str) -> None:
        with contextlib.suppress(OSError):  # the run was killed
            os.write(messages, f"{level} {' '.join(text.split())[:500]}\n".encode())

    # once the process of a killed run has ended
    Thread(target=wait_for_end, daemon=True).start()
    with lock.held(Path(run["folder"]) / "record.lock"):
        try:
            TrackedRun(run, ended, tell).follow()
        except Exception as error:  # its package may be in any state: the process ends
            tell("warning", f"{type(error).__name__}: {error}")
            raise
