"""What survives an interruption: parameters, optimizer, step and data position, saved as one.

Orbax writes each step beside the others and renames it into place; with it go checksums of all its
files, which Orbax does not have. Whoever restores has compared them first: the one who trains goes
back to the newest step that is whole, whoever only reads is told what is wrong. What is damaged is
set aside, never deleted.
"""

import contextlib
import dataclasses
import functools
import json
import logging
import math
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from common_jax.errors import UserError
from common_jax.io import checksums
from common_jax.io.atomic import replace_text, writing
from common_jax.training.multihost import (
    broadcast_from_first,
    first_process_only,
    gather_from_all,
    is_first,
)
from common_jax.training.restore import Position, UnreadableError, read_position, read_state
from common_jax.training.state import TrainState
from common_jax.training.task import Params

# Metrics of which less is better.
FALLING = ("loss", "nll")

_DELETED = ".deleted"  # Orbax moves old steps there: a kill leaves none half deleted in its place
_LATE = ("_CHECKPOINT_METADATA", "commit_success.txt")  # Orbax writes these last of all

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Restored:
    """A checkpoint read back."""

    step: int
    state: TrainState
    position: Position


class Checkpoints:
    """The `checkpoints` folder of a run.

    One run at a time may save, restore the newest and restore the best (`Workdir.claim` sees
    to it); these set aside what is damaged, in `damaged` beside the folder, and say so. The rest
    only reads. All processes of the run call these together; the first looks and moves.

    Args:
      folder: need not exist.
      best_metric: of the metrics saved with a step, the one that says how good it is.
      keep: so many of the newest steps are kept, and the best.
    """

    def __init__(self, folder: Path, best_metric: str, keep: int = 2):
        self._folder, self._keep = folder, keep
        self._goodness = functools.partial(comparable_score, name=best_metric)
        self._saver: ocp.CheckpointManager | None = None  # made late: damaged steps confuse it
        self._saving: int | None = None
        self._sealing: threading.Thread | None = None
        self._failure: Exception | None = None

    @property
    @first_process_only
    def steps(self) -> list[int]:
        """The steps saved, oldest first."""
        return self._steps()

    def _steps(self) -> list[int]:
        names = [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []
        return sorted(int(name) for name in names if re.fullmatch("0|[1-9][0-9]*", name))

    @property
    @first_process_only
    def latest(self) -> int | None:
        """The newest step saved."""
        return max(self.steps, default=None)

    @property
    @first_process_only
    def best(self) -> int | None:
        """The best step by the dev metric; the newest if none was validated.

        Raises:
          UserError: if the metrics of a step are damaged.
        """
        scores = {step: self._score(step) for step in self.steps}
        scored = [(score, step) for step, score in scores.items() if score is not None]
        return max(scored)[1] if scored else self.latest

    def save(
        self, state: TrainState, step: int, position: Position, metrics: dict[str, float] | None
    ) -> None:
        """Starts saving; `metrics` are those of the dev split, if it was just scored.

        A step that is there already gets the metrics alone: its state is the same.

        Raises:
          UserError: if this save or the one before it cannot be written.
        """
        self.wait()
        args = ocp.args.Composite(
            state=ocp.args.StandardSave(state),  # type: ignore[call-arg]
            position=ocp.args.JsonSave({"epoch": position[0], "batch": position[1]}),  # type: ignore[call-arg]
        )
        self._saving = step
        with self._writing():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._saver = self._saver or self._make_saver()
            if step in self.steps:
                return self._add_metrics(step, metrics)
            saved = self._saver.save(step, args=args, metrics=metrics)
        if not saved:  # Orbax declines an existing or older step without a word
            raise RuntimeError(f"checkpoint of step {step} was not saved")
        self._sealing = threading.Thread(target=self._finish, args=(step,))
        self._sealing.start()

    def restore_newest(self, abstract: TrainState) -> Restored | None:
        """Reads the newest step that is whole; None if nothing was ever saved.

        Args:
          abstract: the shapes, types and shardings to restore onto.

        Raises:
          UserError: if there are steps but none is whole, or if they are of another model.
        """
        aside = self._set_damaged_aside()
        while (step := self.latest) is not None:
            try:
                found, damage = self._read(step, abstract), ""
            except UnreadableError as error:
                found, damage = None, str(error)
            said = "; ".join(filter(None, gather_from_all(functools.partial(str, damage))))
            if found is not None and not said:
                return found
            aside += self._set_aside(step, said)
        if aside:
            raise UserError(
                f"{self._folder}: every checkpoint was damaged; they are in {self._damaged}; the "
                "same command again starts from step 0"
            )
        return None

    def restore_best(self, abstract: TrainState) -> Restored:
        """Reads the best of the steps that are whole.

        Raises:
          UserError: if none is.
        """
        self.wait()
        if self._set_damaged_aside() and self._saver is not None:
            self._saver.reload()
        best = self.best
        if best is None:
            raise UserError(f"{self._folder}: no checkpoint is whole")
        return self.restore(best, abstract)

    def restore(self, step: int, abstract: TrainState) -> Restored:
        """Reads a step onto the shapes, types and shardings of `abstract`.

        Raises:
          UserError: if the checkpoint is damaged, or of another model.
        """
        with self._whole(step):
            return self._read(step, abstract)

    def restore_part(self, step: int, part: str, abstract: Params) -> Params:
        """Reads one field of a step's state alone, without the optimizer's share.

        Args:
          step: one of `steps`.
          part: "params", or "ema" where the run keeps one.
          abstract: the field's shapes, types and shardings.

        Raises:
          UserError: if the checkpoint is damaged, or of another model.
        """
        with self._whole(step):
            return read_state(self._state(step), {part: abstract}, part)[part]

    def wait(self) -> None:
        """Returns when everything is on disk.

        Raises:
          UserError: if it cannot be written.
        """
        if self._sealing is not None:
            self._sealing.join()
            self._sealing = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            with self._writing():
                raise failure

    def close(self) -> None:
        """Finishes saving and lets go of the folder.

        Raises:
          UserError: if it cannot be written.
        """
        try:
            self.wait()
        finally:
            saver, self._saver = self._saver, None
            if saver is not None:
                with contextlib.suppress(Exception):  # `wait` has said what there is to say
                    saver.close()

    @property
    def _damaged(self) -> Path:
        return self._folder.with_name("damaged")

    def _make_saver(self) -> ocp.CheckpointManager:
        self._tidy()
        policies = ocp.checkpoint_managers.preservation_policy
        best = policies.BestN(
            get_metric_fn=self._goodness, n=1, keep_checkpoints_without_metrics=False
        )
        return _Saver(
            self._folder.absolute(),
            options=ocp.CheckpointManagerOptions(
                best_fn=self._goodness,  # without it Orbax writes no metrics
                preservation_policy=policies.AnyPreservationPolicy(
                    [policies.LatestN(self._keep), best]
                ),
                enable_background_delete=False,
                todelete_subdir=_DELETED,
                async_options=ocp.AsyncOptions(
                    post_finalization_callback=self._seal_unfinished,
                    create_directories_asynchronously=False,  # a failure there hangs the rest
                ),
            ),
        )

    def _seal_unfinished(self) -> None:
        """Checksums come into place with the step: Orbax calls this before it renames."""
        for path in self._folder.glob(f"{self._saving}.*tmp*"):
            checksums.seal(path, leave=_LATE)

    def _add_metrics(self, step: int, metrics: dict[str, float] | None) -> None:
        if metrics is not None:
            self._write_metrics(step, metrics)
        assert self._saver is not None
        self._saver.reload()

    @first_process_only
    def _write_metrics(self, step: int, metrics: dict[str, float]) -> None:
        path = self._metrics(step)
        with self._writing():
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                replace_text(path, json.dumps(metrics))
            checksums.seal(self._folder / str(step))  # a kill may have come before it

    def _finish(self, step: int) -> None:
        """Waits for Orbax, then adds what it wrote last; runs beside the training."""
        assert self._saver is not None
        try:
            self._saver.wait_until_finished()
        except Exception as error:
            self._failure = error
            return
        if is_first():
            with contextlib.suppress(OSError):  # the step has its checksums
                checksums.seal(self._folder / str(step))
            shutil.rmtree(self._folder / _DELETED, ignore_errors=True)

    @first_process_only
    def _tidy(self) -> None:
        self._remove_unfinished()
        self._set_damaged_aside()

    def _remove_unfinished(self) -> None:
        """What a killed save or deletion has left."""
        for path in [*self._folder.glob("*.orbax-checkpoint-tmp*"), self._folder / _DELETED]:
            shutil.rmtree(path, ignore_errors=True)

    @first_process_only
    def _set_damaged_aside(self) -> int:
        """Leaves only steps that are whole; how many were not."""
        found = {step: self._find_damage(step) for step in self.steps}
        return sum(self._set_aside(step, damage) for step, damage in found.items() if damage)

    @first_process_only
    def _set_aside(self, step: int, damage: str) -> int:
        target, count = self._damaged / str(step), 1
        while target.exists():
            count += 1
            target = self._damaged / f"{step}-{count}"
        with self._writing():
            self._damaged.mkdir(exist_ok=True)
            shutil.move(self._folder / str(step), target)
        _log.warning("%s: %s; set aside in %s", self._folder / str(step), damage, target)
        return 1

    @contextlib.contextmanager
    def _whole(self, step: int) -> Iterator[None]:
        """Refuses a damaged step by name; what is read inside had the right checksums."""
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
        return Restored(step, read_state(self._state(step), abstract), read_position(folder))

    def _score(self, step: int) -> float | None:
        damage = self._find_damage(step, "metrics/")
        if damage:
            raise UserError(f"{self._folder / str(step)}: {damage}")
        path = self._metrics(step)
        return self._goodness(json.loads(path.read_text())) if path.exists() else None

    def _state(self, step: int) -> Path:
        return self._folder / str(step) / "state"

    def _metrics(self, step: int) -> Path:
        return self._folder / str(step) / "metrics" / "metrics"

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        """A full disk, however deep in Orbax, as one line that says what is safe."""
        return writing(self._folder, self._what_is_safe)

    def _what_is_safe(self) -> str:
        if is_first():
            self._remove_unfinished()  # its room may be wanted
        safe = next((s for s in reversed(self._steps()) if not self._find_damage(s)), None)
        return "; nothing is saved yet" if safe is None else f"; step {safe} is safely saved"


class _Saver(ocp.CheckpointManager):
    """Asks JAX for no notice to stop: Orbax would with a step of the past, from another thread,
    while the training counts beats (`common_jax.training.interrupt.PreemptionHandler`)."""

    def reached_preemption(self, step: int) -> bool:
        return False


def comparable_score(metrics: Mapping[str, Any], name: str) -> float:
    """The metric `name` such that more is better, and anything is better than NaN or than none,
    which a log has where somebody changed it."""
    value = metrics.get(name, math.nan) * (-1 if name in FALLING else 1)
    return -math.inf if math.isnan(value) else value


def abstract_of(tree: Any) -> Any:
    """Shapes, types and shardings of a tree, to restore onto."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), tree)
