"""Writes the folder of a run: its lock, config, vocabulary, scores and result."""

import contextlib
import dataclasses
import hashlib
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from common_jax.errors import Interrupted, UserError
from common_jax.fields import require, to_mapping
from common_jax.file_names import CONFIG
from common_jax.io.atomic import replace_text, write_json, writing
from common_jax.io.paths import AnyPath
from common_jax.io.storage import bucket_state, folder_of
from common_jax.training.example_results import to_tsv
from common_jax.training.multihost import (
    broadcast_from_first,
    first_process_only,
    gather_from_all,
    is_first,
)
from common_jax.training.run_folder import (
    ERRORS,
    EXAMPLES,
    REFERENCES,
    RESULT,
    SOURCES,
    VERSION,
    RunFolder,
    require_same_data,
)
from common_jax.training.task import Scores, Task

_log = logging.getLogger(__name__)
_LONGEST = 500  # characters of an error in end.json
_NETWORK_SECONDS = 60  # for which NFS may cache a folder's content


class RunWriter(RunFolder):
    """The folder of a run, for training and scoring.

    All processes of a run call the methods that write, and the first one writes. Each file is
    replaced atomically; the methods raise a UserError if it cannot be written.
    """

    def claim(self, config: Any, *, new_schedule: bool = True) -> Any:
        """Creates or resumes this run in the folder, and locks it against other processes.

        The lock ends with `release`, or with this process.

        Args:
          new_schedule: whether a resumed run has the cooldown of `config`, not the recorded one.

        Returns: the config with its cooldown in steps.

        Raises:
          UserError: if the folder has another run or other files, cannot be written, is being
            trained in, or is not visible to all processes of this run.
        """
        holder, cooldown = self._claim(config, new_schedule)
        gather_from_all(lambda: self._require_claimed(holder))
        return _with_cooldown(config, cooldown)

    @first_process_only
    def _claim(self, config: Any, new_schedule: bool) -> tuple[str, list[int]]:
        """Claims the folder; returns the content of the lock file, and the cooldown's start and
        length."""
        # the lock, which one process at a time can hold
        self._require_run()
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if holder := folder_of(self.path).lock(self._lock.name):
                raise UserError(
                    f"{self.path} is being trained by {holder}; wait for it, "
                    "or choose another --workdir"
                )
        try:
            # the folder must be of this run, whose recorded cooldown may govern
            self.require(config, new_schedule)  # under the lock
            cooldown = self._cooldown(config, new_schedule)
            values = to_mapping(_with_cooldown(config, cooldown))

            # the config, in place of the end and the leftovers of an earlier start
            with writing(self.path):
                self.end_file.unlink(missing_ok=True)
                folder_of(self.path).remove_partial()
                if not self.has_begun:  # of a start that failed
                    self.data_file.unlink(missing_ok=True)
                    folder_of(self.path).remove(self.vocabulary.name)
                if self.finished(config) is None:
                    write_json(self.config_file, {"version": VERSION, "config": values})
                return self._lock.read_text(), cooldown
        except BaseException:
            self.release()
            raise

    def _cooldown(self, config: Any, new_schedule: bool) -> list[int]:
        """Start and length of the cooldown in steps: the recorded ones, unless the config has its
        own or a new schedule is wanted.

        Raises:
          UserError: for another `optimizer.cooldown` than the recorded one without a new schedule.
        """
        optimizer = config.optimizer.scheduled(config.train.steps)
        if config.optimizer.derives_cooldown and self.has_begun and not new_schedule:
            optimizer = self.scheduled_optimizer(type(config))
            new = config.optimizer.cooldown
            old = optimizer.cooldown
            require(
                new == old,
                f"{self.path}: optimizer.cooldown={new:g}, not the run's {old:g}: --new_schedule "
                f"trains with it, --config.optimizer.cooldown={old:g} with the run's schedule",
            )
        return [optimizer.cooldown_start, optimizer.cooldown_steps]

    def _require_claimed(self, holder: str) -> None:
        """Raises UserError if this is not the folder that another process of the run has claimed,
        after waiting for a network disk."""
        deadline = time.monotonic() + _NETWORK_SECONDS
        while True:
            with contextlib.suppress(OSError):
                if self._lock.read_text() == holder:
                    return
            if time.monotonic() > deadline:
                raise UserError(
                    f"{self.path}: not the folder that the first process sees there; choose a "
                    "--workdir on a disk that all machines share"
                )
            time.sleep(0.2)

    @contextlib.contextmanager
    def recording_end(self) -> Iterator[None]:
        """A context that records in `end_file` that training was stopped, or failed, and why."""
        try:
            yield
        except BaseException as error:
            if is_first():
                stopped = isinstance(error, Interrupted | KeyboardInterrupt)
                message = " ".join(str(error).split())[:_LONGEST] or type(error).__name__
                record = {"state": "stopped" if stopped else "failed", "message": message}
                with contextlib.suppress(OSError, UserError), writing(self.end_file):
                    write_json(self.end_file, record)
            raise

    def release(self) -> None:
        """Lets other processes train here."""
        folder_of(self.path).unlock(self._lock.name)

    def adopt_data(self, task: Task) -> str:
        """Stores the vocabulary and the digests of the prepared data of a new run; for a resumed
        run, requires that they are equal.

        Returns: a digest of all digests, for checkpoints.

        Raises:
          UserError: in all processes, if the data of one differ from the first one's or from the
            run's.
        """
        digests = task.data_digests()
        first = broadcast_from_first(lambda: digests)
        gather_from_all(lambda: require_same_data(digests, first, "the first process has", task))
        self._adopt_data(task, digests)
        return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()

    @first_process_only
    def _adopt_data(self, task: Task, digests: Mapping[str, str]) -> None:
        # a resumed run must have the data that it was trained on
        recorded = self.data_digests()
        if recorded is not None:
            require_same_data(digests, recorded, f"{self.path} was trained on", task)
            return

        # without digests, these and the vocabulary are recorded
        parent = folder_of(self.path)
        with writing(self.path), parent.building(self.vocabulary.name) as folder:
            task.write_vocabulary(folder)
            if self.vocabulary.exists():  # of a run without digests
                require_same_data(
                    _file_digests(folder), _file_digests(self.vocabulary), f"{self.path} has", task
                )
                _log.warning(
                    "%s: has the vocabulary of these data; whether its examples are the same "
                    "is unknown, as it was made before runs recorded that; recorded now",
                    self.path,
                )
            else:
                parent.publish(folder, self.vocabulary.name)
            write_json(self.data_file, {"sha256": digests})

    @first_process_only
    def write_scores(self, split: str, scores: Scores) -> None:
        """Writes a split's predictions, the results of its examples, and its metrics and notes."""
        file = self._split_file(split, ".json")
        files = {f".predictions.{format}": text for format, text in scores.predictions.items()}
        for ending, lines in ((REFERENCES, scores.references), (SOURCES, scores.sources)):
            files |= {ending: "".join(f"{line}\n" for line in lines)} if lines else {}
        files |= {EXAMPLES: to_tsv(scores.results)} if scores.results else {}
        files[ERRORS] = "".join(
            f"{json.dumps(error, ensure_ascii=False)}\n" for error in scores.errors()
        )
        with writing(file.parent):
            file.parent.mkdir(exist_ok=True)
            for ending, text in files.items():
                replace_text(self._split_file(split, ending), text)
            write_json(file, {**scores.metrics, **scores.notes})

    @first_process_only
    def write_result(self, result: Mapping[str, Any]) -> None:
        """Writes the result, which marks the run as finished."""
        with writing(self.path):
            write_json(self.result_file, result)
        buckets = bucket_state()
        if buckets and (count := buckets.repeated_requests()):
            _log.warning("%s: %d requests failed and were repeated", self.path, count)

    def restore(self, config: Any, texts: Mapping[str, str]) -> None:
        """Writes a run with this config from its `texts`, the result last."""
        self.claim(config)
        try:
            with writing(self.path):
                for name in sorted(texts.keys() - {CONFIG}, key=lambda name: name == RESULT):
                    (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                    replace_text(self.path / name, texts[name])
        finally:
            self.release()


def _with_cooldown(config: Any, cooldown: Sequence[int]) -> Any:
    """A config with the start and length of the cooldown in steps."""
    start, length = cooldown
    optimizer = dataclasses.replace(config.optimizer, cooldown_start=start, cooldown_steps=length)
    return dataclasses.replace(config, optimizer=optimizer)


def _file_digests(folder: AnyPath) -> dict[str, str]:
    """The SHA-256 of each file of a folder, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
