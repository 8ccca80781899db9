"""The compared systems of the family, by the names that all its config files accept.

  python -m launch.train --config configs/csan/quickstart.py:csan_1d

An entry is a function from a file's model fields to the self-attentions; it keeps the file's number
of local encoder layers unless the system defines it.
"""

from collections.abc import Callable, Mapping

from ml_collections import ConfigDict

from common_jax.config import system_named, to_config_dict
from common_jax.fields import Choice
from csan_jax.attention.area import Area

SYSTEMS: Mapping[str, Callable[[ConfigDict], Mapping[str, Choice]]] = {
    "transformer": lambda model: {"encoder_attention": Area(local_layers=0)},
    "csan_1d": lambda model: {"encoder_attention": Area(_local(model), head_window=1)},
    "csan_2d": lambda model: {"encoder_attention": Area(_local(model))},
}


def choose(config: ConfigDict, system: str, size: str = "") -> ConfigDict:
    """The config with the attentions of a system; unchanged for "".

    Args:
      size: prefix of the runs' system, such as "big".

    Raises:
      ValueError: for an unknown name.
    """
    if system:
        for section, choice in system_named(SYSTEMS, system)(config.model).items():
            config.model[section] = to_config_dict(choice)
        config.paper.system = f"{size}-{system}" if size else system
    return config


def sized(name: str) -> tuple[str, str]:
    """The size, "" or "big", and the system of an argument of the papers' files: SYSTEM is base,
    "big-SYSTEM" is big, and "base" and "big" are 2D-CSAN.

    Raises:
      ValueError: for an unknown name.
    """
    sizes = {"": ("", "csan_2d"), "base": ("", "csan_2d"), "big": ("big", "csan_2d")}
    sizes |= {system: ("", system) for system in SYSTEMS}
    sizes |= {f"big-{system}": ("big", system) for system in SYSTEMS}
    if name not in sizes:
        raise ValueError(f"{name!r}: must be base | big | {' | '.join(SYSTEMS)} | big-SYSTEM")
    return sizes[name]


def _local(model: ConfigDict) -> int:
    return model.encoder_attention.local_layers
