"""The config fields that identify a run, and those that its result depends on."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from common_jax.config import SourceConfig, SplitsConfig
from common_jax.fields import flat, to_mapping

# How files are read, whose content is compared instead (`RunFolder.data_digests`).
READINGS = ("data.quotes", "data.escaped_breaks", "data.inferred")
SEED = "train.seed"  # the only field in which repeated runs differ
LIMITS = ("data.max_equal_pairs", "data.max_unreachable_answers")  # only reject corpora
COOLDOWN = ("optimizer.cooldown_start", "optimizer.cooldown_steps")


def result_fields(config: Any) -> dict[str, Any]:
    """The config fields that a result can depend on, by full name, the cooldown in steps."""
    irrelevant = (
        "mesh.",
        "paper.",
        "data.cache_dir",
        "model.unroll",
        "optimizer.cooldown",
        "train.trackers",
        *LIMITS,
    )
    optimizer = config.optimizer.scheduled(config.train.steps)
    schedule = optimizer.cooldown_start, optimizer.cooldown_steps
    fields = _comparable(config)
    relevant = {key: value for key, value in fields.items() if not key.startswith(irrelevant)}
    return relevant | dict(zip(COOLDOWN, schedule, strict=True))


def identity(config: Any) -> dict[str, Any]:
    """The config fields that identify a run: without length, intervals, trackers, mesh, paper."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in _comparable(config).items()
        if not key.startswith(("mesh.", "paper.", *LIMITS))
        if key not in ("train.steps", "train.trackers", "model.unroll", "optimizer.cooldown")
        if not key.endswith("_every")
    }


def _comparable(config: Any) -> dict[str, Any]:
    """A config's values by the fields' full names, in a canonical form."""
    data = getattr(config, "data", None)
    columns = {"data.columns": data.column_order} if isinstance(data, SplitsConfig) else {}
    fields = {**flat(to_mapping(config)), **columns}
    ignored = {*READINGS}
    if isinstance(data, SourceConfig):
        ignored |= {f"data.{name}" for name in data.compared_if_used & data.unused().keys()}
    return {key: value for key, value in fields.items() if key not in ignored}


def resuming(differing: Sequence[str], old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The overrides with which this config resumes the old run; "" if overrides cannot."""
    if any(key not in old or key not in new or key.endswith(".name") for key in differing):
        return ""
    overrides = (shlex.quote(f"--config.{key}={old[key]}") for key in differing)
    return f"{' '.join(overrides)} resumes it, or "
