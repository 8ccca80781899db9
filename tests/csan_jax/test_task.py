"""The translation task: its loss, its equality on one device and eight, its text."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from common_jax.training.config import MeshConfig, OptimizerConfig, TrainConfig
from common_jax.training.mesh import make_mesh, put_batch
from common_jax.training.state import init_state, make_optimizer
from common_jax.training.step import make_train_step
from csan_jax.config import Config, DataConfig, ModelConfig
from csan_jax.task import Translation, _width, cross_entropy, to_text


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_cross_entropy_is_that_of_the_smoothed_distribution(smoothing):
    random = np.random.default_rng(0)
    logits = random.normal(size=(2, 3, 7)).astype(np.float32) * 3
    targets = random.integers(0, 7, (2, 3)).astype(np.int32)
    logp = logits - scipy.special.logsumexp(logits.astype(np.float64), axis=-1, keepdims=True)
    wanted = (1 - smoothing) * np.eye(7)[targets] + smoothing / 7
    loss, nll = cross_entropy(jnp.asarray(logits), jnp.asarray(targets), smoothing)
    np.testing.assert_allclose(loss, -(wanted * logp).sum(-1), rtol=1e-5)
    np.testing.assert_allclose(nll, -(np.eye(7)[targets] * logp).sum(-1), rtol=1e-5)


def test_the_gradient_of_cross_entropy_is_the_smoothed_losss():
    random = np.random.default_rng(1)
    logits = random.normal(size=(2, 3, 5))
    targets = random.integers(0, 5, (2, 3)).astype(np.int32)
    weights = random.normal(size=(2, 3))
    wanted = 0.8 * np.eye(5)[targets] + 0.2 / 5
    expected = weights[..., None] * (scipy.special.softmax(logits, axis=-1) - wanted)
    total = lambda x: (cross_entropy(x, targets, 0.2)[0] * weights.astype(np.float32)).sum()
    found = jax.grad(total)(jnp.asarray(logits, jnp.float32))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def tiny(**model) -> Config:
    sizes = {"dim": 32, "mlp_dim": 64, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 1}
    return Config(
        model=ModelConfig(
            **sizes, source_vocab_size=50, target_vocab_size=50, dropout=0.0, **model
        ),
        data=DataConfig(source="generated", examples=10),
        optimizer=OptimizerConfig(learning_rate=1e-3, schedule="constant", warmup_steps=0),
        train=TrainConfig(best_metric="sacrebleu"),
    )


def ten_steps(config: Config, devices: int):
    task, mesh = Translation(config), make_mesh(MeshConfig(data=devices))
    optimizer = make_optimizer(config.optimizer)
    state = init_state(task, optimizer, 0, mesh)
    step = make_train_step(task, optimizer, 0, mesh)
    random, found = np.random.default_rng(0), []
    for _ in range(10):
        # 61 rows, so that eight devices need filler; few words, so that the loss falls at once
        source = random.integers(3, 9, (61, 12)).astype(np.int32)
        source[:, 9:] *= random.integers(0, 2, (61, 1)).astype(np.int32)
        batch = {"index": np.arange(61, dtype=np.int32), "source": source, "target": source}
        state, metrics = step(state, put_batch(batch, mesh))
        found.append([float(metrics["loss"]), float(metrics["grad_norm"])])
    return np.array(found)


@pytest.mark.parametrize(
    "kind",
    [{"local_layers": 0}, {"local_layers": 1, "head_window": 1}, {"local_layers": 1}],
    ids=["vanilla", "1D", "2D"],
)
def test_eight_devices_equal_one(kind):
    config = tiny(**kind)
    one, eight = ten_steps(config, 1), ten_steps(config, 8)
    np.testing.assert_allclose(eight, one, rtol=1e-5)
    assert one[-1, 0] < 0.9 * one[0, 0]


def test_the_models_size_is_the_tokenisers_where_the_config_says_0():
    config = tiny(local_layers=1)
    config = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, source_vocab_size=0),
        data=dataclasses.replace(config.data, vocab_size=123),
    )
    shapes = jax.eval_shape(Translation(config).init, jax.random.key(0))
    assert shapes["source_embedding"].shape == (123, 32)
    assert shapes["target_embedding"].shape == (50, 32)


def test_text_ends_at_the_end_symbol_and_stays_one_line():
    class Letters:
        def decode(self, rows):
            return ["".join("\n" if i == 9 else chr(96 + i) for i in row) for row in rows]

    rows = np.array([[3, 4, 1, 5], [3, 9, 4, 0], [1, 3, 3, 3], [3, 4, 5, 6]])
    assert to_text(Letters(), rows) == ["cd", "c d", "", "cdef"]


def test_widths_hold_their_length_and_are_few():
    widths = [_width(n) for n in range(1, 1000)]
    assert all(w >= n for n, w in zip(range(1, 1000), widths, strict=True))
    assert all(w <= 1.5 * n + 8 for n, w in zip(range(1, 1000), widths, strict=True))
    assert sorted(set(widths))[:7] == [8, 12, 16, 24, 32, 48, 64]
