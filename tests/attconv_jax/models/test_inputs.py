"""The comparison systems' inputs beside word vectors."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.models.cdssm import CDSSM, LetterTrigrams
from attconv_jax.models.tree_cnn import BinaryParse
from attconv_jax.models.word_count import WordCount, WordCounts
from common_jax.errors import UserError
from tests.attconv_jax.models.cases import VOCABULARY
from tests.attconv_jax.models.numpy_reference import distinct_words, trigrams


@pytest.mark.parametrize("word", VOCABULARY)
@pytest.mark.parametrize("rows", [7, 30_000])
def test_trigrams_are_counted_as_often_as_they_are_in_the_word(word, rows):
    array = LetterTrigrams(rows).encode(["x", word], {})
    assert array.shape == (2, 16)
    counts = np.bincount(array[1], minlength=rows + 1)
    counts[0] = 0
    np.testing.assert_array_equal(counts, trigrams(word, rows))


def test_equal_trigrams_have_equal_numbers():
    cat, cats, aaaa = LetterTrigrams().encode(["cat", "cats", "aaaa"], {})
    assert (cat > 0).sum() == 3 and (cats > 0).sum() == 4  # #ca cat at#; #ca cat ats ts#
    assert len({*cat.tolist()} & {*cats.tolist()} - {0}) == 2
    assert len({*aaaa.tolist()} - {0}) == 3  # #aa aaa aaa aa#


TEXTS_OF_TWO_WORDS = [
    [*words] for n in (1, 2, 3) for words in itertools.product("ab", repeat=n)
] + [["c"], ["c", "a"]]


def test_equal_words_of_a_text_are_counted_once():
    for texts in itertools.product(TEXTS_OF_TWO_WORDS, repeat=2):
        assert WordCounts().encode(texts, []).tolist() == [*distinct_words(*texts)]


def flat(tree):
    """The words of a tree."""
    return [tree] if isinstance(tree, str) else [*itertools.chain(*map(flat, tree))]


def nested(children, words):
    """The tree whose root is the last node."""
    nodes = [None, *words]
    for left, right in children[:-1]:
        nodes.append((nodes[left], nodes[right]))
    assert not children[-1].any() and len(nodes) == 2 * len(words)
    return nodes[-1]


TREES = {
    "no": "no",
    "( No )": "no",
    "( a b )": ("a", "b"),
    "( ( a b ) c )": (("a", "b"), "c"),
    "( a ( b c ) )": ("a", ("b", "c")),
    "( ( A Man ) ( ( is asleep ) . ) )": (("a", "man"), (("is", "asleep"), ".")),
    "( ( a ( b ( c d ) ) ) ( e f ) )": (("a", ("b", ("c", "d"))), ("e", "f")),
    "( ( a -LRB- ) ( b ( -RRB- c ) ) )": (("a", "("), ("b", (")", "c"))),
    "( `` ( Go '' ) )": ('"', ("go", '"')),
}
# One leaf that is several of our words, and leaves that are one word.
PIECES = [
    ("( a ( well-known man ) )", "a well - known man", ("a", (("well", ("-", "known")), "man"))),
    ("( ( I ( can not ) ) go )", "i cannot go", (("i", "cannot"), "go")),
    ("( do n't )", "don't", "don't"),
]


@pytest.mark.parametrize(
    ("parse", "words", "tree"),
    [
        *((parse, flat(tree), tree) for parse, tree in TREES.items()),
        *((parse, words.split(), tree) for parse, words, tree in PIECES),
    ],
)
def test_a_parse_is_the_tree_of_our_words(parse, words, tree):
    children = BinaryParse().encode(words, {"binary_parse": parse})
    assert nested(children, words) == tree


@pytest.mark.parametrize(
    "parse", ["", "( )", "( a", "a b )", "a b", "( a b c )", "( a c )", "( a )", "( a b ) )"]
)
def test_a_parse_of_other_words_or_broken_is_refused(parse):
    with pytest.raises(UserError, match="the binary_parse is not one of this text"):
        BinaryParse().encode(["a", "b"], {"binary_parse": parse})


def test_texts_without_a_parse_are_refused():
    deep = ["a"] * 3000
    with pytest.raises(UserError, match="a binary_parse that is too deep"):
        BinaryParse().encode(deep, {"binary_parse": "( a " * 2999 + "a" + " )" * 2999})
    with pytest.raises(UserError, match="no binary_parse"):
        BinaryParse().encode(["a"], {})


@pytest.mark.parametrize("model", [CDSSM(), WordCount()])
def test_a_score_is_of_two_labels(model):
    with pytest.raises(UserError, match=f"{type(model).__name__}: needs two labels, not 3"):
        model.module(3, jnp.float32)
