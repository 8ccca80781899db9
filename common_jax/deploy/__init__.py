"""Deployment: `load` a run or an export as a predictor; exporting, model cards."""

from common_jax.deploy.load import load, predictor_class

__all__ = ["load", "predictor_class"]
