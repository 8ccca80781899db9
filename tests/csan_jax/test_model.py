"""The Transformer with CSAN: parameters, invariances, teacher forcing and stepwise decoding."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from csan_jax.attention.area import Area
from csan_jax.config import ModelConfig
from csan_jax.model import Transformer
from tests import random_params

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


AREA = {field.name for field in dataclasses.fields(Area)}


def model_of(**changes):
    area = {name: changes.pop(name) for name in AREA & changes.keys()}
    area = dataclasses.replace(SMALL.encoder_attention, **area)
    return Transformer(dataclasses.replace(SMALL, **{"encoder_attention": area, **changes}))


PIECES = np.ones((1, 2), np.int32)


@functools.cache
def build(**changes):
    model = model_of(**changes)
    params = random_params.parameters(model, PIECES, PIECES, train=False)
    return model, {"params": jax.tree.map(jnp.asarray, params)}


@functools.cache
def forward(**changes):
    """The compiled logits of `build(**changes)`, a function of sources and targets."""
    model, params = build(**changes)
    return jax.jit(lambda s, t: model.apply(params, s, t, train=False))


def count(config: ModelConfig) -> int:
    shapes = random_params.shapes(Transformer(config), PIECES, PIECES, train=False)
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def batch(seed=0, rows=3, source=7, target=6):
    random = np.random.default_rng(seed)
    sources = random.integers(3, 20, (rows, source)).astype(np.int32)
    targets = random.integers(3, 23, (rows, target)).astype(np.int32)
    for row in range(rows):  # sentences of different lengths
        sources[row, source - row :] = 0
        targets[row, target - row :] = 0
    return sources, targets


# By hand, from the notes to Table 1: with d = 512 and an inner width of 2048,
ATTENTION = 4 * (512 * 512 + 512)
FEED_FORWARD = 512 * 2048 + 2048 + 2048 * 512 + 512
NORM = 2 * 512
ENCODER_LAYER = ATTENTION + FEED_FORWARD + 2 * NORM
DECODER_LAYER = 2 * ATTENTION + FEED_FORWARD + 3 * NORM
BODY = 6 * ENCODER_LAYER + 6 * DECODER_LAYER + 2 * NORM + 512
SOURCE, TARGET = 24_004 * 512, 30_851 * 512


@pytest.mark.parametrize(
    "tie,total,kind",
    [
        ("none", BODY + SOURCE + 2 * TARGET, {"local_layers": 0}),
        ("none", BODY + SOURCE + 2 * TARGET, {"head_window": 1}),
        ("none", BODY + SOURCE + 2 * TARGET, {"head_window": 3}),
        ("target", BODY + SOURCE + TARGET, {"head_edge": "wrap"}),
    ],
)
def test_parameters_are_the_papers_and_csan_adds_none(tie, total, kind):
    config = ModelConfig(
        source_vocab_size=24_004, target_vocab_size=30_851, tie=tie, encoder_attention=Area(**kind)
    )
    assert count(config) == total
    if tie == "none":
        assert total == 88_022_528


def test_parameters_of_a_shared_vocabulary_and_of_post_norm():
    shared = {"source_vocab_size": 37_000, "target_vocab_size": 37_000}
    assert count(ModelConfig(tie="all", **shared)) == BODY + 37_000 * 512
    assert count(ModelConfig(tie="all", norm="post", **shared)) == BODY - 2 * NORM + 37_000 * 512


def test_parameters_do_not_depend_on_which_layers_are_local():
    def init(**changes):
        init = jax.jit(functools.partial(model_of(**changes).init, train=False))
        return init(jax.random.key(0), PIECES, PIECES)

    vanilla, local = init(local_layers=0), init(local_layers=2, head_window=1)
    jax.tree.map(np.testing.assert_array_equal, vanilla, local)


@pytest.mark.parametrize("changes", [{}, {"norm": "post"}])
def test_padding_and_order_change_nothing(changes):
    """Two layers are local, over areas of heads; the third attends to the sentence."""
    apply = forward(**changes)
    sources, targets = batch()
    logits = apply(sources, targets)
    order = np.array([2, 0, 1])
    wider = apply(
        np.pad(sources[order], [(0, 1), (0, 5)]), np.pad(targets[order], [(0, 1), (0, 4)])
    )
    valid = targets[order] != 0
    np.testing.assert_allclose(
        np.asarray(wider)[:3, :6][valid], np.asarray(logits)[order][valid], atol=2e-5
    )


@pytest.mark.parametrize("position", [0, 3, 5])
def test_no_position_sees_itself_or_what_follows(position):
    sources, targets = batch()
    changed = targets.copy()
    changed[:, position:] = (changed[:, position:] + 7) % 20 + 3
    before, after = forward()(sources, targets), forward()(sources, changed)
    np.testing.assert_array_equal(before[:, : position + 1], after[:, : position + 1])
    if position < 5:
        assert np.abs(before[:, position + 1] - after[:, position + 1]).max() > 1e-3


def test_local_layers_see_their_window_and_no_further():
    model, params = build(encoder_layers=2, local_layers=2, token_window=3)
    source = np.arange(3, 15, dtype=np.int32)[None]
    changed = source.copy()
    changed[0, 5] = 17
    encode = jax.jit(lambda s: model.apply(params, s, train=False, method="encode"))
    moved = np.abs(encode(source) - encode(changed)).max(axis=(0, 2)) > 0
    np.testing.assert_array_equal(np.flatnonzero(moved), np.arange(3, 8))


@pytest.mark.parametrize("changes", [{}, {"norm": "post"}, {"unroll": True}])
def test_step_by_step_decoding_gives_the_logits_of_teacher_forcing(changes):
    model, params = build(**changes)
    sources, targets = batch()
    expected = forward(**changes)(sources, targets)
    if changes == {"unroll": True}:  # the parameters are those of the loop over layers
        np.testing.assert_allclose(expected, forward()(sources, targets), atol=2e-5)
    apply = lambda method, *inputs, **options: model.apply(
        params, *inputs, method=method, **options
    )
    start = jax.jit(lambda s: apply("start", apply("encode", s, train=False), s != 0, 6, 1))
    cache, *constants = start(sources)
    step = jax.jit(lambda *inputs: apply("step", *inputs))
    for now in range(6):
        own = jnp.broadcast_to(jnp.arange(6) <= now, (3, 1, 6))
        previous = targets[:, max(now - 1, 0), None]
        logits, cache = step(cache, *constants, previous, jnp.int32(now), own)
        np.testing.assert_allclose(logits[:, 0], expected[:, now], atol=2e-5)


def test_encoder_weights_are_distributions_over_their_areas():
    model, params = build()
    sources, _ = batch()
    weights = jax.jit(lambda s: model.apply(params, s, method="encoder_weights"))(sources)
    assert [w.shape[3] for w in weights] == [3, 3, 1]
    for layer, w in enumerate(weights):
        total = np.asarray(w).sum(axis=(3, 4))  # [B, H, T]
        np.testing.assert_allclose(
            total, np.broadcast_to((sources != 0)[:, None], total.shape), atol=1e-5
        )
        far = np.abs(np.subtract.outer(np.arange(7), np.arange(7))) > 1
        assert (np.asarray(w)[..., far.nonzero()[0], :, far.nonzero()[1]] > 0).any() == (layer == 2)


def test_dropout_is_a_function_of_its_key_and_off_outside_training():
    model, params = build()
    sources, targets = batch()
    run = jax.jit(
        lambda key: model.apply(
            params, *map(jnp.asarray, (sources, targets)), train=True, rngs={"dropout": key}
        )
    )
    one, same, other = (run(jax.random.key(k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3


def test_bfloat16_computes_close_to_float32_with_float32_logits_and_parameters():
    model, params = build()
    sources, targets = batch()
    exact = forward()(sources, targets)
    low = Transformer(model.config, jnp.bfloat16)
    low = jax.jit(functools.partial(low.apply, train=False))(params, sources, targets)
    assert low.dtype == jnp.float32
    valid = targets != 0
    error = np.abs(np.asarray(low) - np.asarray(exact))[valid].max()
    assert 0 < error < 0.1 * np.abs(np.asarray(exact)[valid]).max()
