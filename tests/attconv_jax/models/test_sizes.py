"""Numbers of parameters of the configs' systems, and refused sizes."""

import dataclasses
import itertools
import math
from pathlib import Path

import flax.linen as nn
import jax
import pytest

from attconv_jax.models.attentive_pooling import AttentivePooling
from attconv_jax.models.base import TABLES
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from attconv_jax.models.decomposable import Decomposable
from attconv_jax.models.paragraph_vector import ParagraphVector
from attconv_jax.models.recurrent_pooling import RecurrentPooling
from common_jax.errors import UserError
from common_jax.training.config import parse, task_class
from tests.attconv_jax.models.cases import SYSTEMS

CONFIGS = Path(__file__).parents[3] / "configs" / "attconv"


def dense(*sizes):
    """Layers from each size to the next, with biases."""
    return sum(a * b + b for a, b in itertools.pairwise(sizes))


def lstm(inputs, size):
    """Four gates, each with a matrix of words, one of states and a bias."""
    return 4 * (inputs * size + size * size + size)


def gru(inputs, size):
    """Three gates."""
    return 3 * lstm(inputs, size) // 4


# By hand, and as figures those of the papers or of their authors' code. Words have 300 dimensions;
# SNLI has two texts and three labels, Yelp one and five, and SQuAD-AnSS two and two.
D, SNLI, YELP, ANSS = 300, 3, 5, 2
REVIEW_CNN = dense(3 * D, 500) + dense(500, 500, 500) + dense(500 + 500 + 500, YELP)
LEVELS = dense(2 * D + 1 + 2 * (2 * 50 + 1), SNLI)  # both means and the cosine of each level
YIN = dense(4 * D, 50) + dense(4 * 50, 50) + LEVELS
YIN_WITH_CHANNEL = dense(8 * D, 50) + dense(8 * 50, 50) + 100 * D + 100 * 50 + LEVELS
BOWMAN = dense(D, 100) + lstm(100, 100)
BOTH_WAYS = 2 * lstm(D, 300)
GATED = 2 * 10 * 600 * 300  # a matrix for each row of each text
FILTERS = sum(dense(width * D, 100) for width in (3, 4, 5))
INTERNAL = FILTERS + 300 * 300 + 300
TO_STATES = 300 * 300 + D * 300 + 300 * 300 + 300  # W_h, W_x, W_s and v
TAPE = lstm(D, 300) + TO_STATES
FUSED = TAPE + TO_STATES + dense(D + 300, 300)
TREE = dense(D, 300) + dense(2 * 300, 300) + dense(3 * 300, 300) + dense(4 * 300, 200, SNLI)
BI_GRU = 4 * gru(D, 100) + 31 * 10 + dense(3 * 200 + 10, 100, ANSS)
TRIGRAMS = 30_001 * 3 * 300 + 300 + dense(300, 128) + 1  # a row of zeros, and the factor
MATCH = 2 * 150 * 75 + 300 * 300  # two projections of states and a gate of both
GRUS = 2 * (gru(D, 75) + gru(300, 75) + gru(300, 75))
RANK = GRUS + 2 * MATCH + 150 * 150 + 150 + dense(450, 75, 75) + dense(450 + 75 + 75, ANSS)

COUNTS = {
    **dict.fromkeys(("snli:cnn", "snli:abcnn"), 635_403),
    **dict.fromkeys(("snli:light", "snli:apcnn"), 725_403),
    "snli:advanced": 1_717_203,
    "snli:advanced_intra": 1_897_203,
    "snli:abcnn1": YIN_WITH_CHANNEL,
    "snli:abcnn2": YIN,
    "snli:abcnn3": YIN_WITH_CHANNEL,
    "snli:bi_lstm": 231_703,
    "snli:word_by_word": 251_303,
    "snli:match_lstm": 2_074_504,
    "snli:decomposable": 381_803,
    "snli:decomposable_intra": 582_203 + 22,  # a number for each distance, and one more
    "snli:self_attentive": BOTH_WAYS
    + (600 * 150 + 150 * 10)
    + GATED
    + dense(10 * 300, 512, 512, SNLI),
    "snli:lin_bilstm": BOTH_WAYS + dense(2 * 600, 512, 512, SNLI),
    "snli:lin_cnn": FILTERS + dense(2 * 300, 512, SNLI),
    "snli:multichannel_cnn": FILTERS + dense(2 * 300, SNLI),
    "snli:internal_attention": INTERNAL + dense(2 * 300, SNLI),
    "snli:nse": 3_395_899,
    "snli:lstmn": TAPE + FUSED + dense(600, 300, 300, SNLI),
    "snli:tree_cnn": TREE,
    "squad_anss:bi_gru": BI_GRU,
    "squad_anss:cdssm": TRIGRAMS,
    "squad_anss:sentence_rank": RANK,
    "squad_anss:wordc1": 0,
    "squad_anss:wordc2": 0,
    "yelp:cnn": REVIEW_CNN,
    "yelp:bi_lstm": BOWMAN + dense(100, 200, 200, 200, YELP),
    "yelp:self_attentive": BOTH_WAYS + (600 * 350 + 350 * 10) + dense(10 * 600, 512, YELP),
    "yelp:lin_bilstm": BOTH_WAYS + dense(600, 512, YELP),
    "yelp:lin_cnn": FILTERS + dense(300, 512, YELP),
    "yelp:multichannel_cnn": 361_805,
    "yelp:internal_attention": INTERNAL + dense(300, YELP),
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_of_the_papers_sizes(name):
    file, _, system = name.partition(":")
    config = parse(f"{CONFIGS / file}.py:{system}", [])
    params = nn.unbox(jax.eval_shape(task_class(config.task)(config).init, jax.random.key(0)))
    count = {
        part: sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(own))
        for part, own in params.items()
    }
    tables = [count.pop(table) for table in TABLES if table in count]
    assert tables == [config.words.rows * D] * (1 + (system == "multichannel_cnn"))
    assert sum(count.values()) == COUNTS[name]


KINDS = sorted({type(system.model) for system in SYSTEMS.values()}, key=lambda kind: kind.__name__)
MAY_BE_0 = {"most_distance", "hidden of ConvolutionPooling"}
WRONG = [
    *(
        (kind, {field.name: value})
        for kind in KINDS
        for field in dataclasses.fields(kind)
        if not {field.name, f"{field.name} of {kind.__name__}"} & MAY_BE_0
        for value in ((1.0, -0.1) if field.name == "dropout" else (0,) * (field.type is int))
    ),
    *(
        (ConvolutionPooling, {"widths": widths})
        for widths in ("3,x", "", "3,", "0,3", "-3", "2.5", "3,3")
    ),
    *((ParagraphVector, fields) for fields in ({"steps": 0}, {"rate": 0.0}, {"decay": -1.0})),
    (AttentivePooling, {"filter_width": 4}),
    (ConvolutionPooling, {"hidden": -1}),
    (Decomposable, {"most_distance": -1}),
    (RecurrentPooling, {"penalty": -1.0}),
]


@pytest.mark.parametrize(("kind", "fields"), WRONG)
def test_a_config_names_the_field_that_is_wrong(kind, fields):
    with pytest.raises(UserError, match=rf"^model\.{next(iter(fields))}\b"):
        kind(**fields)
