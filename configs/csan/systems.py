"""The compared systems of the family, by the names that all its config files take.

  python -m launch.train --config configs/csan/quickstart.py:csan_1d

An entry says what its self-attentions are, given a file's other model fields; it keeps how many of
the lowest encoder layers that file makes local, unless the system itself says how many.
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
    """The config with the attentions of a system; as it is without a name.

    Args:
      size: what the name of the runs begins with, "big" for example.

    Raises:
      ValueError: for an unknown name.
    """
    if system:
        for section, choice in system_named(SYSTEMS, system)(config.model).items():
            config.model[section] = to_config_dict(choice)
        config.paper.system = f"{size}-{system}" if size else system
    return config


def sized(name: str) -> tuple[str, str]:
    """The size, "" or "big", and the system of a name of the papers' files: a system alone is base,
    "big-SYSTEM" is big, and "base" and "big" are 2D-CSAN.

    Raises:
      ValueError: for an unknown name.
    """
    named = {"": ("", "csan_2d"), "base": ("", "csan_2d"), "big": ("big", "csan_2d")}
    named |= {system: ("", system) for system in SYSTEMS}
    named |= {f"big-{system}": ("big", system) for system in SYSTEMS}
    if name not in named:
        raise ValueError(f"{name!r}: must be base | big | {' | '.join(SYSTEMS)} | big-SYSTEM")
    return named[name]


def _local(model: ConfigDict) -> int:
    return model.encoder_attention.local_layers
