"""The generated corpora of the configs stay equal, as prepared corpora and data positions of
checkpoints rely on: a change of words, sentences or rules needs another identity in sources.py."""

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


@pytest.mark.parametrize(
    ("config", "generate", "sha256"),
    [
        (
            "csan.quickstart",
            csan_jax.data.synthetic.generate,
            "bb54ae9166e7e8610421e4f89252f3541541e88d519964bbae4adf1246562380",
        ),
        (
            "qanet.quickstart",
            _questions,
            "d5f37bfc07a71b9a3f3b36d6d6494cbc4b152f3d7fb1fd39c9fd5e5ca23ffb02",
        ),
        (
            "attconv.quickstart",
            attconv_jax.data.synthetic.generate,
            "08d7e0547496b6c4cfa711b9581b6628660a150b0cec875b501b93363018e74b",
        ),
        (
            "attconv.reviews_small",
            attconv_jax.data.synthetic_reviews.generate,
            "87cde96e6381129db5ab39141284fed2b9059b4f4628df79c68a4daba1e1c962",
        ),
    ],
)
def test_corpora_of_configs_stay_equal(config, generate, sha256):
    data = importlib.import_module(f"configs.{config}").get_config().data
    digest = hashlib.sha256()
    for split in SPLITS:
        count = data.examples if split == "train" else data.holdout_size
        for example in generate(count, data.seed, split):
            digest.update(f"{example}\n".encode())
    assert digest.hexdigest() == sha256
