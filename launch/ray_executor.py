"""The trials of a sweep on a Ray cluster, by Ray Tune.

Each machine must have this project's packages, and see the folders of the config, the data, the
sweep and the prepared corpora under the same paths (docs/cluster.md).
"""

import itertools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.errors import Interrupted, UserError
from common_jax.sweep.plan import Trial
from common_jax.sweep.results import find, record
from common_jax.training.checkpoint import comparable_score
from common_jax.training.log import read_metrics
from common_jax.training.preemption import PreemptionHandler
from launch.local_executor import run_trial

# To be set before Ray is imported: it would run `uv run` again on every worker, and catch Ctrl-C.
_SETTINGS = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}


def run_on_ray(
    trials: Sequence[Trial],
    folder: Path,
    done: Callable[[Trial], None],
    *,
    jobs: int | None = None,
    cpus: int = 1,
    gpus: int | None = None,
    asha: int | None = None,
) -> None:
    """Runs trials on the cluster that RAY_ADDRESS names, or that this machine belongs to, or on one
    that is started here and ends with this process.

    Args:
      folder: of the sweep, where Tune keeps its own account.
      done: called with each trial as it ends.
      jobs: trials at a time at most; None is as many as the cluster has room for.
      cpus, gpus: what one trial is given; None is one GPU where the cluster has any.
      asha: early stopping (Li et al. 2020) by `train.best_metric` on dev: of the trials that reach
        this step, and again four times as many, the best quarter goes on.

    Raises:
      UserError: if Ray is not installed or cannot be reached, or no machine has as many resources.
      Interrupted: after a request to stop; what was trained since the last checkpoints is lost.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in _SETTINGS.items()})
    try:
        import ray
        from ray import tune
    except ImportError as error:
        raise UserError("--executor ray: needs Ray (uv sync --extra cluster)") from error

    class Watch(tune.Callback):
        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
            ended = ours[trial.config["number"]]
            if find(ended).state != "finished":
                record(ended, "stopped")  # by the scheduler, which ends its process
            done(ended)

        def on_trial_error(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
            done(ours[trial.config["number"]])

        def on_step_end(self, iteration: int, trials: Any, **_: Any) -> None:
            if requests.received is not None:  # Ray lets nothing else interrupt it
                raise Interrupted(requests.received)

    ours, requests = list(trials), PreemptionHandler()
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        said = str(error).strip().splitlines()[0]
        raise UserError(f"--executor ray: no cluster can be reached: {said}") from error
    try:
        if gpus is None:
            gpus = int(ray.cluster_resources().get("GPU", 0) > 0)
        resources: dict[str, float] = {"cpu": cpus, **({"gpu": gpus} if gpus else {})}
        _require_room(ray.nodes(), resources)
        tuner = tune.Tuner(
            tune.with_resources(
                tune.with_parameters(_train, trials=ours, home=os.getcwd()), resources
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
        with requests:  # after Ray, which sets handlers of its own
            _record_ends(tuner.fit(), ours)
    finally:
        ray.shutdown()


def _record_ends(results: Any, trials: Sequence[Trial]) -> None:
    """Keeps why trials have not finished, where they have not said so themselves."""
    for result in (results[number] for number in range(len(results))):
        trial = trials[(result.config or {})["number"]]
        state = find(trial).state
        if result.error is None and state != "finished":
            record(trial, "stopped")  # by the scheduler, which ended its process
        elif result.error is not None and state != "failed":
            record(trial, "failed", str(result.error).strip().splitlines()[-1])


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
    trial, told = trials[config["number"]], 0
    for _ in itertools.chain(run_trial(trial), [None]):
        lines = [x for x in read_metrics(trial.workdir.metrics) if x.get("split") == "dev"]
        for line in lines[told:]:
            good = comparable_score(line, trial.config.train.best_metric)
            tune.report({"step": line["step"], "goodness": good})
        told = len(lines)
    if find(trial).state != "finished":
        raise RuntimeError(f"{trial.name}: see {trial.log}")
