"""Worker of this suite; it runs in its own environment as the others do in theirs."""

from collections.abc import Mapping
from typing import Any

from benchmarks.workers.timing import Batch, Work, count, read, work


def task_of(config: str, overrides: Mapping[str, Any]) -> Any:
    """The task of a config with some fields changed, prepared."""
    from common_jax.training.config import parse, task_class

    parsed = parse(config, [f"--config.{name}={value}" for name, value in overrides.items()])
    task = task_class(parsed.task)(parsed)
    task.prepare()
    return task


def make(job: dict[str, Any]) -> Work:
    """The training step of `launch.train`, or the final evaluation's predictions."""
    import jax

    from common_jax.training.memory import keep_freed_memory
    from common_jax.training.mesh import make_mesh, put_batch
    from common_jax.training.state import abstract_state, init_state
    from common_jax.training.step import make_predict_step, make_train_step

    keep_freed_memory()
    batches = read(job["batches"])
    units = count(batches, job.get("counted", ()))
    task = task_of(job["config"], job["overrides"])
    mesh = make_mesh(task.config.mesh)
    abstract = abstract_state(task, mesh)
    state = init_state(task, mesh, abstract)
    size = sum(leaf.size for leaf in jax.tree.leaves(state.params))
    if job["phase"] == "answer":
        predict = make_predict_step(task, mesh, final=True)

        def answer(batch: Batch) -> None:
            jax.block_until_ready(predict(state.params, put_batch(batch, mesh)))

        return Work(answer, batches, units, size)
    step, key = make_train_step(task, mesh, abstract), jax.random.key(0)

    def train(batch: Batch) -> None:
        nonlocal state
        state, metrics = step(state, (put_batch(batch, mesh),), key)
        jax.block_until_ready(metrics)

    return Work(train, batches, units, size)


if __name__ == "__main__":
    work(make)
