"""The generated corpora of the configs stay equal, as prepared corpora and data positions of
checkpoints rely on: a change of words, sentences or rules needs another identity in sources.py.
What their sentences say: tests/nightly, test_generate.py of each family."""

import hashlib
import importlib
from collections.abc import Iterable
from typing import Any

import pytest

import attconv_jax.data.synthetic
import attconv_jax.data.synthetic_reviews
import csan_jax.data.synthetic
import qanet_jax.data.synthetic
from common_jax.data.prepared import SPLITS


def _questions(*args) -> Iterable[Any]:
    squad = qanet_jax.data.synthetic.generate(*args)
    yield from squad.contexts
    for question in squad.questions:
        yield question.id, question.text, question.context
        yield from ((answer.text, answer.start) for answer in question.answers)


GENERATORS = {
    "csan.quickstart": (
        csan_jax.data.synthetic.generate,
        "bb54ae9166e7e8610421e4f89252f3541541e88d519964bbae4adf1246562380",
    ),
    "qanet.quickstart": (
        _questions,
        "d5f37bfc07a71b9a3f3b36d6d6494cbc4b152f3d7fb1fd39c9fd5e5ca23ffb02",
    ),
    "attconv.quickstart": (
        attconv_jax.data.synthetic.generate,
        "08d7e0547496b6c4cfa711b9581b6628660a150b0cec875b501b93363018e74b",
    ),
    "attconv.reviews_small": (
        attconv_jax.data.synthetic_reviews.generate,
        "87cde96e6381129db5ab39141284fed2b9059b4f4628df79c68a4daba1e1c962",
    ),
}


@pytest.mark.parametrize("config", GENERATORS)
def test_corpora_of_configs_stay_equal(config):
    """In any process: strings are hashed differently in each."""
    generate, sha256 = GENERATORS[config]
    data = importlib.import_module(f"configs.{config}").get_config().data
    digest = hashlib.sha256()
    for split in SPLITS:
        count = data.examples if split == "train" else data.holdout_size
        for example in generate(count, data.seed, split):
            digest.update(f"{example}\n".encode())
    assert digest.hexdigest() == sha256


@pytest.mark.parametrize("config", GENERATORS)
def test_a_smaller_corpus_is_a_prefix_and_another_seed_another_corpus(config):
    generate, _ = GENERATORS[config]
    if config.startswith("qanet"):
        generate = qanet_jax.data.synthetic.generate
        short, long, other = (generate(n, s, "dev") for n, s in ((25, 3), (60, 3), (25, 4)))
        assert short.questions == long.questions[:25]
        assert short.contexts == long.contexts[: len(short.contexts)]
        assert {*other.contexts}.isdisjoint(short.contexts)
        assert not generate(0, 3, "dev").contexts
        return
    short, long, other = ([*generate(n, s, "train")] for n, s in ((35, 3), (100, 3), (35, 4)))
    assert short == long[:35] and {*other}.isdisjoint(short)


def test_more_sentences_than_exist_are_refused_at_the_call():
    with pytest.raises(ValueError, match="distinct sentences in test"):
        csan_jax.data.synthetic.generate(10**12, 0, "test")
