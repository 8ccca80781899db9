"""Frozen dataclasses that are pytrees of JAX."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, dataclass_transform

from jax import tree_util

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def pytree(*, static: Iterable[str] = ()) -> Callable[[type[T]], type[T]]:
    """Makes a class a frozen dataclass whose fields are the children of a pytree node.

    `__init__` takes arrays, which annotations can check. JAX unflattens nodes without it, as it
    stores other values in them (shapes, shardings, None, placeholders).

    Args:
      static: hashable fields that are part of the tree structure instead.
    """
    constant = tuple(static)

    def register(kind: type[T]) -> type[T]:
        # a dataclass, and the names of its children
        kind = dataclasses.dataclass(frozen=True)(kind)
        fields = (field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]
        names = tuple(name for name in fields if name not in constant)
        keys = tuple(map(tree_util.GetAttrKey, names))

        # a node to (children, static values), and back
        def values(node: T, names: tuple[str, ...]) -> tuple[Any, ...]:
            return tuple(getattr(node, name) for name in names)

        def flatten_with_keys(node: T) -> tuple[Any, Any]:
            return tuple(zip(keys, values(node, names), strict=True)), values(node, constant)

        def flatten(node: T) -> tuple[Any, Any]:
            return values(node, names), values(node, constant)

        def unflatten(structure: Any, children: Iterable[Any]) -> T:
            node = object.__new__(kind)
            field_values = itertools.chain(children, structure)
            for name, value in zip(names + constant, field_values, strict=True):
                object.__setattr__(node, name, value)
            return node

        tree_util.register_pytree_with_keys(kind, flatten_with_keys, unflatten, flatten)
        return kind

    return register
