"""Whether the result of a finished run is that of a config, and of its corpus as it is now."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from common_jax.config import from_values
from common_jax.errors import UserError, error_context
from common_jax.fields import flat, to_mapping
from common_jax.training.identity import COOLDOWN, READINGS, result_fields, resuming
from common_jax.training.run_folder import RunFolder, require_same_data

if TYPE_CHECKING:
    from common_jax.training.task import Task

# Of `result_fields`: the length, which is compared with the result's, and intervals of what has no
# effect on a result.
_UNCOMPARED = ("train.steps", "train.checkpoint_every", "train.log_every")


def require_result_of(run: RunFolder, task: "Task", *, new_schedule: bool = False) -> None:
    """Raises UserError if a folder's finished run is another than a task's, has other settings, or
    was trained on other data than the task's corpus has now.

    Args:
      new_schedule: whether the run should have the learning rate schedule of the task's config.
    """
    if run.finished(task.config) is None:
        return
    run.require(task.config)
    require_same_settings(run, task.config, schedule=new_schedule)
    if recorded := run.data_digests():
        require_same_corpus(run, recorded, task, digests_of(task))


def require_same_settings(run: RunFolder, config: Any, *, schedule: bool = True) -> None:
    """Raises UserError if a finished run has another value of a field that its result depends on;
    those by which it is identified are compared by `RunFolder.require`.

    Args:
      schedule: whether the learning rate's cooldown is compared, which a resumed run can have from
        its start.
    """
    old = _settings(_recorded(run, config), schedule)
    new = _settings(config, schedule)
    differing = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    if differing:
        advice = resuming(differing, old, new).replace("resumes it", "has its result")
        raise UserError(
            f"{run.path} has finished with another {', '.join(differing)}: "
            f"{advice}choose another folder"
        )


def require_same_corpus(
    run: RunFolder, recorded: Mapping[str, str], task: "Task", digests: Mapping[str, str] | None
) -> None:
    """Raises UserError if a finished run was trained on other data.

    Args:
      recorded, digests: `Task.data_digests` of the run, and of the task now, None if unknown.
    """
    if digests is None:
        return
    old, new = (flat(to_mapping(c)) for c in (_recorded(run, task.config), task.config))
    read = " and ".join(key for key in READINGS[:2] if old.get(key) != new.get(key))
    owner = f"{run.path} has finished with{read and f', read with another {read}'}"
    require_same_data(recorded, digests, owner, task, "choose another folder")


def digests_of(task: "Task") -> Mapping[str, str] | None:
    """`Task.data_digests` of the corpus as it is now, which is prepared; None if some of its files
    are not there, or it has none.

    Raises:
      UserError: for invalid data.
    """
    if task.data is None:
        return None
    try:
        task.data.prepare()
    except UserError:
        try:
            task.data.builder().fingerprint()
        except UserError:
            return None
        raise
    return task.data_digests()


def _recorded(run: RunFolder, config: Any) -> Any:
    """The config of a run, of the class of another."""
    with error_context(run.config_file):
        return from_values(type(config), run.config())


def _settings(config: Any, schedule: bool) -> dict[str, Any]:
    """The compared ones of `result_fields`."""
    fields = result_fields(config)
    cooled = schedule and fields["optimizer.cooldown_steps"]
    uncompared = _UNCOMPARED if cooled else (*_UNCOMPARED, *COOLDOWN)
    return {key: value for key, value in fields.items() if key not in uncompared}
