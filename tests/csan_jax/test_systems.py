"""Toy attentions, in one file each, in the model: the guarantees for comparison systems."""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.errors import UserError
from csan_jax.attention.area import Area
from csan_jax.config import ModelConfig
from csan_jax.model import Transformer
from tests.systems.nearness import Nearness
from tests.systems.recent import Recent

SMALL = ModelConfig(
    dim=16,
    mlp_dim=16,
    num_heads=2,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention=Nearness(local_layers=1, start=3.0),
    decoder_attention=Recent(),
    source_vocab_size=12,
    target_vocab_size=12,
)
SOURCES = jnp.array([[3, 4, 5, 6, 1], [7, 8, 1, 0, 0]], jnp.int32)
TARGETS = jnp.array([[4, 3, 1, 0, 0], [6, 6, 7, 8, 1]], jnp.int32)


@functools.cache
def build(config=SMALL):
    model, pieces = Transformer(config), jnp.ones((1, 2), jnp.int32)
    init = jax.jit(lambda key: model.init(key, pieces, pieces, train=False))
    return model, nn.unbox(init(jax.random.key(0)))


def test_layers_with_parameters_of_their_own_are_a_stack_of_their_own():
    _, params = build()
    local, plain = (params["params"][name]["layers"] for name in ("encoder_local", "encoder"))
    assert local["self_attention"]["near"].shape == (1, 2)
    assert local["before"]["gate"].shape == (1, 16)
    assert (
        local["feed_forward"]["in"]["kernel"].shape
        == plain["feed_forward"]["in"]["kernel"].shape
        == (1, 16, 16)
    )
    assert "near" not in plain["self_attention"] and "before" not in plain
    _, all_local = build(dataclasses.replace(SMALL, encoder_attention=Nearness(local_layers=2)))
    assert all_local["params"]["encoder_local"]["layers"]["before"]["gate"].shape == (2, 16)
    assert "encoder" not in all_local["params"]
    none = dataclasses.replace(SMALL, encoder_attention=Nearness(local_layers=0))
    area = dataclasses.replace(SMALL, encoder_attention=Area(local_layers=2))
    jax.tree.map(np.testing.assert_array_equal, build(none)[1], build(area)[1])


def test_the_bias_reaches_the_weights_of_its_layers_alone():
    model, params = build()
    look = jax.jit(lambda p, s: model.apply(p, s, method="encoder_weights"))
    before = look(params, SOURCES)
    local = params["params"]["encoder_local"]["layers"]["self_attention"]
    local = {**local, "near": local["near"] * 0 + 60}
    changed = jax.tree.map(lambda a: a, params)
    changed["params"]["encoder_local"]["layers"]["self_attention"] = local
    lowest, upper = look(changed, SOURCES)
    real = np.asarray(SOURCES != 0)
    own = np.eye(5) * real[:, :, None]
    want = np.broadcast_to(own[:, None, :, None], lowest.shape)
    np.testing.assert_allclose(lowest, want, atol=1e-6)
    assert np.abs(before[0] - want).max() > 0.01
    np.testing.assert_allclose(upper.sum((3, 4)), real[:, None].repeat(2, 1), atol=1e-5)


def test_packed_rows_have_the_logits_of_single_sentences():
    model, params = build()
    apply = jax.jit(functools.partial(model.apply, train=False))
    single = apply(params, SOURCES, TARGETS)
    source, source_ids, target, target_ids = np.zeros((4, 1, 9), np.int32)
    for side, ids, rows in ((source, source_ids, SOURCES), (target, target_ids, TARGETS)):
        pieces = [(piece, n + 1) for n, row in enumerate(rows) for piece in row if piece]
        side[0, : len(pieces)], ids[0, : len(pieces)] = zip(*pieces, strict=True)
    packed = apply(params, *map(jnp.asarray, (source, target, source_ids, target_ids)))
    np.testing.assert_allclose(packed[0, :3], single[0, :3], atol=2e-5)
    np.testing.assert_allclose(packed[0, 3:8], single[1], atol=2e-5)


@pytest.mark.parametrize("hypotheses", [1, 3])
def test_steps_give_the_logits_of_teacher_forcing(hypotheses):
    """Every hypothesis continues itself, and all have the same pieces."""
    model, params = build()
    expected = jax.jit(functools.partial(model.apply, train=False))(params, SOURCES, TARGETS)
    apply = lambda method, *inputs, **options: model.apply(
        params, *inputs, method=method, **options
    )
    encode = lambda s: apply("encode", s, train=False)
    start = jax.jit(lambda s: apply("start", encode(s), s != 0, 5, hypotheses))
    cache, *constants = start(SOURCES)
    step = jax.jit(lambda *inputs: apply("step", *inputs))
    own = np.eye(hypotheses, dtype=bool)
    for now in range(5):
        past = np.repeat((np.arange(5) <= now)[:, None], hypotheses, 1)
        ancestry = (past[None] & own[:, None]).reshape(1, hypotheses, -1).repeat(2, 0)
        previous = TARGETS[:, max(now - 1, 0), None].repeat(hypotheses, 1)
        logits, cache = step(cache, *constants, previous, jnp.int32(now), ancestry)
        want = np.repeat(expected[:, now, None], hypotheses, 1)
        np.testing.assert_allclose(logits, want, atol=2e-5)


def test_gradients_reach_what_is_each_toys_own():
    model, params = build()
    apply = functools.partial(model.apply, train=False)
    weights = np.random.default_rng(0).standard_normal((2, 5, 12)).astype(np.float32)
    total = lambda params: (apply(params, SOURCES, TARGETS) * weights).sum()
    gradient = jax.jit(jax.grad(total))(params)["params"]
    local = gradient["encoder_local"]["layers"]
    for own in (
        *(local["self_attention"][name] for name in ("near", "middle")),
        local["before"]["gate"],
        gradient["decoder"]["layers"]["self_attention"]["slope"],
    ):
        assert np.isfinite(own).all() and np.abs(own).min() > 0


def test_without_sinusoids_the_encoder_knows_no_order():
    plain = dataclasses.replace(SMALL, encoder_attention=Area(local_layers=0), sinusoids=False)
    model, params = build(plain)
    encode = jax.jit(lambda source: model.apply(params, source, train=False, method="encode"))
    order = np.array([2, 0, 3, 1, 4])
    moved, straight = encode(SOURCES[:1, order]), encode(SOURCES[:1])
    np.testing.assert_allclose(moved, straight[:, order], atol=1e-5)
    assert np.abs(np.diff(straight[0], axis=0)).max() > 0.1


def test_a_choice_checks_itself_against_the_model():
    for choice, words in (
        (Nearness(local_layers=3), "model.local_layers=3: 0 to encoder_layers=2"),
        (Nearness(start=-1.0, local_layers=1), "model.encoder_attention.start=-1.0: not negative"),
        (Area(1, head_window=5), "a window of 5 heads does not fit 2 heads"),
    ):
        with pytest.raises(UserError, match=words):
            dataclasses.replace(SMALL, encoder_attention=choice)
