"""The trials of a sweep on a Ray cluster, by Ray Tune.

Each machine must have this project's packages, and see the folders of the config, the data, the
sweep and the prepared corpora under the same paths (docs/cluster.md).
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.sweep.plan import Trial
from common_jax.sweep.results import find, record
from common_jax.training.checkpoint import goodness
from common_jax.training.log import read_metrics
from launch.executors import POLL_SECONDS, Process

# To be set before Ray is imported: it would run `uv run` again on every worker, and catch Ctrl-C.
_SETTINGS = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leaves a trial without GPUs the machine's own
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}


def run_on_ray(
    trials: Sequence[Trial],
    folder: Path,
    done: Callable[[Trial], None],
    *,
    jobs: int | None = None,
    resources: Mapping[str, float],
    asha: int | None = None,
) -> None:
    """Runs trials on the cluster that RAY_ADDRESS names, or that this machine belongs to, or on one
    that is started here and ends with this process.

    Args:
      folder: of the sweep, where Tune keeps its own account.
      done: called with each trial as it ends.
      jobs: trials at a time at most; None is as many as the cluster has room for.
      resources: what one trial is given, "cpu" and "gpu".
      asha: early stopping (Li et al. 2020) by `train.best_metric` on dev: of the trials that reach
        this step, and again four times as many, the best quarter goes on.

    Raises:
      UserError: if Ray is not installed, or no machine has as many resources.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in _SETTINGS.items()})
    try:
        import ray
        from ray import tune
    except ImportError as error:
        raise UserError("--executor ray: needs Ray (uv sync --extra cluster)") from error

    class Watch(tune.Callback):
        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
            done(ours[trial.config["number"]])

        on_trial_error = on_trial_complete

    ours = list(trials)
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        _require_room(ray.nodes(), resources)
        tuner = tune.Tuner(
            tune.with_resources(
                tune.with_parameters(_train, trials=ours, home=os.getcwd()), dict(resources)
            ),
            param_space={"number": tune.grid_search(list(range(len(ours))))},
            tune_config=tune.TuneConfig(
                metric="goodness",
                mode="max",
                max_concurrent_trials=jobs,
                scheduler=_scheduler(ours, asha),
            ),
            run_config=tune.RunConfig(
                name="tune", storage_path=str(folder.absolute()), callbacks=[Watch()], verbose=0
            ),
        )
        results = tuner.fit()
        for result in (results[number] for number in range(len(results))):
            trial = ours[(result.config or {})["number"]]
            state = find(trial).state
            if result.error is None and state != "finished":
                record(trial, "stopped")  # by the scheduler, which ended its process
            elif result.error is not None and state != "failed":
                record(trial, "failed", str(result.error).strip().splitlines()[-1])
    finally:
        ray.shutdown()


def _scheduler(trials: Sequence[Trial], asha: int | None) -> Any:
    from ray.tune.schedulers import ASHAScheduler, FIFOScheduler

    if asha is None:
        return FIFOScheduler()
    most = max(trial.config.train.steps for trial in trials)
    return ASHAScheduler(time_attr="step", max_t=most, grace_period=asha, stop_last_trials=False)


def _require_room(nodes: Sequence[Mapping[str, Any]], resources: Mapping[str, float]) -> None:
    """Ray itself would wait for a machine that large to join."""
    has = [node["Resources"] for node in nodes if node["Alive"]]
    names = {"cpu": "CPU", "gpu": "GPU"}
    if not any(all(n.get(names[k], 0) >= v for k, v in resources.items()) for n in has):
        wanted = ", ".join(f"{value:g} {names[name]}" for name, value in resources.items())
        raise UserError(f"no machine of the Ray cluster has {wanted} for a trial")


def _train(config: Mapping[str, int], trials: Sequence[Trial], home: str) -> None:
    """In a worker of the cluster: one trial, whose validations Tune is told of."""
    from ray import tune

    os.chdir(home)
    trial, told, ended = trials[config["number"]], 0, False
    process = Process(trial)
    while not ended:
        ended = process.wait(POLL_SECONDS)
        lines = read_metrics(trial.workdir.metrics)
        values = [line for line in lines if line.get("split") == "dev"]
        for line in values[told:]:
            good = goodness(line, trial.config.train.best_metric)
            tune.report({"step": line["step"], "goodness": good})
        told = len(values)
    if find(trial).state != "finished":
        raise RuntimeError(f"{trial.name}: see {trial.log}")
