"""The Transformer with CSAN: parameters and their initial spread, invariances, teacher forcing and
stepwise decoding; toy attentions, in one file each: the guarantees for comparison systems."""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from common_jax.errors import UserError
from common_jax.training.config import parse
from csan_jax.attention.area import Area
from csan_jax.config import ModelConfig
from csan_jax.model import Transformer
from csan_jax.task import Translation
from tests import random_params
from tests.systems.nearness import Nearness
from tests.systems.recent import Recent

SMALL = ModelConfig(
    dim=32,
    mlp_dim=48,
    num_heads=4,
    encoder_layers=3,
    decoder_layers=2,
    encoder_attention=Area(local_layers=2, token_window=3),
    source_vocab_size=20,
    target_vocab_size=23,
    attention_dropout=0.1,
    relu_dropout=0.1,
)
TOYS = {
    "encoder_attention": Nearness(local_layers=1, start=3.0),
    "decoder_attention": Recent(),
}
PIECES = np.ones((1, 2), np.int32)


@functools.cache
def build(dtype=jnp.float32, **changes):
    """A model, its parameters, and the compiled logits of sources and targets."""
    model = Transformer(dataclasses.replace(SMALL, **changes), dtype)
    params = random_params.parameters(model, PIECES, PIECES, train=False)
    params = {"params": jax.tree.map(jnp.asarray, params)}
    return model, params, jax.jit(lambda s, t: model.apply(params, s, t, train=False))


def batch(rows=3, source=7, target=6):
    random = np.random.default_rng(0)
    sources = random.integers(3, 20, (rows, source)).astype(np.int32)
    targets = random.integers(3, 23, (rows, target)).astype(np.int32)
    for row in range(rows):  # sentences of different lengths
        sources[row, source - row :] = 0
        targets[row, target - row :] = 0
    return sources, targets


NORM = 2 * 512
BODY = 88_022_528 - (24_004 + 2 * 30_851) * 512  # of Table 1's model, without its embeddings
SOURCE, TARGET, SHARED = 24_004 * 512, 30_851 * 512, 37_000 * 512


@pytest.mark.parametrize(
    ("changes", "total"),
    [
        ({"tie": "target", "encoder_attention": Area(head_edge="wrap")}, BODY + SOURCE + TARGET),
        ({"tie": "all"}, BODY + SHARED),
        ({"tie": "all", "norm": "post"}, BODY - 2 * NORM + SHARED),
    ],
)
def test_parameters_are_the_papers(changes, total):
    """`tests/csan_jax/test_configs.py` has Table 1's model and what the systems add."""
    sizes = (37_000, 37_000) if changes.get("tie") == "all" else (24_004, 30_851)
    config = ModelConfig(source_vocab_size=sizes[0], target_vocab_size=sizes[1], **changes)
    shapes = random_params.shapes(Transformer(config), PIECES, PIECES, train=False)
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == total


@pytest.mark.parametrize("other", [Area(2, head_window=1), Nearness(local_layers=0)])
def test_parameters_do_not_depend_on_which_layers_are_local(other):
    def init(attention):
        model = Transformer(dataclasses.replace(SMALL, encoder_attention=attention))
        init = jax.jit(functools.partial(model.init, train=False))
        return nn.unbox(init(jax.random.key(0), PIECES, PIECES))

    jax.tree.map(np.testing.assert_array_equal, init(Area(local_layers=0)), init(other))


def test_local_layers_see_their_window_and_no_further():
    model, params, _ = build(encoder_layers=2)
    weights = lambda source: model.apply(params, source, method="encoder_weights")
    assert [w.shape[3] for w in jax.eval_shape(weights, batch()[0])] == [3, 3]  # heads
    source = np.arange(3, 15, dtype=np.int32)[None]
    changed = source.copy()
    changed[0, 5] = 17
    encode = jax.jit(lambda s: model.apply(params, s, train=False, method="encode"))
    moved = np.abs(encode(source) - encode(changed)).max(axis=(0, 2)) > 0
    np.testing.assert_array_equal(np.flatnonzero(moved), np.arange(3, 8))


@pytest.mark.parametrize(
    ("changes", "hypotheses"),
    [({}, 1), ({"norm": "post"}, 1), ({"unroll": True}, 1), (TOYS, 1), (TOYS, 3)],
    ids=["pre", "post", "unrolled", "toys", "toys with hypotheses"],
)
def test_step_by_step_decoding_gives_the_logits_of_teacher_forcing(changes, hypotheses):
    """Every hypothesis continues itself, and all have the same pieces."""
    model, params, forward = build(**changes)
    sources, targets = batch()
    expected = forward(sources, targets)
    if changes == {"unroll": True}:  # the parameters are those of the loop over layers
        np.testing.assert_allclose(expected, build()[2](sources, targets), atol=2e-5)
    apply = functools.partial(model.apply, params)
    encode = lambda s: apply(s, train=False, method="encode")
    start = jax.jit(lambda s: apply(encode(s), s != 0, 6, hypotheses, method="start"))
    cache, *constants = start(sources)
    step = jax.jit(functools.partial(apply, method="step"))
    own = np.eye(hypotheses, dtype=bool)
    for now in range(6):
        past = np.repeat((np.arange(6) <= now)[:, None], hypotheses, 1)
        ancestry = (past[None] & own[:, None]).reshape(1, hypotheses, -1).repeat(3, 0)
        previous = targets[:, max(now - 1, 0), None].repeat(hypotheses, 1)
        logits, cache = step(cache, *constants, previous, jnp.int32(now), ancestry)
        want = np.repeat(expected[:, now, None], hypotheses, 1)
        np.testing.assert_allclose(logits, want, atol=2e-5)


def test_dropout_is_a_function_of_its_key():
    model, params, _ = build()
    texts = [*map(jnp.asarray, batch())]
    run = jax.jit(lambda key: model.apply(params, *texts, train=True, rngs={"dropout": key}))
    one, same, other = (run(jax.random.key(k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3


def test_layers_with_parameters_of_their_own_are_a_stack_of_their_own():
    _, params, _ = build(**TOYS)
    local, plain = (params["params"][name]["layers"] for name in ("encoder_local", "encoder"))
    assert local["self_attention"]["near"].shape == (1, 4)
    assert local["before"]["gate"].shape == (1, 32)
    kernels = (stack["feed_forward"]["in"]["kernel"].shape for stack in (local, plain))
    assert [*kernels] == [(1, 32, 48), (2, 32, 48)]
    assert "near" not in plain["self_attention"] and "before" not in plain
    _, params, _ = build(encoder_attention=Nearness(local_layers=3))
    assert params["params"]["encoder_local"]["layers"]["before"]["gate"].shape == (3, 32)
    assert "encoder" not in params["params"]


def test_the_bias_reaches_the_weights_of_its_layers_alone():
    model, params, _ = build(**TOYS)
    sources, _ = batch()
    look = jax.jit(lambda p, s: model.apply(p, s, method="encoder_weights"))
    before = look(params, sources)
    local = params["params"]["encoder_local"]["layers"]["self_attention"]
    changed = jax.tree.map(lambda a: a, params)
    changed["params"]["encoder_local"]["layers"]["self_attention"] = {
        **local,
        "near": local["near"] * 0 + 60,
    }
    lowest, *upper = look(changed, sources)
    real = np.asarray(sources != 0)
    own = np.eye(7) * real[:, :, None]
    want = np.broadcast_to(own[:, None, :, None], lowest.shape)
    np.testing.assert_allclose(lowest, want, atol=1e-6)
    assert np.abs(before[0] - want).max() > 0.01
    for weights in upper:
        np.testing.assert_allclose(weights.sum((3, 4)), real[:, None].repeat(4, 1), atol=1e-5)


def test_without_sinusoids_the_encoder_knows_no_order():
    model, params, _ = build(encoder_attention=Area(local_layers=0), sinusoids=False)
    encode = jax.jit(lambda source: model.apply(params, source, train=False, method="encode"))
    sources = batch(1)[0]
    order = np.array([2, 0, 3, 1, 6, 5, 4])
    moved, straight = encode(sources[:, order]), encode(sources)
    np.testing.assert_allclose(moved, straight[:, order], atol=1e-5)
    assert np.abs(np.diff(straight[0], axis=0)).max() > 0.1


@pytest.mark.parametrize(
    ("choice", "key"),
    [
        (Nearness(local_layers=4), "model.local_layers=4: 0 to encoder_layers=3"),
        (Nearness(start=-1.0, local_layers=1), "model.encoder_attention.start=-1.0"),
        (Area(1, head_window=9), "a window of 9 heads does not fit 4 heads"),
    ],
)
def test_a_choice_checks_itself_against_the_model(choice, key):
    with pytest.raises(UserError, match=key):
        dataclasses.replace(SMALL, encoder_attention=choice)


DIM, MLP = 64, 256

LIMITS = {  # of uniform distributions, by the end of the name
    "encoder/layers/self_attention/query/kernel": (6 / (DIM + 3 * DIM)) ** 0.5,
    "encoder/layers/self_attention/value/bias": (3 / (3 * DIM)) ** 0.5,
    "encoder/layers/self_attention/out/kernel": (6 / (2 * DIM)) ** 0.5,
    "decoder/layers/cross_attention/query/kernel": (6 / (2 * DIM)) ** 0.5,
    "decoder/layers/cross_attention/key/kernel": (6 / (3 * DIM)) ** 0.5,
    "decoder/layers/cross_attention/key/bias": (3 / (2 * DIM)) ** 0.5,
    "decoder/layers/feed_forward/in/kernel": (6 / (DIM + MLP)) ** 0.5,
    "decoder/layers/feed_forward/in/bias": (3 / MLP) ** 0.5,
    "source_bias": (3 / DIM) ** 0.5,
}


def test_the_released_ones_have_the_spread_of_the_formulas():
    fields = {"dim": DIM, "mlp_dim": MLP, "source_vocab_size": 30, "target_vocab_size": 30}
    fields |= {"encoder_layers": 1, "decoder_layers": 1, "unroll": False}
    flags = [f"--config.model.{key}={value}" for key, value in fields.items()]
    tasks = [
        Translation(
            parse("configs/csan/quickstart.py", [*flags, f"--config.model.initialization={which}"])
        )
        for which in ("glorot", "released")
    ]
    both = jax.jit(lambda key: [nn.unbox(task.init(key)) for task in tasks])(jax.random.key(0))
    ours, released = (traverse_util.flatten_dict(params, sep="/") for params in both)
    for name, limit in LIMITS.items():
        values = np.asarray(released[name])
        assert 0.95 * limit < np.abs(values).max() <= limit, name
        assert values.std() == pytest.approx(limit / 3**0.5, rel=0.15), name
    same = [name for name in ours if np.array_equal(ours[name], released[name])]
    assert {name for name in same if "norm" not in name and "kernel" not in name} == {
        "target_embedding"
    }
    assert np.array_equal(*(p["encoder/layers/feed_forward/in/kernel"] for p in (ours, released)))
    assert not ours["source_bias"].any()
