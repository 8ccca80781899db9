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


def test_equal_words_of_a_text_are_counted_once():
    texts = [[*words] for n in (1, 2, 3) for words in itertools.product("ab", repeat=n)]
    for pair in itertools.product([*texts, ["c"], ["c", "a"]], repeat=2):
        assert WordCounts().encode(pair, []).tolist() == [*distinct_words(*pair)]


def nested(children, words):
    """The tree whose root is the last node."""
    nodes = [None, *words]
    for left, right in children[:-1]:
        nodes.append((nodes[left], nodes[right]))
    assert not children[-1].any() and len(nodes) == 2 * len(words)
    return nodes[-1]


@pytest.mark.parametrize(
    ("parse", "words", "tree"),
    [
        ("no", "no", "no"),
        ("( No )", "no", "no"),
        ("( a b )", "a b", ("a", "b")),
        ("( ( a b ) c )", "a b c", (("a", "b"), "c")),
        ("( a ( b c ) )", "a b c", ("a", ("b", "c"))),
        (
            "( ( A Man ) ( ( is asleep ) . ) )",
            "a man is asleep .",
            (("a", "man"), (("is", "asleep"), ".")),
        ),
        (
            "( ( a ( b ( c d ) ) ) ( e f ) )",
            "a b c d e f",
            (("a", ("b", ("c", "d"))), ("e", "f")),
        ),
        ("( ( a -LRB- ) ( b ( -RRB- c ) ) )", "a ( b ) c", (("a", "("), ("b", (")", "c")))),
        ("( `` ( Go '' ) )", '" go "', ('"', ("go", '"'))),
        # One leaf that is several of our words, and leaves that are one word.
        (
            "( a ( well-known man ) )",
            "a well - known man",
            ("a", (("well", ("-", "known")), "man")),
        ),
        ("( ( I ( can not ) ) go )", "i cannot go", (("i", "cannot"), "go")),
        ("( do n't )", "don't", "don't"),
    ],
)
def test_a_parse_is_the_tree_of_our_words(parse, words, tree):
    children = BinaryParse().encode(words.split(), {"binary_parse": parse})
    assert nested(children, words.split()) == tree


BROKEN = ("", "( )", "( a", "a b )", "a b", "( a b c )", "( a c )", "( a )", "( a b ) )")


@pytest.mark.parametrize(
    ("words", "annotations", "message"),
    [
        *((["a", "b"], {"binary_parse": parse}, "is not one of this text") for parse in BROKEN),
        (["a"] * 3000, {"binary_parse": "( a " * 2999 + "a" + " )" * 2999}, "too deep"),
        (["a"], {}, "no binary_parse"),
    ],
    ids=[*BROKEN, "deep", "none"],
)
def test_what_is_no_parse_of_the_text_is_refused(words, annotations, message):
    with pytest.raises(UserError, match=message):
        BinaryParse().encode(words, annotations)


@pytest.mark.parametrize("model", [CDSSM(), WordCount()])
def test_a_score_is_of_two_labels(model):
    with pytest.raises(UserError, match=f"{type(model).__name__}: needs two labels, not 3"):
        model.module(3, jnp.float32)
