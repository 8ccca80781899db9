"""The fields that one's own files decide, for a new run or as a begun one has recorded them."""

import dataclasses
import logging
import pkgutil
from collections.abc import Sequence
from typing import Any

from common_jax.config import SplitsConfig, inferred_key
from common_jax.data.inference import Inference, flags
from common_jax.fields import flat
from common_jax.training.multihost import first_process_only
from common_jax.training.run_folder import RunFolder

_log = logging.getLogger(__name__)


@first_process_only
def inferred_overrides(
    config: Any, runs: Sequence[RunFolder] = (), given: Sequence[str] = ()
) -> list[str]:
    """The fields in `data.inferred` as "--config.KEY=VALUE", of which the log has a block; none if
    there is nothing to infer.

    Args:
      runs: of this config, the first of which that has begun has recorded the fields.
      given: keys of fields that are set elsewhere.

    Raises:
      UserError: for files that are missing, or that can be meant in several ways.
    """
    data = getattr(config, "data", None)
    if not isinstance(data, SplitsConfig) or not data.inference:
        return []
    names = [name for name in data.to_infer if inferred_key(name) not in given]
    if not names:
        return []
    for run in runs:
        if run.config_file.exists() and run.has_begun:
            return _overrides(_recorded(run, names))

    # The files, silently: what they show is logged when they are prepared.
    changed: Any = {"data": dataclasses.replace(data, inferred=",".join(names))}
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        infer = pkgutil.resolve_name(data.inference)
        inference: Inference = infer(dataclasses.replace(config, **changed))
    finally:
        logging.disable(disabled)
    inference.require_none()
    if inference.values:
        fields = (f"  {flags({key: value})}" for key, value in inference.values.items())
        block = " \\\n".join(fields)
        _log.info("inferred from the files, unless set on the command line:\n%s", block)
    for note in inference.notes:
        _log.info("%s", note)
    return _overrides(inference.values)


def _recorded(run: RunFolder, names: Sequence[str]) -> dict[str, Any]:
    """The values of fields that a run's files have decided; none of a version without `inferred`,
    which had those of the config."""
    recorded = flat(run.config())
    decided = str(recorded.get("data.inferred", "")).split(",")
    keys = {name: inferred_key(name) for name in names if name in decided}
    return {name: recorded[key] for name, key in keys.items() if key in recorded}


def _overrides(values: dict[str, Any]) -> list[str]:
    fields = {**values, "inferred": ",".join(values)}
    return [f"--config.{inferred_key(name)}={value}" for name, value in fields.items()]
