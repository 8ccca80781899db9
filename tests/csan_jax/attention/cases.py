"""The systems with small sizes, their oracles, and three sentences in two layouts."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from common_jax.masks import segments
from csan_jax.attention.base import AttentionSettings, EncoderAttention
from csan_jax.attention.block import Block
from csan_jax.attention.convolution import Convolutions
from csan_jax.attention.direction import Direction
from csan_jax.attention.localness import Localness
from csan_jax.attention.neighbor import Neighbor
from csan_jax.attention.relative import Relative
from tests import random_params
from tests.csan_jax.attention import numpy_reference

DIM, HEADS = 12, 4
SETTINGS = AttentionSettings(DIM, HEADS, 6, "pre", 0.0, 0.0, "auto", jnp.float32)
LENGTHS = (8, 1, 6)  # two blocks of four words, one word, one and a half blocks
ROW = 9
SENTENCES = [np.random.default_rng(n).normal(size=(n, DIM)).astype(np.float32) for n in LENGTHS]

ORACLES = {
    EncoderAttention: numpy_reference.plain,
    Direction: numpy_reference.direction,
    Neighbor: numpy_reference.neighbor,
    Localness: numpy_reference.localness,
    Relative: numpy_reference.relative,
    Convolutions: numpy_reference.convolutions,
    Block: numpy_reference.block,
}


@dataclasses.dataclass(frozen=True)
class System:
    """An encoder attention with sizes; the part of it with parameters of its own is tested."""

    choice: EncoderAttention
    settings: AttentionSettings = SETTINGS

    @property
    def has_weights(self):
        return not isinstance(self.choice, Convolutions)

    @property
    def module(self):
        part = self.choice.module if self.has_weights else self.choice.before
        return part(self.settings)

    def oracle(self, x, params):
        fields = dataclasses.asdict(self.choice)
        del fields["local_layers"]
        if isinstance(self.choice, Neighbor):
            del fields["sigma"]  # at initialisation
        if isinstance(self.choice, Convolutions):
            fields["norm"] = self.settings.norm
        return ORACLES[type(self.choice)](x, params, HEADS, **fields)

    @functools.cached_property
    def parameters(self):
        ids = jnp.ones((1, 2), bool)
        mask = segments(ids, ids)
        return random_params.parameters(self.module, jnp.ones((1, 2, DIM)), mask, train=False)

    def run(self, params, x, ids):
        return jax.tree.map(np.asarray, _run(self, params, x, ids))

    def gradients(self, params, x, ids, cotangent):
        """The output, and the gradients of sum(output * cotangent) with respect to parameters and
        x."""
        x, cotangent = (array.astype(self.settings.dtype) for array in (x, cotangent))
        return jax.tree.map(np.asarray, _gradients(self, params, x, ids, cotangent))


def apply(system, params, x, ids, **options):
    mask = segments(ids, ids) & system.choice.mask()
    return system.module.apply({"params": params}, x, mask, **options)


@functools.partial(jax.jit, static_argnums=0)
def _run(system, params, x, ids):
    weights = apply(system, params, x, ids, method="weights") if system.has_weights else None
    return apply(system, params, x, ids, train=False), weights


@functools.partial(jax.jit, static_argnums=0)
def _gradients(system, params, x, ids, cotangent):
    out, back = jax.vjp(lambda *inputs: apply(system, *inputs, ids, train=False), params, x)
    return out, back(cotangent)


PLAIN = System(EncoderAttention())
SYSTEMS = {
    "bi_direct": System(Direction()),
    "neighbor": System(Neighbor()),
    "neighbor_predicted": System(Localness(local_heads=3, centre="own")),
    "local_soft": System(Localness(local_heads=3)),
    "local_hard": System(Localness(local_heads=3, window="fixed", width=3.0)),
    "luong": System(Localness(local_heads=3, window="fixed", width=2.5, form="luong")),
    "rel_pos": System(Relative(distance=2)),
    "cnns": System(Convolutions(count=2, width=3)),
    "cnns_full": System(Convolutions(count=2, width=5, kind="ordinary")),
    "cnns_post": System(Convolutions(count=2, width=3), dataclasses.replace(SETTINGS, norm="post")),
    "block": System(Block(block=4)),
    "block_banded": System(Block(block=3), dataclasses.replace(SETTINGS, implementation="banded")),
}


DISTINCT = {  # the other systems are options of these
    name: system for name, system in SYSTEMS.items() if name not in ("cnns_post", "block_banded")
}


def padded(sentences=SENTENCES, row=ROW, *, garbage=100.0, seed=5):
    """One sentence in each row: x [B, T, D] and which positions are words; padding has large
    numbers."""
    x = np.random.default_rng(seed).normal(0, garbage, (len(sentences), row, DIM))
    x = x.astype(np.float32)
    valid = np.zeros(x.shape[:2], bool)
    for n, sentence in enumerate(sentences):
        x[n, : len(sentence)], valid[n, : len(sentence)] = sentence, True
    return x, valid


def padded_and_packed():
    """A row for each sentence and one with all of them: x [4, T, D], ids, and the row and the slice
    of each of the six."""
    rows = [[sentence] for sentence in SENTENCES] + [SENTENCES]
    x = np.random.default_rng(6).normal(0, 100.0, (4, sum(LENGTHS) + 2, DIM)).astype(np.float32)
    ids = np.zeros(x.shape[:2], np.int32)
    places = []
    for row, sentences in enumerate(rows):
        ends = np.cumsum([len(sentence) for sentence in sentences])
        for number, (sentence, end) in enumerate(zip(sentences, ends, strict=True), start=1):
            own = slice(end - len(sentence), end)
            x[row, own] = sentence
            ids[row, own] = number
            places.append((row, own))
    return x, ids, places


def constant(params, name, bias):
    """The parameters with which the layer `name` returns the same values for every input."""
    own = params[name]
    bias = np.broadcast_to(np.float32(bias), own["bias"].shape)
    return {**params, name: {"kernel": own["kernel"] * 0, "bias": bias}}
