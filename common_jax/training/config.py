"""Reads `--config FILE[:ARGUMENT] --config.KEY=VALUE ...` into the dataclasses of a task's config.

After `parse` no code sees a ConfigDict.
"""

import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_collections
from absl import flags
from ml_collections import config_flags

from common_jax.config import completed, from_values, old_keys, short_keys
from common_jax.errors import UserError
from common_jax.fields import named_class, suggestion
from common_jax.training.task import Task


def parse(file: str, overrides: Sequence[str]) -> Any:
    """The config of `--config FILE[:ARGUMENT] --config.KEY=VALUE ...`, checked.

    Args:
      file: a Python file with `get_config`, a ":" before its argument if it takes one.
      overrides: arguments of the form "--config.key=value".

    Raises:
      UserError: for a missing file, an unknown key, a wrong type, or an invalid value.
    """
    for override in overrides:
        if not override.startswith("--config."):
            raise UserError(f"unexpected argument {override!r}")
        if "=" not in override:
            raise UserError(f"{override}: write {override}=VALUE, in one argument")
    path = file.partition(":")[0]
    if not os.path.isfile(path):
        raise UserError(f"--config: no such file: {path}")
    plain = _read(file, [])
    if not isinstance(plain, ml_collections.ConfigDict) or type(plain.get("task")) is not str:
        raise UserError(
            f"--config={file}: get_config() must return to_config_dict of a task's config, as the "
            "files in configs do"
        )
    kind = task_class(plain.task).config_class
    overrides = [_with_full_key(override, plain, kind) for override in overrides]
    config: Any = from_values(kind, _read(file, overrides).to_dict())
    keys = [override.removeprefix("--config.").partition("=")[0] for override in overrides]
    return completed(config, keys)


def task_class(name: str) -> type[Task]:
    """The task with the name "package.module:Class".

    Raises:
      UserError: if there is no such module or class, or it is no task.
    """
    return named_class(name, Task, "task")


def default_workdir(file: str) -> Path:
    """runs/<family>/<config>, with the config's argument: runs/csan/wmt14_ende-big."""
    path, _, argument = file.partition(":")
    name = Path(path).stem + (f"-{argument}" if argument else "")
    return Path("runs") / Path(path).resolve().parent.name / name


def _read(file: str, overrides: Sequence[str]) -> ml_collections.ConfigDict:
    argv = ["launch", f"--config={file}", *overrides]
    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=argv)
    sys.modules.pop("config_config", None)  # else names of the previous file would stay defined
    try:
        values(argv)
        return values["config"].value
    except (flags.Error, TypeError, ValueError) as error:
        message = str(error).strip().splitlines()[-1]  # it may quote a whole traceback
        message = re.sub("invalid literal for int.*", "must be a whole number", message)
        raise UserError(
            message if message.startswith("flag") else f"--config={file}: {message}"
        ) from error
    except (Exception, SystemExit) as error:  # a user's file can raise anything
        path = file.partition(":")[0]
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        at = f":{lines[-1]}" if lines else ""
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, AttributeError) and error.name == "get_config" and not at:
            message = "there is no get_config in it"
        raise UserError(f"--config={file}{at}: {message}") from error


def _with_full_key(override: str, config: ml_collections.ConfigDict, kind: type) -> str:
    """An override with the full name of its key, checked for better messages than ml_collections'.

    Raises:
      UserError: for an unknown key, a former one, or a group of keys.
    """
    key, _, value = override.removeprefix("--config.").partition("=")
    short = short_keys(kind)
    path = short.get(key, key)
    if key in old_keys(kind):
        raise UserError(f"config key {key!r} is now {old_keys(kind)[key]!r}")
    node: Any = config
    parts = path.split(".")
    for at, part in enumerate(parts):
        keys = list(node) if isinstance(node, ml_collections.ConfigDict) else []
        if part not in keys:
            if path != key and "name" in keys:  # a field of another choice's class
                raise UserError(f"config key {key!r}: {node.name} has no {part}")
            split = [name.split(".") for name in short]
            keys += [name[-1] for name in split if name[:-1] == parts[:at]]
            raise UserError(f"unknown config key {key!r}{suggestion(part, keys)}")
        node = node[part]
    if isinstance(node, ml_collections.ConfigDict):
        raise UserError(f"config key {key!r} is a group of keys: {', '.join(sorted(node))}")
    return f"--config.{path}={value}"
