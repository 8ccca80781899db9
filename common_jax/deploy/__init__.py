"""All that answers and travels: predictors, services, exports, models by name.

`load` opens a run or an export as a predictor.
"""

from typing import TYPE_CHECKING

from common_jax.lazy import lazy_names

if TYPE_CHECKING:
    from common_jax.deploy.loading import LoadedModel, load, load_model, predictor_class

__all__ = ["LoadedModel", "load", "load_model", "predictor_class"]

# a run trains without predictors
__getattr__ = lazy_names(__name__, {"common_jax.deploy.loading": __all__})
