"""A stack of equal layers with stacked parameters."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import flax.linen as nn
import jax
from jaxtyping import Array, Float, Shaped

from common_jax.layers import DROPOUT
from common_jax.sharding import platform

Unroll = Literal["auto", True, False]


class Stack(nn.Module):
    """`length` equal layers; their parameters are one tree with leaves [L, ...], scanned over.

    The layers' masks are not in the tree: `spans` slices it, so that initialisation and checkpoints
    do not depend on how many layers attend locally.

    Attributes:
      layer: makes one layer, unbound.
      length: L.
      unroll: whether to unroll the loop over layers, which doubles the time of compilation and
        saves an accelerator a third to a half of its memory traffic, since a loop writes residuals
        of the backward pass into stacked arrays, as a loop over pairs of layers does. "auto": on
        accelerators.
      remat: whether to store only the layers' inputs for the backward pass and recompute the rest:
        less memory for a third more time (Chen et al. 2016).
      params_name: of the parameter tree.
    """

    layer: Callable[[], nn.Module]
    length: int
    unroll: Unroll = False
    remat: bool = False
    params_name: str = "layers"

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B T D"],
        spans: Sequence[tuple[int, tuple]],
        *,
        train: bool,
        stacked: tuple[Shaped[Array, "L ..."], ...] = (),
    ) -> Float[Array, "B T D"]:
        """Runs the layers, lowest first.

        Args:
          x: input of the lowest layer.
          spans: numbers of layers and their further inputs: ((3, (mask,)), ...); the numbers sum
            to `length`.
          train: whether dropout is on.
          stacked: inputs [L, ...]; layer i gets their slices i, after the inputs of its span.
        """
        # the layers' parameters and keys
        assert sum(count for count, _ in spans) == self.length, spans
        layer = self.layer()
        first = (*spans[0][1], *(a[0] for a in stacked))
        params = self._params(layer, x, first)
        if self.is_initializing():
            return x  # only shapes matter, and layers keep them
        keys = self._keys(train)

        # a layer
        def run(x: Array, scanned: Any, inputs: tuple) -> Array:
            params, key, slices = scanned
            rngs = None if key is None else {DROPOUT: key}
            return layer.apply({"params": params}, x, *inputs, *slices, train=train, rngs=rngs)

        unroll = unrolled(self.unroll)
        if self.remat:
            run = jax.checkpoint(run, prevent_cse=unroll)  # a loop is a barrier by itself

        # all layers, unrolled
        if unroll:
            layers = _unstack((params, keys, stacked), self.length)
            layer_inputs = [inputs for count, inputs in spans for _ in range(count)]
            for scanned, inputs in zip(layers, layer_inputs, strict=True):
                x = run(x, scanned, inputs)
            return x

        # or in a loop for each span
        def run_span(x: Array, start: int, count: int, inputs: tuple) -> Array:
            scanned = jax.tree.map(lambda a: a[start : start + count], (params, keys, stacked))
            return jax.lax.scan(lambda x, scanned: (run(x, scanned, inputs), None), x, scanned)[0]

        start = 0
        for count, inputs in spans:
            if count:
                x = run_span(x, start, count, inputs)
            start += count
        return x

    def start(self, method: str, *inputs: Any) -> tuple[list[Any], list[Any]]:
        """Each layer's parameters, and its method's result for the inputs; for `step`."""
        layer = self.layer()
        stacked = nn.unbox(self.get_variable("params", self.params_name))
        layers = _unstack(stacked, self.length)
        results = [layer.apply({"params": params}, *inputs, method=method) for params in layers]
        return layers, results

    def step(
        self,
        x: Array,
        caches: Sequence[Any],
        layers: Sequence[Any],
        results: Sequence[Any],
        *inputs: Any,
    ) -> tuple[Array, list[Any]]:
        """Runs each layer's `step(x, cache, result, *inputs)` with the parameters and results of
        `start`, unrolled over layers: slicing a stack would copy a layer's arrays every step."""
        layer = self.layer()
        new = []
        for cache, params, constants in zip(caches, layers, results, strict=True):
            x, cache = layer.apply({"params": params}, x, cache, constants, *inputs, method="step")
            new.append(cache)
        return x, new

    def inspect(self, method: str, x: Array, spans: Sequence[tuple[int, tuple]]) -> list[Any]:
        """The result of each layer's method for that layer's input, lowest first."""
        layer = self.layer()
        params = nn.unbox(self.get_variable("params", self.params_name))
        results: list[Any] = []
        for inputs in (inputs for count, inputs in spans for _ in range(count)):
            at = len(results)
            of_layer = {"params": jax.tree.map(lambda a, at=at: a[at], params)}
            results.append(layer.apply(of_layer, x, *inputs, method=method))
            x = layer.apply(of_layer, x, *inputs, train=False)
        return results

    def _params(self, layer: nn.Module, x: Array, inputs: tuple) -> Any:
        """The stacked parameters, initialized if there are none."""
        if not self.has_variable("params", self.params_name):
            return self.param(self.params_name, self._init, layer, x, inputs)
        # `self.param` would trace the layers' initialization to compare shapes, as each layer does
        params = nn.unbox(self.get_variable("params", self.params_name))
        assert {leaf.shape[0] for leaf in jax.tree.leaves(params)} <= {self.length}
        return params

    def _init(self, key: Array, layer: nn.Module, x: Array, inputs: tuple) -> Any:
        def init_layer(key: Array) -> Any:
            return layer.init(key, x, *inputs, train=False)["params"]

        params = jax.vmap(init_layer)(jax.random.split(key, self.length))
        return nn.meta.add_axis(params, 0, {nn.PARTITION_NAME: "layers"})

    def _keys(self, train: bool) -> Array | None:
        if not train or not self.has_rng(DROPOUT):
            return None
        return jax.random.split(self.make_rng(DROPOUT), self.length)


def unrolled(unroll: Unroll) -> bool:
    """Whether layers are unrolled; "auto" depends on the program's platform."""
    return platform() != "cpu" if unroll == "auto" else unroll


def _unstack(tree: Any, length: int) -> list[Any]:
    """The tree of each layer. The gradient of `split` is one concatenation; that of `a[i]` would be
    a sum of arrays with the size of the stack, each with one non-zero layer."""
    leaves, structure = jax.tree.flatten(tree)
    splits = [jax.lax.split(leaf, [1] * length) for leaf in leaves]
    return [structure.unflatten([split[layer][0] for split in splits]) for layer in range(length)]
