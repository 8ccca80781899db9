"""Systems by name: the arguments of config files."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import ml_collections

from common_jax.config import to_config_dict
from common_jax.fields import nearest

T = TypeVar("T")


class UnknownSystem(ValueError):  # noqa: N818 (the name of what is wrong)
    """The argument of a config file is none of its systems.

    Attributes:
      names: of the systems; ml_collections makes a copy without them.
    """

    names: Collection[str] = ()

    @classmethod
    def of(cls, name: str, names: Collection[str], listed: str = "") -> "UnknownSystem":
        """The error for a name, with the names as the message lists them."""
        error = cls(f"{name!r}: must be {listed or ' | '.join(names)}{nearest(name, names)}")
        error.names = names
        return error


def system_named(systems: Mapping[str, T], name: str) -> T:
    """The entry of a config folder's table of systems.

    Raises:
      UnknownSystem: for an unknown name.
    """
    if name not in systems:
        raise UnknownSystem.of(name, systems)
    return systems[name]


def system_config(config: Any, name: str, **fields: Any) -> ml_collections.ConfigDict:
    """The config of a named system, for its config file to edit.

    Args:
      config: a task's config, with the system's model.
      name: `paper.system`.
      **fields: of the model; those that it does not have are ignored.
    """
    edited = to_config_dict(config)
    edited.model.update({name: value for name, value in fields.items() if name in edited.model})
    edited.paper.system = name
    return edited
