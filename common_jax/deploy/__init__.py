"""All that answers and travels: predictors, services, exports, models by name.

`load` opens a run or an export as a predictor.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from common_jax.deploy.loading import LoadedModel, load, load_model, predictor_class

__all__ = ["LoadedModel", "load", "load_model", "predictor_class"]


def __getattr__(name: str) -> Any:
    """Imports the functions of `load` when they are used: a run trains without predictors."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("common_jax.deploy.loading"), name)
