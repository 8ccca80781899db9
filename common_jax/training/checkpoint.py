"""Checkpoints of parameters, optimizer state, step and data position.

Orbax writes each step, which becomes complete at once (`common_jax.io.folder.Folder.complete`).
Checksums of all files are added. Restoring verifies them: training falls back to the newest intact
step, and readers raise an error. Damaged steps are moved aside, never deleted.
"""

import contextlib
import dataclasses
import functools
import json
import logging
import threading
from collections.abc import Iterator

import orbax.checkpoint as ocp

from common_jax.errors import UserError
from common_jax.io import checksums, guards
from common_jax.io.atomic import replace_text, writing
from common_jax.io.folder import COMMITTED
from common_jax.io.paths import AnyPath
from common_jax.io.storage import folder_of, silence_of
from common_jax.training.best import best_step
from common_jax.training.multihost import (
    broadcast_from_first,
    first_process_only,
    gather_from_all,
    is_first,
)
from common_jax.training.restore import Position, UnreadableError, read_position, read_state
from common_jax.training.run_folder import RunFolder
from common_jax.training.saver import Saver
from common_jax.training.state import TrainState
from common_jax.training.task import Params

_DELETED = ".deleted"  # Orbax moves old steps there first, so that a kill leaves none half deleted
_LATE = ("_CHECKPOINT_METADATA", COMMITTED)  # Orbax writes these last

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Restored:
    """A restored checkpoint.

    Attributes:
      data: identifies the data that it was trained on; "" if unknown.
    """

    step: int
    state: TrainState
    position: Position
    data: str


class Checkpoints:
    """The `checkpoints` folder of a run.

    `save`, `restore_newest` and `restore_best` need the run's lock (`RunWriter.claim`), and move
    damaged steps to the folder `damaged`, with a warning; the other methods only read. All
    processes of the run call them; the first one moves files.

    Args:
      run: the folder of the run, which need not exist.
      best_metric: the saved metric that ranks steps.
      keep: number of newest steps to keep beside the best.
      data: identifies the data, for steps to save.
    """

    def __init__(self, run: RunFolder, best_metric: str, keep: int = 2, data: str = ""):
        run.require_path()
        self._run = run
        self._keep = keep
        self._folder = run.checkpoints
        self._saved = folder_of(run.checkpoints)
        self._damaged = run.damaged
        self._data = data
        self._metric = best_metric
        self._saver: Saver | None = None  # created late: damaged steps break it
        self._saving: int | None = None
        self._sealing: threading.Thread | None = None
        self._failure: Exception | None = None

    @property
    @first_process_only
    def steps(self) -> list[int]:
        """The saved steps, oldest first."""
        return self._run.steps

    @property
    @first_process_only
    def latest(self) -> int | None:
        """The newest saved step."""
        return max(self.steps, default=None)

    @property
    @first_process_only
    def best(self) -> int | None:
        """The best step by the dev metric (`best_step`), of a finished run the step that it scored;
        the newest if none was validated.

        Raises:
          UserError: if the metrics of a step are damaged.
        """
        steps = self.steps
        best = best_step(((step, self._scores(step)) for step in steps), self._metric)
        result = self._run.result() or {}
        recorded = result.get("best_step")  # older code scored the newest of equal steps
        if recorded in steps and result["steps"] == max(steps):
            return recorded
        return self.latest if best is None else best

    def save(
        self, state: TrainState, step: int, position: Position, metrics: dict[str, float] | None
    ) -> None:
        """Starts saving; `metrics` are those of the dev split, if it was just scored.

        If the step is saved already, with the same state, only adds the metrics.

        Raises:
          UserError: if this save or the one before it cannot be written.
        """
        self.wait()
        args = ocp.args.Composite(
            state=ocp.args.StandardSave(state),  # type: ignore[call-arg]
            position=ocp.args.JsonSave(  # type: ignore[call-arg]
                {"epoch": position[0], "batch": position[1], "data": self._data}
            ),
        )

        # a step that is saved already only gets its metrics
        self._saving = step
        with self._writing():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._saver = self._saver or self._make_saver()
            if step in self.steps:
                if metrics is not None:
                    self._write_metrics(step, metrics)
                return self._saver.reload()
            saved = self._saver.save(step, args=args, metrics=metrics)
        if not saved:  # Orbax ignores an existing or older step without an error
            raise RuntimeError(f"checkpoint of step {step} was not saved")
        self._sealing = threading.Thread(target=self._finish, args=(step,))
        self._sealing.start()

    def restore_newest(self, abstract: TrainState) -> Restored | None:
        """Reads the newest intact step; None if there are no steps.

        Args:
          abstract: the shapes, types and shardings to restore onto.

        Raises:
          UserError: if all steps are damaged, or of another model.
        """
        aside = self._set_damaged_aside()
        while (step := self.latest) is not None:
            # a step is intact only if all processes could read it
            try:
                restored = self._read(step, abstract)
                damage = ""
            except UnreadableError as error:
                restored = None
                damage = str(error)
            message = "; ".join(filter(None, gather_from_all(functools.partial(str, damage))))
            if restored is not None and not message:
                return restored
            aside += self._set_aside(step, message)
        if aside:
            raise UserError(
                f"{self._folder}: every checkpoint was damaged; they are in {self._damaged}; the "
                "same command again starts from step 0"
            )
        return None

    def restore_best(self, abstract: TrainState) -> Restored:
        """Reads the best of the intact steps.

        Raises:
          UserError: if there is none.
        """
        self.wait()
        if self._set_damaged_aside() and self._saver is not None:
            self._saver.reload()
        best = self.best
        if best is None:
            raise UserError(f"{self._folder}: no intact checkpoint")
        return self.restore(best, abstract)

    def restore(self, step: int, abstract: TrainState) -> Restored:
        """Reads a step onto the shapes, types and shardings of `abstract`.

        Raises:
          UserError: if the checkpoint is damaged, or of another model.
        """
        with self._verified(step):
            return self._read(step, abstract)

    def restore_part(self, step: int, part: str, abstract: Params) -> Params:
        """Reads one field of a step's state, without the optimizer's.

        Args:
          part: "params", or "ema" if the run has one.
          abstract: the field's shapes, types and shardings.

        Raises:
          UserError: if the checkpoint is damaged, or of another model.
        """
        with self._verified(step):
            return read_state(self._state(step), {part: abstract}, part)[part]

    def wait(self) -> None:
        """Waits until everything is on disk.

        Raises:
          UserError: if it cannot be written.
        """
        while self._sealing is not None:
            self._sealing.join(0.5)  # a bucket may be given up meanwhile
            if not self._sealing.is_alive():
                self._sealing = None
            elif silence := silence_of(self._folder):
                raise UserError(f"{self._folder}: the last step is not saved ({silence})")
        if self._failure is not None:
            failure = self._failure
            self._failure = None
            with self._writing():
                raise failure

    def close(self) -> None:
        """Finishes saving and closes the folder.

        Raises:
          UserError: if it cannot be written.
        """
        try:
            self.wait()
        finally:
            saver = self._saver
            self._saver = None
            is_silent = silence_of(self._folder)
            if saver is not None and not is_silent:  # Orbax would wait
                with contextlib.suppress(Exception):  # `wait` has raised it
                    saver.close()

    def _make_saver(self) -> Saver:
        if is_first():
            self._remove_unfinished()
        self._set_damaged_aside()
        return Saver(self._folder, self._metric, self._keep, _DELETED, self._seal_unfinished)

    def _seal_unfinished(self) -> None:
        """Adds checksums before Orbax completes the step."""
        guards.require(self._folder)
        for name in self._saved.unfinished():
            if name.partition(".")[0] == str(self._saving):
                checksums.seal(self._folder / name, leave=_LATE)

    @first_process_only
    def _write_metrics(self, step: int, metrics: dict[str, float]) -> None:
        path = self._metrics(step)
        with self._writing():
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                replace_text(path, json.dumps(metrics))
            checksums.seal(self._folder / str(step))  # missing if `_finish` was killed

    def _finish(self, step: int) -> None:
        """Waits for Orbax, then seals its last files; runs in a thread."""
        assert self._saver is not None
        try:
            self._saver.wait_until_finished()
        except Exception as error:
            self._failure = error
            return
        if is_first():
            try:
                with contextlib.suppress(OSError):  # the step has the other checksums
                    checksums.seal(self._folder / str(step))
                self._saved.remove(_DELETED)
            except UserError as error:  # of a bucket
                self._failure = error

    def _remove_unfinished(self) -> None:
        """Removes the files of a killed save or deletion."""
        for name in {*self._saved.unfinished(), _DELETED}:
            self._saved.remove(name)

    @first_process_only
    def _set_damaged_aside(self) -> int:
        """Moves damaged steps aside; returns their number."""
        damages = {step: self._find_damage(step) for step in self.steps}
        return sum(self._set_aside(step, damage) for step, damage in damages.items() if damage)

    @first_process_only
    def _set_aside(self, step: int, damage: str) -> int:
        # A name that is not there yet.
        source = self._folder / str(step)
        target = self._damaged / str(step)
        count = 1
        while target.exists():
            count += 1
            target = self._damaged / f"{step}-{count}"

        # Move it.
        with self._writing():
            self._damaged.mkdir(exist_ok=True)
            folder_of(self._damaged).publish(source, target.name)
            self._saved.remove(source.name)
        _log.warning("%s: %s; set aside in %s", source, damage, target)
        return 1

    @contextlib.contextmanager
    def _verified(self, step: int) -> Iterator[None]:
        """Verifies the checksums of a step that is read inside; raises UserError for damage."""
        damage = broadcast_from_first(lambda: self._find_damage(step))
        try:
            if damage:
                raise UnreadableError(damage)
            yield
        except UnreadableError as error:
            raise UserError(f"{self._folder / str(step)}: {error}") from error

    def _find_damage(self, step: int, under: str = "") -> str | None:
        folder = self._folder / str(step)
        try:
            return checksums.find_damage(folder, under)
        except PermissionError as error:
            raise UserError(f"{error.filename or folder}: {error.strerror}") from error

    def _read(self, step: int, abstract: TrainState) -> Restored:
        folder = self._folder / str(step)
        return Restored(step, read_state(self._state(step), abstract), *read_position(folder))

    def _scores(self, step: int) -> dict[str, float] | None:
        """The metrics of a step; None if it was not validated."""
        damage = self._find_damage(step, "metrics/")
        if damage:
            raise UserError(f"{self._folder / str(step)}: {damage}")
        path = self._metrics(step)
        return json.loads(path.read_text()) if path.exists() else None

    def _state(self, step: int) -> AnyPath:
        return self._folder / str(step) / "state"

    def _metrics(self, step: int) -> AnyPath:
        return self._folder / str(step) / "metrics" / "metrics"

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        """As `writing`; the message names the last complete checkpoint."""
        return writing(self._folder, self._last_complete)

    def _last_complete(self) -> str:
        if is_first():
            self._remove_unfinished()  # frees disk space
        safe = next((s for s in reversed(self._run.steps) if not self._find_damage(s)), None)
        return "; nothing is saved yet" if safe is None else f"; step {safe} is safely saved"
