"""Times training steps and predictions of configs, in turn."""

import argparse
import collections
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from common_jax.config import TrainConfig
from common_jax.data.batches import stream
from common_jax.deploy.configs import task_of
from common_jax.errors import UserError
from common_jax.numerics import random_key
from common_jax.scopes import scope_of
from common_jax.training.malloc import keep_freed_memory
from common_jax.training.mesh import local_rows, make_mesh, put_batch
from common_jax.training.state import InitialState
from common_jax.training.step import make_predict_step, make_train_step
from launch.measure.flops import count_flops
from launch.measure.host_memory import host_peak_memory
from launch.measure.step_meter import batch_shapes, peak_flops, peak_memory

ROUNDS = 5  # of timing, for several systems
NEVER = 2**40  # steps


def timed(configs: Mapping[str, Any], args: argparse.Namespace) -> dict[str, "StepTimer"]:
    """Times configs in turn, by the names of their columns, after compiling several at a time.

    A config named "" has a column for each number of steps a call, 1 and `train.steps_per_call`,
    which are timed once.
    """
    keep_freed_memory()
    columns = {}
    with _compilers() as pool:
        for name, config in configs.items():
            task = task_of(config)
            task.prepare()
            calls = {config.train.steps_per_call} if name else {1, config.train.steps_per_call}
            for per_call in sorted(calls):
                column = name or f"{per_call} a call"
                columns[column] = pool.submit(StepTimer, task, per_call, args)

    # rounds, each in an order of its own
    timers = {name: compiled.result() for name, compiled in columns.items()}
    order = list(timers.values())
    for timer in order:
        timer.warm_up()
    for number in range(1 if "" in configs else ROUNDS):
        random.Random(number).shuffle(order)
        for timer in order:
            timer.time()
    return timers


class StepTimer:
    """Times the training step of a task with one number of steps a call.

    Attributes:
      values: the results, by name.
      rounds: the rates of each round.
    """

    def __init__(self, task: Any, per_call: int, args: argparse.Namespace):
        self.task = task
        self.mesh = make_mesh(task.config.mesh)
        self.per_call = per_call
        initial = InitialState(task, self.mesh)
        self.state = initial.make()
        self.key = random_key(task.config.train.seed)
        self.step = make_train_step(task, self.mesh, initial.abstract)
        self.predict_step: Any = make_predict_step(task, self.mesh, final=True)
        self._groups: dict[Any, list[Any]] = {}  # the first call's batches of each shape
        self.flops: dict[Any, float] = {}
        self.values: dict[str, float | None] = {}
        self.rounds: list[dict[str, float]] = []
        self._args = args
        self._compile()

    def finish(self, first: Self | None) -> None:
        """Computes the medians of the rounds, and measures what needs no rounds.

        Args:
          first: the timer whose speed is compared with this one's, round by round.
        """
        for name in self.rounds[0]:
            self.values[name] = statistics.median(values[name] for values in self.rounds)
        flops = self.values["gflop_per_second"] or 0.0
        peak = self._peak()
        self.values["flop_utilisation"] = 1e9 * flops / peak if peak else None
        if first is not None:
            rates = zip(self.rounds, first.rounds, strict=True)
            ratios = (
                current["steps_per_second"] / reference["steps_per_second"]
                for current, reference in rates
            )
            self.values["speed_to_first"] = statistics.median(ratios)
        self._save()
        if self._args.parts or self._args.profile:
            self._trace()

    def _calls(self) -> Iterator[list[Any]]:
        """The batches of each call of a round, as in training without validations, saves and
        logging; at least `steps` batches."""
        from common_jax.data.batches import group_steps

        config = TrainConfig(
            steps_per_call=self.per_call,
            steps=NEVER,
            evaluate_every=NEVER,
            checkpoint_every=NEVER,
            log_every=NEVER,
        )
        rows = local_rows(self.mesh, self.task.config.train.accumulate)
        batches = stream(self.task.train_batches().select_rows(rows))
        taken = 0
        for _, group in group_steps(batches, 0, config):
            yield group
            taken += len(group)
            if taken >= self._args.steps:
                return

    def _place(self, group: list[Any]) -> tuple[Any, ...]:
        return tuple(put_batch(batch, self.mesh) for batch in group)

    def _compile(self) -> None:
        """Compiles the programs of all shapes in the steps to time."""
        for group in self._calls():
            self._groups.setdefault(batch_shapes(group), group)

        # steps of training, and predictions if they are timed
        with _compilers() as pool:
            start = time.perf_counter()
            compiled = {}
            for shapes, group in self._groups.items():
                traced = self.step.trace(self.state, self._place(group), self.key)
                self.flops[shapes] = count_flops(traced.jaxpr)
                compiled[shapes] = pool.submit(traced.lower().compile)
            self.programs = {shapes: future.result() for shapes, future in compiled.items()}
            seconds = time.perf_counter() - start
        self.values |= {"shapes": len(self.programs), "compile_seconds": seconds}
        temporary = [p.memory_analysis().temp_size_in_bytes for p in self.programs.values()]
        self.values["temporary_mib"] = max(temporary) / 2**20

    def warm_up(self) -> None:
        """Runs each program once; those of predictions are compiled then."""
        for shapes, group in self._groups.items():
            program = self.programs[shapes]
            self.state, metrics = program(self.state, self._place(group), self.key)
            jax.block_until_ready(metrics)
            for batch in group if self._args.inference else ():
                self._predict(put_batch(batch, self.mesh))

    def _predict(self, batch: Any) -> None:
        jax.block_until_ready(self.predict_step(self.state.params, batch))

    def time(self) -> None:
        """Times one round of steps."""
        steps = self._args.steps
        calls = self._calls()
        start = time.perf_counter()
        waited = 0.0
        taken = 0
        flops = 0.0
        previous = None
        sizes = []

        while taken < steps:
            before_data = time.perf_counter()
            group = next(calls)
            placed = self._place(group)
            waited += time.perf_counter() - before_data
            shapes = batch_shapes(placed)
            self.state, metrics = self.programs[shapes](self.state, placed, self.key)
            jax.block_until_ready(previous)  # as in training: one call ahead
            previous = metrics
            taken = taken + len(group)
            flops = flops + self.flops[shapes]
            sizes += [self.task.count_units(batch) for batch in group]
        jax.block_until_ready(previous)

        # rates of the round
        seconds = time.perf_counter() - start
        real, positions = np.sum(sizes, axis=0)
        values = {
            "steps_per_second": taken / seconds,
            f"{self.task.unit}_per_second": real / seconds,
            "padding_fraction": 1 - real / positions,
            "waiting_for_data_share": waited / seconds,
            "gflop_per_second": flops / seconds / 1e9,
        }
        self.rounds.append(values | (self._infer() if self._args.inference else {}))

    def _peak(self) -> float | None:
        """Floating-point operations a second of all devices at their peak; None if unknown.

        On a CPU: of a large matrix product, measured now.
        """
        device = jax.devices()[0]
        dtype = self.task.config.train.compute_dtype
        if device.platform != "cpu":
            return peak_flops(self.mesh, dtype)
        size = 2048
        repeats = 5
        a = jnp.ones((size, size), dtype)
        product = jax.jit(lambda a: a @ a)
        jax.block_until_ready(product(a))
        start = time.perf_counter()
        for _ in range(repeats):
            jax.block_until_ready(product(a))
        return 2 * size**3 * repeats / (time.perf_counter() - start)

    def _save(self) -> None:
        """Measures a save, and the peak memory."""
        from common_jax.training.checkpoint import Checkpoints
        from common_jax.training.run_folder import RunFolder

        with tempfile.TemporaryDirectory() as folder:
            checkpoints = Checkpoints(RunFolder(folder), "loss")
            start = time.perf_counter()
            checkpoints.save(self.state, 1, (0, 0), None)
            blocked = time.perf_counter() - start
            checkpoints.wait()
            self.values |= {
                "saving_blocks_seconds": blocked,
                "saving_seconds": time.perf_counter() - start,
            }
            checkpoints.close()
        self.values["peak_memory_mib"] = (peak_memory() or host_peak_memory()) / 2**20

    def _infer(self) -> dict[str, float]:
        """The rates of predictions for the same batches."""
        batches = [batch for group in self._calls() for batch in group]
        inputs = [put_batch(batch, self.mesh) for batch in batches]
        start = time.perf_counter()
        for batch in inputs:
            self._predict(batch)
        seconds = time.perf_counter() - start
        real = sum(float(self.task.count_units(batch)[0]) for batch in batches)
        return {
            "inference_batches_per_second": len(inputs) / seconds,
            f"inference_{self.task.unit}_per_second": real / seconds,
        }

    def _trace(self) -> None:
        """Traces three calls, for `--profile` and `--parts`."""
        group = self._place(next(self._calls()))
        program = self.programs[batch_shapes(group)]
        with tempfile.TemporaryDirectory() as folder:
            folder = self._args.profile or folder
            try:
                with jax.profiler.trace(str(folder)):
                    for _ in range(3):
                        self.state, metrics = program(self.state, group, self.key)
                    jax.block_until_ready(metrics)
            except OSError as error:
                raise UserError(f"--profile {folder}: {error.strerror}") from error
            if self._args.parts:
                newest = max(Path(folder).rglob("*.xplane.pb"), key=lambda p: p.stat().st_mtime)
                for name, share in parts(newest, program.as_text()).items():
                    self.values[f"part: {name}"] = share


def parts(trace: Path, program: str) -> dict[str, float]:
    """The share of each part of a compiled program in the devices' busy time, largest first.

    Args:
      trace: an `.xplane.pb` of `jax.profiler.trace`.
      program: the text of the compiled program, with the names of the trace's operations.
    """
    lines = re.findall(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)", program, re.MULTILINE)
    scopes = {}
    for operation, text in lines:
        name = re.search(r'op_name="([^"]*)"', text)
        scopes[operation] = scope_of(name[1]) if name else "other"
    busy: collections.Counter[str] = collections.Counter()
    for plane in jax.profiler.ProfileData.from_file(str(trace)).planes:
        for line in plane.lines:
            for event in line.events:
                if event.name in scopes:
                    busy[scopes[event.name]] += event.duration_ns
    total = sum(busy.values()) or 1.0
    return {name: time / total for name, time in busy.most_common()}


def is_packed(config: Any) -> bool:
    """Whether a row of a training batch has several texts, which a prediction would join."""
    return getattr(config.data, "batching", "") == "packed"


def _compilers() -> ThreadPoolExecutor:
    """Threads for compilations; XLA compiles with several threads itself."""
    return ThreadPoolExecutor(max((os.cpu_count() or 1) // 2, 1))
