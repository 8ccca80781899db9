"""Renames parameters to their former names, most of which flax had generated."""

import re
from collections.abc import Mapping

import jax

from common_jax.io.parameters import named_parameters, nested_parameters

# Patterns of today's names and the former ones; `_old` computes those with numbers.
_NAMES = {
    "csan": (
        ("/feed_forward/in/", "/inner/"),
        ("/feed_forward/out/", "/outer/"),
        ("/(self|cross)_attention_norm/", r"/\1_norm/"),
    ),
    "qanet": (
        ("^embedding/word_embedding$", "embedding/words"),
        ("^embedding/unknown_word_embedding$", "embedding/unknown"),
        ("^embedding/character_embedding$", "embedding/characters"),
        ("^embedding/character_convolution/kernel$", "embedding/Convolution_0/filters"),
        ("^embedding/character_convolution/bias$", "embedding/Convolution_0/bias"),
        ("^embedding/highway_0/gate/", "embedding/Dense_0/"),
        ("^embedding/highway_0/transform/", "embedding/Dense_1/"),
        ("^embedding/highway_1/gate/", "embedding/Dense_2/"),
        ("^embedding/highway_1/transform/", "embedding/Dense_3/"),
        ("^embedding_projection/", "project/"),
        ("^context_query_attention/", "attention/"),
        ("^context_query_projection/", "reduce/"),
        ("^(start|end)_pointer/", r"\1/"),
        ("/blocks/", "/Stack_0/layers/"),
        (r"/convolution_(\d+)_norm/", r"/LayerNorm_\1/"),
        (r"/convolution_(\d+)/depthwise_kernel$", r"/SeparableConvolution_\1/filters"),
        (r"/convolution_(\d+)/pointwise/", r"/SeparableConvolution_\1/Dense_0/"),
        (r"/convolution_(\d+)/kernel$", r"/Convolution_\1/filters"),
        (r"/convolution_(\d+)/bias$", r"/Convolution_\1/bias"),
        ("/self_attention/", "/MultiHeadAttention_0/"),
        ("/feed_forward/in/", "/Dense_0/"),
        ("/feed_forward/out/", "/Dense_1/"),
    ),
    "attconv": (
        ("^word_embedding$", "words"),
        ("^second_word_embedding$", "second_words"),
        ("^head/output/", "regression/"),
        ("^head/", ""),
        ("/unigram/", "/GatedConvolution_0/"),
        ("/transform/", "/change/"),
        ("/kernel$", "/filters"),
        ("^(.*(hidden|regression|context|energy).*)/filters$", r"\1/kernel"),
    ),
}


def with_old_names(family, tree):
    """A tree of parameters, or a state with several such trees, with the former names."""
    is_params = lambda node: isinstance(node, Mapping)
    rename = lambda node: _renamed(family, node) if is_params(node) else node
    return jax.tree.map(rename, tree, is_leaf=is_params)


def _renamed(family, params):
    parameters = named_parameters(params)
    return nested_parameters(
        {_old(family, name, parameters): leaf for name, leaf in parameters.items()}
    )


def _old(family, name, names):
    stem, last = name.rpartition("/")[::2]
    above = stem.rpartition("/")[0]
    if family == "qanet" and stem.endswith(("/self_attention_norm", "/feed_forward_norm")):
        has = lambda norm: f"{above}/{norm}/{last}" in names
        number = sum(has(f"convolution_{n}_norm") for n in range(20))
        number += stem.endswith("/feed_forward_norm") and has("self_attention_norm")
        name = f"{above}/LayerNorm_{number}/{last}"
    if "/phrase/" in name:
        alone = name.replace("/phrase/", "/unigram/") not in names
        name = name.replace("/phrase/", f"/GatedConvolution_{0 if alone else 1}/")
    for new, old in _NAMES[family]:
        name = re.sub(new, old, name)
    return name
