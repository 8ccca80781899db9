"""Dataclasses as pytree nodes: their children, also values of other types."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from common_jax.masks import Mask, padding
from common_jax.pytrees import pytree

VALID = jnp.array([[True, True, False]])


@pytree(static=("name",))
class Pair:
    first: jax.Array
    name: str
    second: jax.Array | None = None


def test_fields_are_children_by_name_and_static_ones_are_structure():
    pair = Pair(jnp.arange(2), "a", jnp.ones(3))
    leaves, _ = jax.tree_util.tree_flatten_with_path(pair)
    assert [(jax.tree_util.keystr(path), leaf.shape) for path, leaf in leaves] == [
        (".first", (2,)),
        (".second", (3,)),
    ]
    same = dataclasses.replace(pair, first=jnp.zeros(2))
    assert jax.tree.structure(pair) == jax.tree.structure(same)
    assert jax.tree.structure(pair) != jax.tree.structure(dataclasses.replace(pair, name="b"))
    doubled = jax.jit(lambda pair: jax.tree.map(lambda a: 2 * a, pair))(pair)
    assert doubled.name == "a" and doubled.second.tolist() == [2, 2, 2]


def test_types_hold_where_a_node_is_made_and_not_where_jax_makes_one():
    mask = padding(VALID)
    shapes = jax.tree.map(lambda a: a.shape, mask)
    assert isinstance(shapes, Mask) and shapes.key_segments == (1, 3)
    with pytest.raises(TypeCheckError, match="key_segments"):
        Mask(key_segments=(1, 3))


def test_shapes_are_checked():
    """`--jaxtyping-packages` of pyproject.toml: three dims where two are needed."""
    with pytest.raises(TypeCheckError, match="key_valid"):
        padding(VALID[None])
