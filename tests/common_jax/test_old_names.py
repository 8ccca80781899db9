"""Former names of parameters in checkpoints of real states."""

import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.errors import UserError
from common_jax.old_names import current_names
from common_jax.training.checkpoint import Checkpoints
from common_jax.training.config import parse, task_class
from common_jax.training.mesh import make_mesh
from common_jax.training.run_folder import RunFolder
from common_jax.training.state import abstract_state
from tests.old_parameters import with_old_names

SIZES = {
    "csan": {"dim": 8, "mlp_dim": 8, "num_heads": 2},
    "qanet": {"dim": 8, "char_dim": 4},
    "attconv": {"dim": 8},
}
# Systems with different parameters; 9 convolutions have norms numbered up to 10.
SYSTEMS = {
    "csan": {"csan_2d": {}},
    "qanet": {
        "qanet": {"model.embedding_convs": 9, "model.model_convs": 1},
        "no_convolution": {},
        "no_attention": {},
        "ordinary_convolution": {},
    },
    "attconv": {
        "advanced_intra": {"model.layers": 2},
        "advanced": {
            **{"model.source": "phrase", "model.focus": "unigram"},
            **{"model.energy": "additive", "model.beneficiary": "multigranular"},
        },
        "cnn": {},
    },
}
CASES = [(family, system) for family, systems in SYSTEMS.items() for system in systems]


@functools.cache
def state_of(family, system, **changes):
    """The abstract state, and a state without two equal arrays."""
    values = {f"model.{name}": size for name, size in (SIZES[family] | changes).items()}
    values |= SYSTEMS[family][system] | {"train.ema_decay": 0.5, "mesh.data": 1}
    overrides = [f"--config.{key}={value}" for key, value in values.items()]
    config = parse(f"configs/{family}/quickstart.py:{system}", overrides)
    abstract = abstract_state(task_class(config.task)(config), make_mesh(config.mesh))
    numbers = itertools.count()
    filled = lambda a: jnp.full(a.shape, next(numbers), a.dtype, device=a.sharding)
    return abstract, jax.tree.map(filled, abstract)


def leaf_names(tree):
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]


@pytest.mark.parametrize(("family", "system"), CASES)
def test_each_old_name_has_one_of_today(family, system):
    state, _ = state_of(family, system)
    expected = leaf_names(state)
    old = with_old_names(family, jax.tree.unflatten(jax.tree.structure(state), expected))
    names = dict(zip(leaf_names(old), jax.tree.leaves(old), strict=True))
    assert len({*names} - {*expected}) >= 3 * len(state.params)
    assert current_names(names, expected) == names
    assert current_names(expected, expected) == {name: name for name in expected}
    assert not [name for name in expected if re.search("[A-Z]", name)]  # none is that of a class


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype and a.sharding == b.sharding
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("family", ["csan", "qanet", "attconv"])
def test_a_checkpoint_is_restored_by_its_old_names(family, tmp_path):
    abstract, state = state_of(family, next(iter(SYSTEMS[family])))
    checkpoints = Checkpoints(RunFolder(tmp_path), "loss")
    checkpoints.save(with_old_names(family, state), 3, (1, 2), {"loss": 1.0})
    checkpoints.close()
    for restored in (checkpoints.restore_newest(abstract), checkpoints.restore_best(abstract)):
        assert (restored.step, restored.position) == (3, (1, 2))
        same(restored.state, state)
    for part in ("params", "ema"):
        same(checkpoints.restore_part(3, part, abstract.params), getattr(state, part))

    (array, *_) = sorted((tmp_path / "checkpoints" / "3").rglob("d/*"))
    array.write_bytes(array.read_bytes()[::-1])
    with pytest.raises(UserError, match="not the bytes that were saved"):
        checkpoints.restore(3, abstract)


def test_old_names_of_another_model_are_refused(tmp_path):
    _, state = state_of("csan", "csan_2d")
    checkpoints = Checkpoints(RunFolder(tmp_path), "loss")
    checkpoints.save(with_old_names("csan", state), 3, (1, 2), {"loss": 1.0})
    checkpoints.close()
    wider, _ = state_of("csan", "csan_2d", mlp_dim=16)
    message = r"feed_forward/in/bias: float32 \[2, 8\], the model expects"
    with pytest.raises(UserError, match=message):
        checkpoints.restore_newest(wider)
