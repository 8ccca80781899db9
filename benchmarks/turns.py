"""Parts of a measurement that are compiled together, and timed one after the other while others
are stopped."""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.side_by_side import THREADS, WORKERS, Side
from common_jax.io.atomic import replace_text, write_json
from launch.reproduce.measurements import DIGESTS, SPEED, speeds_by_row

ROOT = WORKERS.parents[1]
CORES = 3  # of the machine, for each part that is compiled
SETTLING = 1.0  # seconds in which the device finishes what stopped processes have asked for


class Part(NamedTuple):
    """What is timed together.

    Attributes:
      name: of its file.
      sides: each in a process of its own; the first is the suite.
      seconds: on one H200, until all is compiled beside the parts before it, and for all rounds;
        estimated.
      corpora: folders and files in --data.
      digests: of a table's rows, by which `launch.reproduce` knows their speeds.
    """

    name: str
    sides: Sequence[Side]
    seconds: tuple[float, float]
    corpora: Sequence[str] = ()
    digests: Mapping[str, str] = MappingProxyType({})

    @property
    def rows(self) -> dict[str, tuple[str, list[str]]]:
        """The suite's configs, each a file and its overrides."""
        return self.sides[0].job["rows"]

    @property
    def is_table(self) -> bool:
        """Whether its rows are those of a table of that name."""
        return "/" in self.name


class EndedError(Exception):
    """A side has ended; its text is the side's name and its last words."""


class Worker:
    """The process of a side, and all that it starts: a process group."""

    def __init__(self, side: Side, folder: Path, priority: int):
        """Starts it. The job, the log and the traces are in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.side = side
        self.about: dict[str, Any] = {}  # once all is compiled
        self._log = folder / f"{side.name}.log"
        job = folder / f"{side.name}.job.json"
        replace_text(job, json.dumps({"side": side.name, "threads": THREADS, **side.job}))
        kernels = {"TORCHINDUCTOR_CACHE_DIR": str((folder / "inductor").absolute())}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(side.python), str(WORKERS / f"{side.worker}.py"), str(job)],
                bufsize=0,  # so that select sees each line
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), **kernels},
            )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, priority)

    def answer(self, until: float) -> dict[str, Any] | None:
        """The next line of JSON; None if there is none until this time.

        Raises:
          EndedError: if the process has ended.
        """
        output = self._process.stdout
        assert output is not None
        while select.select([output], [], [], max(until - time.monotonic(), 0.0))[0]:
            line = output.readline()
            if line.startswith(b"{"):
                return json.loads(line)
            if not line:
                words = self._log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
                raise EndedError(f"{self.side.name}: {words or 'ended'}")
        return None

    def ask(self, line: str, until: float) -> dict[str, Any]:
        """The answer to a line.

        Raises:
          TimeoutError: if there is none until this time.
          EndedError: as `answer`.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # told by `answer`
            self._process.stdin.write(f"{line}\n".encode())
        answer = self.answer(until)
        if answer is None:
            raise TimeoutError
        return answer

    def signal(self, number: signal.Signals) -> None:
        """Signals the group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def end(self) -> None:
        """Ends the group."""
        self.signal(signal.SIGKILL)
        self._process.wait()


class Measurement:
    """A part that is being compiled or timed.

    Attributes:
      result: what its file has.
    """

    def __init__(self, part: Part, out: Path, rounds: int, about: dict[str, Any], priority: int):
        """Starts the processes of its sides."""
        self.part = part
        self.result: dict[str, Any] = {"part": part.name, **about, "state": "not compiled in time"}
        self._out = out
        self._rounds = rounds
        self._folder = (out / part.name).absolute()
        self.workers = [Worker(side, self._folder, priority) for side in part.sides]
        self.save()

    def is_ready(self) -> bool:
        """Whether all sides are compiled.

        Raises:
          EndedError: if one has ended.
        """
        for worker in self.workers:
            worker.about = worker.about or worker.answer(0.0) or {}
        return all(worker.about for worker in self.workers)

    def time(self, until: float) -> None:
        """Times all rounds, in each the sides in a random order, then the kernels of one round.

        Raises:
          TimeoutError: if this time comes first.
          EndedError: if a side ends.
        """
        about = {worker.side.name: worker.about for worker in self.workers}
        self.result |= {"sides": about, "rounds": [], "state": "no round in time"}
        for number in range(self._rounds):
            rates: dict[str, Any] = {}
            for worker in random.Random(number).sample(self.workers, len(self.workers)):
                rates |= worker.ask(str(number), until)
            self.result["rounds"].append(rates)
            self.result["state"] = f"{number + 1} of {self._rounds} rounds"
            self.save()

        # What a round of each side consists of.
        if not self.part.is_table:
            traced = {w.side.name: w.ask(str(self._folder / "trace"), until) for w in self.workers}
            self.result["kernel_seconds"] = {
                side: dict(sorted(seconds.items(), key=lambda item: -item[1]))
                for side, seconds in traced.items()
            }
        self.result["state"] = "finished"

    def save(self) -> None:
        """Writes what there is; for a table, also what `launch.reproduce` reads."""
        write_json(self._folder / "measured.json", self.result)
        if self.part.is_table and self.result.get("rounds"):
            about = next(iter(self.result["sides"].values()))
            named = {"of": f"{self.part.name} {self.result['scale']}"}
            digests = {DIGESTS: dict(self.part.digests)}
            rows = {"rows": speeds_by_row(self.result["rounds"])}
            write_json(self._folder / SPEED, named | about | digests | rows)

    def end(self) -> None:
        """Ends all processes, writes the result and prints how far it has come."""
        for worker in self.workers:
            worker.end()
        self.save()
        print(f"{self.part.name}: {self.result['state']}", flush=True)


def measure(
    parts: Sequence[Part], out: Path, rounds: int, about: dict[str, Any], limit: float
) -> None:
    """Times the parts until `limit`, of `time.monotonic`: of those that are compiled, first the
    first. Prints how far each has come."""
    waiting = [*parts]
    running: list[Measurement] = []
    at_once = max((os.cpu_count() or 1) // CORES, 1)
    try:
        while (waiting or running) and time.monotonic() < limit:
            while waiting and len(running) < at_once:
                part = waiting.pop(0)
                running.append(Measurement(part, out, rounds, about, parts.index(part)))
            if (ended := _next_ended(running, limit)) is None:
                time.sleep(0.2)
                continue
            running.remove(ended)
            ended.end()
    finally:
        for measurement in running:
            measurement.end()
        for part in waiting:
            print(f"{part.name}: not begun in time")


def _next_ended(running: Sequence[Measurement], limit: float) -> Measurement | None:
    """Times the first that is compiled; returns it, or one that has failed; None if none is."""
    for measurement in running:
        try:
            if measurement.is_ready():
                with _alone(measurement, running):
                    measurement.time(limit)
                return measurement
        except EndedError as error:
            measurement.result["state"] = f"failed: {error}"
            return measurement
        except TimeoutError:
            return measurement
    return None


@contextlib.contextmanager
def _alone(measurement: Measurement, running: Sequence[Measurement]) -> Iterator[None]:
    """Stops the processes of the others in the context."""
    others = [w for other in running if other is not measurement for w in other.workers]
    for worker in others:
        worker.signal(signal.SIGSTOP)
    time.sleep(SETTLING)
    try:
        yield
    finally:
        for worker in others:
            worker.signal(signal.SIGCONT)
