"""Tasks and their configs, from `--config FILE[:ARGUMENT] --config.KEY=VALUE ...` or from a run.

After `parse` no code sees a ConfigDict.
"""

import contextlib
import copy
import dataclasses
import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_collections
from absl import flags
from ml_collections import config_flags

from common_jax.config import (
    SourceConfig,
    completed,
    from_values,
    inferred_key,
    short_keys,
    to_config_dict,
)
from common_jax.errors import UserError, causes, error_context, own_error
from common_jax.fields import join_list, named_class, nearest, split_list, suggestion
from common_jax.io.files import names_in
from common_jax.io.paths import as_path, expand_user
from common_jax.io.storage import local_copy
from common_jax.renames import former_keys
from common_jax.systems import UnknownSystem
from common_jax.training.config_files import config_file
from common_jax.training.run_folder import RunFolder

if TYPE_CHECKING:
    from common_jax.training.task import Task

_FILE_FIELDS = ("source", "dir", "tfds", "train", "dev", "test", "vocabulary_from")


@dataclasses.dataclass(frozen=True)
class ConfigFile:
    """A config file that has been executed.

    Attributes:
      name: as it was given.
      values: of `get_config`.
    """

    name: str
    values: ml_collections.ConfigDict

    @property
    def config_class(self) -> type:
        """The dataclass of the config."""
        return task_class(self.values.task).config_class

    def parse(self, overrides: Sequence[str]) -> Any:
        """The config with overrides, checked.

        Args:
          overrides: arguments of the form "--config.key=value".

        Raises:
          UserError: for an unknown key, a wrong type, an invalid value, or an override without
            effect.
        """
        _require_form(overrides)
        values = copy.deepcopy(self.values)  # overrides change it
        file_values = values.copy_and_resolve_references()
        parsed, overrides = _overridden(values, self.config_class, overrides, self.name)
        _require_effect(parsed, overrides)
        keys = [key_of(override) for override in overrides]
        before = {key: functools.reduce(getattr, key.split("."), file_values) for key in keys}
        return completed(parsed, before)


def read_config(file: str) -> ConfigFile:
    """Executes a config file.

    Args:
      file: a Python file with `get_config` or the name of an installed one (`config_file`), a ":"
        before its argument if it takes one.

    Raises:
      UserError: for a missing file, one that raises an error, or one without a task's config.
    """
    path = config_file(file)
    values = _parsed_flag(file, config_flags.DEFINE_config_file, [f"--config={path}"])
    if not isinstance(values, ml_collections.ConfigDict) or type(values.get("task")) is not str:
        raise UserError(
            f"--config={file}: get_config() must return to_config_dict of a task's config, as the "
            "files in configs do"
        )
    return ConfigFile(file, values)


def parse(file: str, overrides: Sequence[str]) -> Any:
    """The config of `--config FILE[:ARGUMENT] --config.KEY=VALUE ...`, checked.

    Raises:
      UserError: as `read_config` and `ConfigFile.parse`.
    """
    _require_form(overrides)
    return read_config(file).parse(overrides)


def key_of(override: str) -> str:
    """The key of "--config.KEY=VALUE"."""
    return override.removeprefix("--config.").partition("=")[0]


def _require_form(overrides: Sequence[str]) -> None:
    for override in overrides:
        if not override.startswith("--config."):
            name, dot, rest = override.partition(".")
            meant = (
                f"; did you mean --config.{rest}?" if dot and nearest(name, ["--config"]) else ""
            )
            raise UserError(f"unexpected argument {override!r}{meant}")
        if "=" not in override:
            raise UserError(f"{override}: write {override}=VALUE, in one argument")


def _overridden(
    config: ml_collections.ConfigDict, config_class: type, overrides: Sequence[str], file: str
) -> tuple[Any, list[str]]:
    """The config with overrides, and these with their keys' full names; `file` is for messages."""
    full = [_with_full_key(override, config, config_class) for override in overrides]
    define = functools.partial(config_flags.DEFINE_config_dict, config=config)
    return from_values(config_class, _parsed_flag(file, define, full).to_dict()), full


def _require_effect(config: Any, overrides: Sequence[str]) -> None:
    """Raises UserError if an override has no effect given the other values of its section."""
    for override in overrides:
        key = key_of(override)
        section, _, field = key.partition(".")
        unused: dict[str, str] = getattr(getattr(config, section), "unused", dict)()
        if field in unused:
            raise UserError(
                f"{override}: has no effect with this config's {unused[field].partition('=')[0]}; "
                f"--config.{unused[field]} would give it one"
            )


def systems_of(file: str) -> list[str]:
    """The arguments that a config file takes, from its error for another; [] if it has no table of
    systems (`common_jax.systems.system_named`)."""
    try:
        parse(f"{file.partition(':')[0]}:?", [])
    except UserError as error:
        if unknown := _unknown_system(error):
            return [name for name in unknown.names if name]
    return []


def task_class(name: str) -> "type[Task]":
    """The task with the name "package.module:Class".

    Raises:
      UserError: if there is no such module or class, or it is no task.
    """
    from common_jax.training.task import Task  # imports jax

    return named_class(name, Task, "task")


def make_task(run: RunFolder, **data: Any) -> "Task":
    """The task of a run or an export, from its config.

    Args:
      **data: fields of `data` to change.

    Raises:
      UserError: as `RunFolder.config`; for a field that the run's data do not have.
    """
    values = run.config()
    with error_context(run.config_file):
        task_type = task_class(str(values.get("task", "")))
        stored = values.get("data")
        if run.is_export and isinstance(stored, dict) and "cache_dir" in stored:
            data = {"cache_dir": SourceConfig.cache_dir, **data}  # the stored one was elsewhere
        if data:
            values["data"] = {**values["data"], **data}
        task = task_type(from_values(task_type.config_class, values))
        task.prepare_as(option="")  # a run's config cannot be changed
        if task.data is not None and not _has_given_folder(task.config):
            task.prepare_as(vocabulary_from=run.vocabulary)  # the same vocabulary
        return task


def _has_given_folder(config: Any) -> bool:
    """Whether `data.vocabulary_from` is empty, or a folder that exists: not a model's name."""
    given = config.data.vocabulary_from
    with contextlib.suppress(UserError):
        return not given or as_path(expand_user(given)).is_dir()
    return False


def read_task(run: RunFolder, **data: Any) -> "Task":
    """As `make_task`, with the vocabulary; raises UserError also if it is missing or broken."""
    task = make_task(run, **data)
    if task.data is not None and not (run.vocabulary.is_dir() or run.has_begun):
        raise UserError(f"{run.path}: has not been trained")
    task.read_vocabulary(local_copy(run.vocabulary))
    return task


def task_on_files(
    run: RunFolder, files: str, overrides: Sequence[str] = (), option: str = "", **data: Any
) -> "Task":
    """The task of a run, with its vocabulary, and other files as the test split, the only one that
    `prepare` builds.

    Args:
      files: as `data.test` names files.
      overrides: "--config.data.KEY=VALUE", of fields that describe the files.
      option: suggested by the error for an invalid example.
      **data: fields of `data` to change.

    Raises:
      UserError: as `read_task` and `parse`; for a field that names files.
    """
    # only fields that describe the files can change
    _require_form(overrides)
    keys = [*map(key_of, overrides)]
    for key in keys:
        if not key.startswith("data.") or key.removeprefix("data.") in _FILE_FIELDS:
            raise UserError(f"--config.{key}: not for a test set; only data.* that describe it")
    task = read_task(run, **data)
    if task.data is None:
        raise UserError(f"{run.path}: {type(task).__name__} reads no files")

    # the run's config, with the files as its test split
    names = [files] if os.path.exists(files) else names_in(files, "--data", os.getcwd())
    config = to_config_dict(task.config)
    config.data.update({**task.data.other_test_fields, "source": "files", "dir": os.getcwd()})
    config.data.test = join_list(str(local_copy(expand_user(name)).absolute()) for name in names)
    config.data.train = config.data.train or config.data.test  # required, and not read
    if inferred := config.data.get("inferred"):  # without those that are set
        names = split_list(inferred, "data.inferred")
        config.data.inferred = ",".join(n for n in names if inferred_key(n) not in keys)
    config, _ = _overridden(config, task.config_class, overrides, str(run.config_file))

    # the labels are the run's, perhaps with the files' names
    labels, given = (getattr(data, "names", ()) for data in (task.config.data, config.data))
    if labels != given and {*labels} == {*given}:
        order = f"must be in the run's order, data.labels={join_list(labels)}"
        raise UserError(f"--config.data.labels={join_list(given)}: {order}")

    # the task on these files, with the run's vocabulary
    task = type(task)(config)
    task.read_vocabulary(local_copy(run.vocabulary))
    task.prepare_as(vocabulary_from=run.vocabulary, splits=("test",), option=option)
    return task


def default_workdir(file: str) -> Path:
    """runs/<family>/<config>, with the config's argument: runs/csan/wmt14_ende-big."""
    path, _, argument = config_file(file).partition(":")
    name = Path(path).stem + (f"-{argument}" if argument else "")
    return Path("runs") / Path(path).resolve().parent.name / name


def _parsed_flag(file: str, define: Callable[..., Any], arguments: Sequence[str]) -> Any:
    """The value of the flag `--config` that `define` defines; raises UserError."""
    argv = ["launch", *arguments]
    values = flags.FlagValues()
    sys.modules.pop("config_config", None)  # else names of the previous file would stay defined
    try:
        define("config", flag_values=values, sys_argv=argv)
        values(argv)
        return values["config"].value
    except UserError as error:
        raise UserError(f"--config={file}: {error}") from error
    except (Exception, SystemExit) as error:  # a user's file can raise anything
        # an error of the file's own code, or of a module that it imports
        unknown = _unknown_system(error)
        if unknown is None and (own := own_error(error)):
            raise UserError(f"--config={file}: {own}; --traceback prints all") from error

        # an invalid value: the last line of the message, with the file as the user named it
        message = str(unknown or error).strip() or type(error).__name__
        message = message.splitlines()[-1]  # it may quote a whole traceback
        message = message.replace(config_file(file), file)
        message = re.sub("invalid literal for int.*", "must be a whole number", message)
        if isinstance(error, AttributeError) and error.name == "get_config":
            message = "there is no get_config in it"
        at = "" if message.startswith("flag") else f"--config={file}: "
        raise UserError(f"{at}{message}") from error


def _unknown_system(error: BaseException) -> UnknownSystem | None:
    """The cause of an error that lists the systems."""
    unknown = (cause for cause in causes(error) if isinstance(cause, UnknownSystem))
    return next((cause for cause in unknown if cause.names), None)


def _with_full_key(override: str, config: ml_collections.ConfigDict, kind: type) -> str:
    """An override with the full name of its key; raises UserError for an unknown key, a former one,
    or a group of keys."""
    # the full name of the key
    key, _, value = override.removeprefix("--config.").partition("=")
    short = short_keys(kind)
    path = short.get(key, key)
    if current := former_keys(kind).get(key):
        raise UserError(f"config key {key!r} is now {current!r}")

    # each segment must be a key of the group before it
    node: Any = config
    segments = path.split(".")
    for at, segment in enumerate(segments):
        keys = list(node) if isinstance(node, ml_collections.ConfigDict) else []
        if segment not in keys:
            if path != key and "name" in keys:  # a field of another choice's class
                raise UserError(f"config key {key!r}: {node.name} has no {segment}")
            split = [name.split(".") for name in short]
            keys += [name[-1] for name in split if name[:-1] == segments[:at]]
            raise UserError(f"unknown config key {key!r}{suggestion(segment, keys)}")
        node = node[segment]

    # a whole group cannot be set
    if isinstance(node, ml_collections.ConfigDict):
        raise UserError(f"config key {key!r} is a group of keys: {', '.join(sorted(node))}")
    return f"--config.{path}={value}"
