"""Systems compared in the paper, by name, for the config files of this folder: `FILE.py:SYSTEM`.

  python -m launch.train --config configs/csan/quickstart.py:csan_1d

NEIGHBOR of Table 1 is `neighbor` as in Sperber et al., and `neighbor_predicted` by the table's
number of parameters. `local_soft` and the other predicted windows are in four heads, `local_soft_8`
in eight, or in all if there are fewer. `transformer_wide` is not in the paper: the Transformer with
as many parameters as `cnns`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict

from common_jax.config import to_config_dict
from common_jax.fields import Choice
from common_jax.systems import UnknownSystem
from csan_jax.attention.area import Area
from csan_jax.attention.base import EncoderAttention
from csan_jax.attention.block import Block
from csan_jax.attention.convolution import Convolutions
from csan_jax.attention.direction import Direction
from csan_jax.attention.localness import Localness
from csan_jax.attention.neighbor import Neighbor
from csan_jax.attention.relative import Relative, RelativeCausal

Fields = Mapping[str, Any]


def choose(config: ConfigDict, system: str, size: str = "") -> ConfigDict:
    """The config with a system's model fields; unchanged for "".

    Args:
      size: prefix of the system in `config.paper.system`, such as "big".
    """
    if system:
        for field, value in SYSTEMS[system](config.model).items():
            config.model[field] = to_config_dict(value) if isinstance(value, Choice) else value
        config.paper.system = f"{size}-{system}" if size else system
    return config


def choose_sized(config: ConfigDict, name: str) -> ConfigDict:
    """`choose` for SYSTEM, or "wide-SYSTEM" with twice the width and twice the heads."""
    size, system = _sized(name, "wide", {"": ("", "")})
    if size:
        for field in ("dim", "mlp_dim", "num_heads"):
            config.model[field] *= 2
    return choose(config, system, size)


def sized(name: str) -> tuple[str, str]:
    """The size, "" or "big", and the system of an argument of the files with the paper's settings:
    "SYSTEM" or "big-SYSTEM"; "base" and "big" are 2D-CSAN.

    Raises:
      UnknownSystem: for an unknown name.
    """
    two = "csan_2d"
    return _sized(name, "big", {"": ("", two), "base": ("", two), "big": ("big", two)})


def _sized(name: str, large: str, further: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """The size and the system of an argument: SYSTEM, LARGE-SYSTEM or a key of `further`."""
    sizes = {**further, **{system: ("", system) for system in SYSTEMS}}
    sizes |= {f"{large}-{system}": (large, system) for system in SYSTEMS}
    if name not in sizes:
        names = " | ".join(filter(None, (*further, *SYSTEMS)))
        raise UnknownSystem.of(name, sizes, f"{names} | {large}-SYSTEM")
    return sizes[name]


def _local(attention: Callable[..., EncoderAttention], **fields: Any) -> Callable[..., Fields]:
    """An attention in the file's local layers."""

    def with_attention(model: ConfigDict) -> Fields:
        layers = model.encoder_attention.local_layers
        return {"encoder_attention": attention(layers, **fields)}

    return with_attention


def _predicted(heads: int, **fields: Any) -> Callable[..., Fields]:
    """Predicted windows in the file's local layers, in `heads` heads or as many as there are."""
    return lambda model: _local(Localness, local_heads=min(heads, model.num_heads), **fields)(model)


def _all(attention: Callable[..., EncoderAttention]) -> Callable[..., Fields]:
    """An attention in all encoder layers."""
    return lambda model: {"encoder_attention": attention(model.encoder_layers)}


def _wide(model: ConfigDict) -> Fields:
    """Feed-forward layers with a width, in steps of 8, that gives as many parameters as `cnns`."""
    cnns = Convolutions()
    added = cnns.count * (cnns.width * model.dim + model.dim**2 + 3 * model.dim)
    layers = model.encoder_layers + model.decoder_layers
    units = added * model.encoder_attention.local_layers / layers / (2 * model.dim + 1)
    wide = model.mlp_dim + 8 * round(units / 8)
    return {"encoder_attention": Area(local_layers=0), "mlp_dim": wide}


# Functions from a file's model fields to those that the system changes.
SYSTEMS: Mapping[str, Callable[[ConfigDict], Fields]] = {
    "transformer": lambda model: {"encoder_attention": Area(local_layers=0)},
    "transformer_wide": _wide,
    "bi_direct": _all(Direction),
    "bi_direct_local": _local(Direction),
    "rel_pos": _all(Relative),
    "rel_pos_local": _local(Relative),
    "rel_pos_decoder": lambda model: {
        "encoder_attention": Relative(model.encoder_layers),
        "decoder_attention": RelativeCausal(),
    },
    "neighbor": _local(Neighbor),
    "neighbor_predicted": _predicted(4, centre="own"),
    "local_hard": _predicted(4, window="fixed"),
    "local_soft": _predicted(4),
    "local_soft_8": _predicted(8),
    "luong": _predicted(4, window="fixed", form="luong"),
    "cnns": _local(Convolutions),
    "cnns_full": _local(Convolutions, kind="ordinary"),
    "block": _local(Block),
    "csan_1d": _local(Area, head_window=1),
    "csan_2d": _local(Area),
}
