"""Deployment: `load` a run or an export as a predictor; exporting, model cards."""

from common_jax.deploy.load import LoadedModel, load, load_model, predictor_class

__all__ = ["LoadedModel", "load", "load_model", "predictor_class"]
