"""Former names of config keys and classes, by which stored runs, exports and trials are read.

On the command line a former key is an error that names the current one.
"""

import copy
from collections.abc import Mapping
from typing import Any

# By package, former to current full keys of its config: {"csan_jax": {"data.old": "data.new"}}.
CONFIG_KEYS: dict[str, dict[str, str]] = {"csan_jax": {"data.tsv_columns": "data.columns"}}
# Former to current "package.module:Class", of tasks, predictors and choices.
CLASSES: dict[str, str] = {}


def current_class(name: str) -> str:
    """The current name of a class."""
    return CLASSES.get(name, name)


def former_keys(config_class: type) -> Mapping[str, str]:
    """Former to current full names of a config's keys."""
    return CONFIG_KEYS.get(config_class.__module__.partition(".")[0], {})


def with_current_keys(config_class: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The nested values of a config, with former keys moved to their current names."""
    renamed = copy.deepcopy(dict(values))
    for former, current in former_keys(config_class).items():
        *sections, name = former.split(".")
        node: Any = renamed
        for section in sections:
            node = node.get(section) if isinstance(node, dict) else None
        if isinstance(node, dict) and name in node:
            value = node.pop(name)
            *sections, name = current.split(".")
            node = renamed
            for section in sections:
                node = node.setdefault(section, {})
            node[name] = value
    return renamed
