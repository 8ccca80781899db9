"""Rows of a table, timed by programs that other processes have compiled."""

import itertools

import jax
import numpy as np

from common_jax.deploy.configs import parse, task_of
from common_jax.numerics import random_key
from common_jax.training.mesh import make_mesh
from common_jax.training.state import init_state
from common_jax.training.step import make_train_step
from launch.measure.rows import INFERENCE, TRAINING, RowSteps, TimedRows
from tests.launch.commands import toy_config


def test_the_process_that_times_compiles_nothing_again(tmp_path, compilation_cache, monkeypatch):
    """All programs are read from the cache, of each row: the state, steps, predictions."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # keeps all programs
    config = parse(toy_config(tmp_path), [f"--config.data.cache_dir={tmp_path}"])
    events = []
    read = RowSteps.compile

    def reading(row):
        jax.monitoring.register_event_listener(events.append)
        read(row)
        jax.monitoring.unregister_event_listener(events.append)

    monkeypatch.setattr(RowSteps, "compile", reading)
    rows = TimedRows({"first": config, "second": config}, 3, inference=True)
    asked = events.count("/jax/compilation_cache/compile_requests_use_cache")
    assert asked == events.count("/jax/compilation_cache/cache_hits") == 2 * 3
    assert all(rates.keys() == {TRAINING, INFERENCE} for rates in rows.round(1).values())


def test_a_round_takes_the_steps_of_training(tmp_path):
    """The parameters are those of one step a call, for the batches of each shape in turn."""
    config = parse(toy_config(tmp_path), [f"--config.data.cache_dir={tmp_path}"])
    row = RowSteps(config, 3, inference=False)
    row.compile()
    assert row.time().keys() == {TRAINING}
    task = task_of(config)
    mesh = make_mesh(config.mesh)
    step = make_train_step(task, mesh)
    state = init_state(task, mesh)
    for batch in itertools.chain.from_iterable(row.groups):
        state, _ = step(state, (batch,), random_key(config.train.seed))
    assert state.step == row.state.step == 3
    jax.tree.map(np.testing.assert_allclose, state.params, row.state.params)
