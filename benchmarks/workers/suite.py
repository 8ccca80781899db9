"""Worker of this suite; runs in the environment of the benchmark."""

import functools
import itertools
from collections.abc import Mapping
from typing import Any

from benchmarks.workers.timing import Batch, Work, count, read, work


def task_of(config: str, overrides: Mapping[str, Any]) -> Any:
    """The task of a config with overrides, its corpus prepared."""
    from common_jax.deploy.configs import parse, task_of

    parsed = parse(config, [f"--config.{name}={value}" for name, value in overrides.items()])
    task = task_of(parsed)
    task.prepare()
    return task


def trained(folder: str) -> tuple[Any, Any]:
    """The task of a run, and the parameters of its best checkpoint."""
    from common_jax.config import MeshConfig
    from common_jax.deploy.parameters import read_parameters
    from common_jax.training.config import read_task
    from common_jax.training.mesh import make_mesh
    from common_jax.training.run_folder import RunFolder

    run = RunFolder(folder)
    task = read_task(run)
    return task, read_parameters(run, task, make_mesh(MeshConfig(data=1))).values


def translation(job: dict[str, Any]) -> Work:
    """The search of `launch.predict` with a run's parameters; answers are piece ids."""
    import jax
    import numpy as np

    from common_jax.deploy.service import service_of
    from common_jax.io.threads import threaded_map
    from csan_jax.data.subwords import END

    task, params = trained(job["run"])
    task.decoding = {"length_penalty": job["length_penalty"]}
    service = service_of(task)
    serve = jax.jit(functools.partial(service.serve, beam_size=job["beam_size"]))

    def translated(batch: Batch) -> list[list[int]]:
        rows = np.asarray(serve(params, {"source": batch["source"]})["pieces"])
        return [
            list(itertools.takewhile(lambda piece: piece not in (0, END), row))
            for row in rows[batch["index"] >= 0].tolist()
        ]

    def in_parallel(batches: list[Batch]) -> list[list[int]]:
        answers = threaded_map(translated, batches, job["at_once"])
        return [*itertools.chain.from_iterable(answers)]

    batches = read(job["batches"])
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    if job.get("at_once", 1) > 1:
        return Work(in_parallel, [batches], count(batches), size)
    return Work(translated, batches, count(batches), size)


def make(job: dict[str, Any]) -> Work:
    """The training step, the predictions of the final evaluation, or translation."""
    if job["phase"] == "translate":
        return translation(job)
    import jax

    from common_jax.numerics import random_key
    from common_jax.training.malloc import keep_freed_memory
    from common_jax.training.mesh import make_mesh, put_batch
    from common_jax.training.state import InitialState
    from common_jax.training.step import make_predict_step, make_train_step

    keep_freed_memory()
    batches = read(job["batches"])
    units = count(batches, job.get("counted", ()))
    task = task_of(job["config"], job["overrides"])
    mesh = make_mesh(task.config.mesh)
    initial = InitialState(task, mesh)
    state = initial.make()
    size = sum(leaf.size for leaf in jax.tree.leaves(state.params))
    if job["phase"] == "answer":
        predict = make_predict_step(task, mesh, final=True)

        def answer(batch: Batch) -> None:
            jax.block_until_ready(predict(state.params, put_batch(batch, mesh)))

        return Work(answer, batches, units, size)
    step = make_train_step(task, mesh, initial.abstract)
    key = random_key(0)

    def train(batch: Batch) -> None:
        nonlocal state
        state, metrics = step(state, (put_batch(batch, mesh),), key)
        jax.block_until_ready(metrics)

    return Work(train, batches, units, size)


if __name__ == "__main__":
    work(make)
