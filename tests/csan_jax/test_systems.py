"""Toy attentions, in one file each, in the model: the guarantees for comparison systems."""

import dataclasses

import jax
import numpy as np
import pytest

from common_jax.errors import UserError
from csan_jax.attention.area import Area
from tests.csan_jax.test_model import SMALL, TOYS, batch, build
from tests.systems.nearness import Nearness


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
