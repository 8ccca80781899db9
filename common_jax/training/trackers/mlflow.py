"""MLflow; its environment variables (MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME) apply."""

import os
import time
from collections.abc import Mapping

from common_jax.training.trackers import TrackedRun, Tracker

_ID = "conv_attention.id"  # the tag by which a resumed run finds its record
_BATCH = 100  # parameters in a request


class MLflow(Tracker):
    """A run of MLflow; the config are its parameters, which stay those of the first process."""

    package = "mlflow"

    def __init__(self, run: TrackedRun):
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._client, self._metric = MlflowClient(), Metric
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "conv-attention")
        existing = self._client.get_experiment_by_name(name)
        experiment = existing.experiment_id if existing else self._client.create_experiment(name)
        records = self._client.search_runs([experiment], f"tags.`{_ID}` = '{run.id}'")
        if records:
            (record,) = records
            self._client.update_run(record.info.run_id, status="RUNNING")
        else:
            record = self._client.create_run(experiment, tags={_ID: run.id}, run_name=run.name)
        self._id = record.info.run_id
        params = [Param(k, str(v)) for k, v in run.config.items() if k not in record.data.params]
        for at in range(0, len(params), _BATCH):
            self._client.log_batch(self._id, params=params[at : at + _BATCH])
        self.location = f"experiment {name}, run {run.name}"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        now = round(time.time() * 1000)
        metrics = [self._metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def close(self) -> None:
        self._client.set_terminated(self._id)
