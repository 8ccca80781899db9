"""Writes the folder of a run: its lock, config, vocabulary, scores and result."""

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from typing import Any

from common_jax.errors import UserError
from common_jax.export.format import CONFIG
from common_jax.fields import to_mapping
from common_jax.io import lock
from common_jax.io.atomic import PARTIAL, replace_text, write_json, writing
from common_jax.training.example_results import to_tsv
from common_jax.training.multihost import first_process_only, gather_from_all
from common_jax.training.run_folder import EXAMPLES, REFERENCES, RESULT, SOURCES, VERSION, RunFolder
from common_jax.training.task import Scores, Task

_NETWORK_SECONDS = 60  # for which NFS may cache a folder's content


class RunWriter(RunFolder):
    """The folder of a run, for training and scoring.

    All processes of a run call the methods that write, and the first one writes. Each file is
    replaced atomically; the methods raise a UserError if it cannot be written.
    """

    def claim(self, config: Any) -> None:
        """Creates or resumes this run in the folder, and locks it against other processes.

        The lock ends with `release`, or with this process.

        Raises:
          UserError: if the folder has another run or other files, cannot be written, is being
            trained in, or is not visible to all processes of this run.
        """
        holder = self._claim(config)
        gather_from_all(lambda: self._require_claimed(holder))

    @first_process_only
    def _claim(self, config: Any) -> str:
        """Claims the folder in the first process; returns the content of the lock file."""
        self._require_run()
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if holder := lock.acquire(self._lock):
                raise UserError(
                    f"{self.path} is being trained by {holder}; wait for it, "
                    "or choose another --workdir"
                )
        try:
            self.require(config)  # under the lock
            with writing(self.path):
                write_json(self.config_file, {"version": VERSION, "config": to_mapping(config)})
                return self._lock.read_text()
        except BaseException:
            self.release()
            raise

    def _require_claimed(self, holder: str) -> None:
        """Checks that this is the folder that another process of the run has claimed.

        Raises:
          UserError: if it is not, after waiting for a network disk.
        """
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

    def release(self) -> None:
        """Lets other processes train here."""
        lock.release(self._lock)

    @first_process_only
    def write_vocabulary(self, task: Task) -> None:
        """Saves the vocabulary, so that the run can be used without its corpus."""
        partial = self.vocabulary.with_suffix(PARTIAL)
        with writing(self.path):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                task.write_vocabulary(partial)
                self.vocabulary.mkdir(exist_ok=True)
                for path in partial.iterdir():
                    os.replace(path, self.vocabulary / path.name)
            finally:
                shutil.rmtree(partial, ignore_errors=True)

    @first_process_only
    def write_scores(self, split: str, scores: Scores) -> None:
        """Writes a split's predictions, the results of its examples, and its metrics and notes."""
        file = self._split_file(split, ".json")
        files = {f".predictions.{format}": text for format, text in scores.predictions.items()}
        for ending, lines in ((REFERENCES, scores.references), (SOURCES, scores.sources)):
            files |= {ending: "".join(f"{line}\n" for line in lines)} if lines else {}
        files |= {EXAMPLES: to_tsv(scores.results)} if scores.results else {}
        with writing(file.parent):
            file.parent.mkdir(exist_ok=True)
            for ending, text in files.items():
                replace_text(self._split_file(split, ending), text)
            write_json(file, {**scores.metrics, **scores.notes})

    @first_process_only
    def write_result(self, result: Mapping[str, Any]) -> None:
        """Writes the result, which marks the run as finished."""
        with writing(self.path):
            write_json(self.path / RESULT, result)

    def restore(self, config: Any, texts: Mapping[str, str]) -> None:
        """Writes a run with this config, of which `texts` are known; the result is the last."""
        self.claim(config)
        try:
            with writing(self.path):
                for name in sorted(texts.keys() - {CONFIG}, key=lambda name: name == RESULT):
                    (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                    replace_text(self.path / name, texts[name])
        finally:
            self.release()
