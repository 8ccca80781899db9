"""Times the rows of a table by calls of many steps each, so that the host's speed does not count.

The programs of all rows are compiled at the same time, each row's in a process of its own, and come
from there by jax's compilation cache. Its folder also has what XLA chose for each product of a GPU,
so that rows share these choices.
"""

import contextlib
import functools
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Any

import jax
import jax.numpy as jnp

from common_jax.data.batches import Batch, stream
from common_jax.deploy.configs import task_of
from common_jax.numerics import random_key
from common_jax.training.malloc import keep_freed_memory
from common_jax.training.mesh import local_rows, make_mesh, put_batch
from common_jax.training.state import InitialState
from common_jax.training.step import make_predict_step, make_train_step
from launch.measure.step_meter import batch_shapes
from launch.measure.steps import ROUNDS, is_packed

TRAINING = "steps_per_second"
INFERENCE = "inference_batches_per_second"
Rates = dict[str, dict[str, float]]  # by the names of rows, then TRAINING and INFERENCE
CACHE = (
    "jax_compilation_cache_dir",
    "jax_compilation_cache_max_size",
    "jax_persistent_cache_min_compile_time_secs",
)


def measure_rounds(configs: Mapping[str, Any], steps: int, inference: bool) -> list[Rates]:
    """The rates of `ROUNDS` rounds.

    Args:
      configs: of the rows, by name.
      steps: number of steps timed in a round.
      inference: whether predictions are timed too, unless batches are packed.
    """
    rows = TimedRows(configs, steps, inference)
    return [rows.round(number) for number in range(ROUNDS)]


class TimedRows:
    """The compiled steps of several configs.

    Attributes:
      rows: by the names of the configs.
    """

    def __init__(self, configs: Mapping[str, Any], steps: int, inference: bool):
        """
        Args:
          steps, inference: as in `measure_rounds`.
        """
        keep_freed_memory()
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # GPUs are shared
        for config in configs.values():
            task_of(config).prepare()
        inference = inference and not any(map(is_packed, configs.values()))

        # Rows are traced here while other processes compile them; what one of these could not
        # compile is compiled here.
        jobs = {name: (config, steps, inference) for name, config in configs.items()}
        with _compilers(len(jobs)) as pool:
            compiled = [pool.submit(_compile, *job) for job in jobs.values()] if pool else []
            self.rows = {name: RowSteps(*job) for name, job in jobs.items()}
            wait(compiled)
        for row in self.rows.values():
            row.compile()
        self.round(0)

    def round(self, number: int) -> Rates:
        """The rates of the rows, timed in the random order of this number."""
        order = random.Random(number).sample([*self.rows], len(self.rows))
        rates = {name: self.rows[name].time() for name in order}
        return {name: rates[name] for name in self.rows}


class RowSteps:
    """The first steps of a config's training and the predictions for the same batches, traced: a
    program for each shape of batch, which computes all of this shape in one call.

    Attributes:
      groups: the batches of each shape, on the devices.
      state: after the steps of all rounds; None before `compile`.
    """

    def __init__(self, config: Any, steps: int, inference: bool):
        # The batches, in the order of training.
        task = task_of(config)
        task.prepare()
        mesh = make_mesh(config.mesh)
        batches = stream(
            task.train_batches().select_rows(local_rows(mesh, config.train.accumulate))
        )
        groups: dict[Any, list[Batch]] = {}
        for _, batch in itertools.islice(batches, steps):
            groups.setdefault(batch_shapes((batch,)), []).append(batch)
        self.groups = [tuple(put_batch(b, mesh) for b in group) for group in groups.values()]

        # The programs.
        self._steps = steps
        self._initial = InitialState(task, mesh)
        self._key = random_key(config.train.seed)
        abstract = self._initial.abstract
        train = make_train_step(task, mesh, abstract)
        self._training: list[Any] = [
            train.trace(abstract, g, self._key).lower() for g in self.groups
        ]
        predict = _all_predictions(make_predict_step(task, mesh, final=True))
        predicted = self.groups if inference else []
        self._inference: list[Any] = [predict.trace(abstract.params, g).lower() for g in predicted]
        self.state: Any = None

    def compile(self) -> None:
        """Compiles the programs, or reads them from jax's compilation cache; makes the state."""
        self._training = [lowered.compile() for lowered in self._training]
        self._inference = [lowered.compile() for lowered in self._inference]
        self.state = jax.block_until_ready(self._initial.make())

    def time(self) -> dict[str, float]:
        """Steps, and batches of inference, a second."""
        start = time.perf_counter()
        for program, group in zip(self._training, self.groups, strict=True):
            self.state, metrics = program(self.state, group, self._key)
        jax.block_until_ready(metrics)
        rates = {TRAINING: self._steps / (time.perf_counter() - start)}
        if not self._inference:
            return rates

        # The predictions.
        start = time.perf_counter()
        for program, group in zip(self._inference, self.groups, strict=True):
            jax.block_until_ready(program(self.state.params, group))
        return {**rates, INFERENCE: self._steps / (time.perf_counter() - start)}


def _all_predictions(predict: Callable[..., Any]) -> Any:
    """The predictions for several batches of one shape, jitted: (params, batches) -> outputs,
    [batches, ...] each."""

    def predict_all(params: Any, batches: Sequence[Batch]) -> dict[str, Any]:
        stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *batches)
        return jax.lax.map(functools.partial(predict, params), stacked)

    return jax.jit(predict_all)


@contextlib.contextmanager
def _compilers(rows: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes that compile into jax's compilation cache; None without one, and on a TPU, which
    a single process has."""
    settings = {name: getattr(jax.config, name) for name in CACHE}
    if not jax.config.jax_compilation_cache_dir or jax.default_backend() == "tpu":
        yield None
        return
    count = min(rows, os.cpu_count() or 1)
    with ProcessPoolExecutor(count, get_context("spawn"), _set, (settings,)) as pool:
        yield pool


def _set(settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)


def _compile(config: Any, steps: int, inference: bool) -> None:
    """Compiles a row's programs for the process that times them."""
    RowSteps(config, steps, inference).compile()
