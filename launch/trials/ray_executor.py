"""Runs the trials of a sweep on a Ray cluster, with Ray Tune.

Each machine needs this project's packages, and the folders of the config, the data, the sweep and
the prepared corpora under the same paths (docs/ray.md).
"""

import itertools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.errors import Interrupted, UserError, missing_extra
from common_jax.training.best import comparable_score
from common_jax.training.preemption import PreemptionHandler
from launch.trials.executor import Executor
from launch.trials.local_executor import log_start, run_trial
from launch.trials.status import find, record
from launch.trials.trials import Trial

# Set before Ray is imported: no `uv run` on workers, no handler of Ctrl-C.
_SETTINGS = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}


def run_on_ray(
    trials: Sequence[Trial], folder: Path, executor: Executor, done: Callable[[Trial], None]
) -> None:
    """Runs trials on a Ray cluster.

    The cluster is that of RAY_ADDRESS or the one running on this machine; without either, a local
    one is started, which ends with this process.

    Args:
      folder: of the sweep; Tune writes to it.
      done: called with each trial as it ends.

    Raises:
      UserError: if Ray is not installed or cannot be reached, or no machine has the resources.
      Interrupted: upon a request to stop; training since the last checkpoints is lost.
    """
    # Connect to the cluster.
    os.environ.update({name: os.environ.get(name, value) for name, value in _SETTINGS.items()})
    try:
        import ray.tune
    except ImportError as error:
        raise missing_extra(
            "--executor ray: Ray is not installed; this executor", "cluster"
        ) from error
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"--executor ray: no cluster can be reached: {reason}") from error

    # Train there; the handler of signals comes after Ray, which sets its own.
    try:
        resources = _resources(executor, ray.cluster_resources())
        _require_room(ray.nodes(), resources)
        preemption = PreemptionHandler()
        watch = _watch(trials, done, preemption)
        tuner = _tuner(trials, folder, executor, resources, watch)
        with preemption:
            _record_ends(tuner.fit(), trials)
    finally:
        ray.shutdown()


def _resources(executor: Executor, available: Mapping[str, float]) -> dict[str, float]:
    """The resources of a trial, by Ray's lower-case names."""
    gpus = executor.gpus
    if gpus is None:
        gpus = int(available.get("GPU", 0) > 0)
    return {"cpu": executor.cpus, **({"gpu": gpus} if gpus else {})}


def _watch(
    chosen: Sequence[Trial], done: Callable[[Trial], None], preemption: PreemptionHandler
) -> Any:
    """The callback that reports the ends of trials, and ends Tune upon a request to stop."""
    from ray import tune

    class Watch(tune.Callback):
        def on_trial_start(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
            log_start(trial.config["number"], chosen)

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
            ended = chosen[trial.config["number"]]
            if find(ended).state != "finished":
                record(ended, "stopped")  # by the scheduler
            done(ended)

        def on_trial_error(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
            done(chosen[trial.config["number"]])

        def on_step_end(self, iteration: int, trials: Any, **_: Any) -> None:
            if preemption.received is not None:  # Ray can be interrupted only here
                raise Interrupted(preemption.received)

    return Watch()


def _tuner(
    trials: Sequence[Trial],
    folder: Path,
    executor: Executor,
    resources: Mapping[str, float],
    watch: Any,
) -> Any:
    """The tuner that trains the trials, each by its number.

    Args:
      watch: of `_watch`.
    """
    from ray import tune

    train = tune.with_parameters(_train, trials=[*trials], home=os.getcwd())
    return tune.Tuner(
        tune.with_resources(train, dict(resources)),
        param_space={"number": tune.grid_search(list(range(len(trials))))},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            max_concurrent_trials=executor.jobs,
            scheduler=_scheduler(trials, executor.asha),
        ),
        run_config=tune.RunConfig(
            name="tune", storage_path=str(folder.absolute()), callbacks=[watch], verbose=0
        ),
    )


def _record_ends(results: Any, trials: Sequence[Trial]) -> None:
    """Records why trials have not finished, unless that is recorded already."""
    for result in (results[number] for number in range(len(results))):
        trial = trials[(result.config or {})["number"]]
        state = find(trial).state
        if result.error is None and state != "finished":
            record(trial, "stopped")  # by the scheduler
        elif result.error is not None and state != "failed":
            record(trial, "failed", str(result.error).strip().splitlines()[-1])


def _scheduler(trials: Sequence[Trial], asha: int | None) -> Any:
    """Tune's scheduler: ASHA, or first in, first out."""
    from ray.tune.schedulers import ASHAScheduler, FIFOScheduler

    if asha is None:
        return FIFOScheduler()
    most = max(trial.config.train.steps for trial in trials)
    return ASHAScheduler(time_attr="step", max_t=most, grace_period=asha, stop_last_trials=False)


def _require_room(nodes: Sequence[Mapping[str, Any]], resources: Mapping[str, float]) -> None:
    """Raises UserError if no machine has the resources; Ray would wait for one forever."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    names = {"cpu": "CPU", "gpu": "GPU"}
    if not any(all(n.get(names[k], 0) >= v for k, v in resources.items()) for n in alive):
        requested = ", ".join(f"{value:g} {names[name]}" for name, value in resources.items())
        raise UserError(f"no machine of the Ray cluster has {requested} for a trial")


def _train(config: Mapping[str, int], trials: Sequence[Trial], home: str) -> None:
    """Trains one trial in a worker of the cluster and reports its validations to Tune."""
    from ray import tune

    os.chdir(home)
    trial = trials[config["number"]]
    reported = 0
    for _ in itertools.chain(run_trial(trial), [None]):
        lines = trial.workdir.validations()
        for line in lines[reported:]:
            score = comparable_score(line, trial.config.train.best_metric)
            tune.report({"step": line["step"], "score": score})
        reported = len(lines)
    if find(trial).state != "finished":
        raise RuntimeError(f"{trial.name}: see {trial.log}")
