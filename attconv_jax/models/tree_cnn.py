"""Tree-based CNN (Mou et al. 2016) on constituency trees.

The state of an inner node is tanh(W_l left + W_r right + b), that of a word a linear function of
its vector. The convolution is over a node and its children,

    y = tanh(W_p parent + W_l left + W_r right + b);

its maxima over all nodes are the text's features u. A ReLU layer over [u; v; u - v; u * v] follows,
with v those of the second text.

Mou et al. use dependency parses. Ours are the binary constituency parses in SNLI's JSON lines
("sentence1_binary_parse"); data without parses are refused. A parse is adapted to our tokenizer: if
several of our words are one of its leaves, they become a right-branching subtree.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32

from attconv_jax.layers import ReluLayers, matrix, max_pooled
from attconv_jax.models.base import PairModel, PairModule, Text, network_of
from common_jax.errors import UserError
from common_jax.fields import rate, size
from common_jax.inputs import Annotations, Input, WordInput
from common_jax.layers import Dense, Dropout
from common_jax.scopes import scope

Tree = Any  # a word's index, a pair of trees, or None for an empty tree
_ESCAPED = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
_QUOTES = str.maketrans({mark: '"' for mark in "`'“”‘’"})
# Spellings of the parser's tokenizer, which escapes "/" and "*" and writes ASCII only.
_SPELLINGS = {"\\/": "/", "\\*": "*", "…": "...", "–": "--", "—": "--", "£": "#"}


@dataclasses.dataclass(frozen=True)
class BinaryParse(WordInput):
    """The children of each inner node; children precede their parents.

    Row m has the numbers of both children of the m-th inner node: words are 1 to n, inner nodes
    n + 1 and so on. The last row is 0.
    """

    key: ClassVar[str] = "parse"

    @property
    def width(self) -> int:
        return 2

    def encode(
        self, words: Sequence[str], annotations: Annotations
    ) -> Int32[np.ndarray, "T {self.width}"]:
        if "binary_parse" not in annotations:
            raise UserError("no binary_parse, which tree_cnn needs: SNLI's JSON lines have it")

        # the number of a tree's root, after its inner nodes are listed
        children: list[tuple[int, int]] = []

        def number(tree: Tree) -> int:
            if isinstance(tree, tuple):
                left, right = map(number, tree)
                children.append((left, right))
                return len(words) + len(children)
            assert tree is not None
            return tree + 1

        try:
            number(tree_of_words(words, annotations["binary_parse"]))
        except RecursionError as error:
            raise UserError("a binary_parse that is too deep") from error
        return np.array([*children, (0, 0)], np.int32)


def tree_of_words(words: Sequence[str], parse: str) -> Tree:
    """The tree of a binary parse, such as "( ( A man ) sleeps )", over `words` instead of its
    leaves.

    Raises:
      UserError: for an invalid parse, or the parse of another text.
    """
    # the tree over leaves
    leaves: list[str] = []
    stack: list[list[Tree]] = [[]]
    for token in parse.lower().split():
        if token == "(":
            stack.append([])
        elif token == ")":
            _require(len(stack) > 1 and 1 <= len(stack[-1]) <= 2, parse)
            pair = stack.pop()
            stack[-1].append((pair[0], pair[1]) if len(pair) == 2 else pair[0])
        else:
            stack[-1].append(len(leaves))
            leaves.append(_ESCAPED.get(token, token))
    _require(len(stack) == 1 and len(stack[0]) == 1, parse)

    # the words that begin in each leaf
    plain = [[_plain(piece) for piece in pieces] for pieces in (words, leaves)]
    _require("".join(plain[0]) == "".join(plain[1]), parse)
    starts, ends = (np.cumsum([0, *map(len, pieces)]) for pieces in plain)
    inside = [
        [n for n, at in enumerate(starts[:-1]) if begin <= at < end]
        for begin, end in itertools.pairwise(ends)
    ]

    # the tree over words
    def cut(tree: Tree) -> Tree:
        """The tree over words; a word in several leaves belongs to the leaf in which it begins."""
        if not isinstance(tree, tuple):
            return _right_branching(inside[tree]) if tree is not None else None
        left, right = map(cut, tree)
        return right if left is None else left if right is None else (left, right)

    return cut(stack[0][0])


def _plain(word: str) -> str:
    """The spelling of a word or leaf for comparison."""
    if word in ("``", "''"):
        return '"'
    for spelling, other in _SPELLINGS.items():
        word = word.replace(spelling, other)
    return word.translate(_QUOTES)


def _right_branching(words: Sequence[int]) -> Tree:
    if len(words) < 2:
        return words[0] if words else None
    return words[0], _right_branching(words[1:])


def _require(right: bool, parse: str) -> None:
    if not right:
        raise UserError(f"the binary_parse is not one of this text: {parse!r}")


@dataclasses.dataclass(frozen=True)
class TreeCNN(PairModel):
    """A convolution over the trees of two texts.

    Attributes:
      dim: size of nodes and of the convolution.
      hidden: size of the ReLU layer.
      dropout: rate on words and on the input of the ReLU layer.
    """

    needs_pairs = True
    dim: int = size(300)
    hidden: int = size(200)
    dropout: float = rate(0.1)

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (BinaryParse(),)


@network_of(TreeCNN)
class TreeCNNModule(PairModule):
    """The network."""

    config: TreeCNN

    @nn.compact
    def __call__(self, texts: Sequence[Text], *, train: bool) -> Float[Array, "B labels"]:
        config = self.config
        dropout = Dropout(config.dropout)

        # u and v
        project = Dense(config.dim, ("embed", "mlp"), self.dtype, name="project")
        convolution = TreeConvolution(config.dim, name="tree")
        features = []
        with scope("recurrent"):
            for text in texts:
                words = project(dropout(text.words, train=train)).astype(jnp.float32)
                features.append(convolution(words, text.valid, text.inputs[BinaryParse.key]))

        # the ReLU layer
        with scope("head"):
            u, v = features
            joined = jnp.concatenate([u, v, u - v, u * v], -1)
            layers = ReluLayers((config.hidden,), config.dropout, self.dtype, name="hidden")
            return self._output(layers(joined, train=train))


class TreeConvolution(nn.Module):
    """The maxima of a convolution over the nodes of each text's tree."""

    size: int

    @nn.compact
    def __call__(
        self,
        words: Float[Array, "B T D"],
        valid: Bool[Array, "B T"],
        children: Int[Array, "B T 2"],
    ) -> Float[Array, "B H"]:
        length = words.shape[1]
        w = {
            name: matrix(self, name, self.size, self.size)
            for name in ("left", "right", "window_parent", "window_left", "window_right")
        }
        bias, window_bias = (
            jnp.asarray(self.param(name, nn.initializers.zeros, (self.size,)))[None]
            for name in ("bias", "window_bias")
        )

        # T words, T inner nodes and a node of zeros; the positions of each inner node's children
        count = valid.sum(1)[:, None, None]
        nodes = jnp.pad(jnp.where(valid[..., None], words, 0), ((0, 0), (0, length + 1), (0, 0)))
        positions = jnp.where(children <= count, children - 1, children - 1 - count + length)
        positions = jnp.where(children > 0, positions, 2 * length)

        # the states of the inner nodes, children first
        def step(nodes: Array, inputs: tuple[Array, Array]) -> tuple[Array, None]:
            number, pair = inputs
            both = _at(nodes, pair)
            new = jnp.tanh(both[:, 0] @ w["left"] + both[:, 1] @ w["right"] + bias)
            new = jnp.where(pair[:, :1] < 2 * length, new, 0)
            return jax.lax.dynamic_update_index_in_dim(nodes, new, length + number, 1), None

        steps = (jnp.arange(length), jnp.swapaxes(positions, 0, 1))
        nodes, _ = jax.lax.scan(step, nodes, steps)

        # the convolution over all nodes; words have no children
        none = jnp.full_like(positions, 2 * length)
        left, right = (
            _at(nodes, jnp.concatenate([none[..., side], positions[..., side]], 1))
            for side in (0, 1)
        )
        windows = nodes[:, :-1] @ w["window_parent"]
        windows = windows + left @ w["window_left"] + right @ w["window_right"]
        is_node = jnp.concatenate([valid, children[..., 0] > 0], 1)
        return max_pooled(jnp.tanh(windows + window_bias[None]), is_node)


def _at(nodes: Float[Array, "B N D"], positions: Int[Array, "B P"]) -> Float[Array, "B P D"]:
    return jnp.take_along_axis(nodes, positions[..., None], axis=1)
