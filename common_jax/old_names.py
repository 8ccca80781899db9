"""Tables from names in the runs and exports of earlier versions to the current names.

Runs, exports and sweeps are read through them; on the command line a former config key is an error
that names the current one.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

CLASSES: Mapping[str, str] = {
    "csan_jax.translator:Translator": "csan_jax.predictor:Translator",
    "qanet_jax.reader:Reader": "qanet_jax.predictor:QuestionAnswerer",
    "qanet_jax.predictor:Reader": "qanet_jax.predictor:QuestionAnswerer",
    "attconv_jax.judge:Judge": "attconv_jax.predictor:SentenceClassifier",
    "attconv_jax.predictor:Judge": "attconv_jax.predictor:SentenceClassifier",
    "attconv_jax.task:Judgement": "attconv_jax.task:SentenceClassification",
}

# By package, full keys of its config.
CONFIG_KEYS: Mapping[str, Mapping[str, str]] = {
    "csan_jax": {
        "data.heldout": "data.holdout_size",
        "data.tsv_columns": "data.columns",
    },
    "qanet_jax": {
        "model.word_dim": "words.dim",
        "model.word_rows": "words.rows",
        "model.char_rows": "words.char_rows",
        "model.survival": "model.survival_prob",
        "model.passes": "model.encoder_passes",
        "model.characters": "model.char_pooling",
        "data.form": "data.format",
        "data.heldout": "data.holdout_size",
        "data.evaluation_positions": "data.eval_batch_tokens",
    },
    "attconv_jax": {
        "model.word_dim": "words.dim",
        "model.word_rows": "words.rows",
        "model.unknown_rows": "words.unknown_rows",
        "model.slope": "model.tanh_gain",
        "model.two_way": "model.symmetric",
        "model.author_compat": "model.unmasked_softmax",
        "data.form": "data.format",
        "data.ignored": "data.ignored_labels",
        "data.heldout": "data.holdout_size",
        "data.length": "data.max_length",
        "data.evaluation_positions": "data.eval_batch_tokens",
    },
}

# For all families, fields of a predictor's settings in an export.
PREDICTOR_FIELDS: Mapping[str, str] = {"evaluation_positions": "eval_batch_tokens"}

# By package: regular expressions for parts of parameters' paths, with their replacements. The first
# replacement that results in one of the model's names is used.
PARAMETERS: Mapping[str, Sequence[Sequence[str]]] = {
    "csan_jax": (
        ("/inner/", "/feed_forward/in/"),
        ("/outer/", "/feed_forward/out/"),
        ("/(self|cross)_norm/", r"/\1_attention_norm/"),
    ),
    "qanet_jax": (
        (r"\bembedding/words$", "embedding/word_embedding"),
        (r"\bembedding/unknown$", "embedding/unknown_word_embedding"),
        (r"\bembedding/characters$", "embedding/character_embedding"),
        (r"\bembedding/Convolution_0/", "embedding/character_convolution/"),
        (r"\bembedding/Dense_0/", "embedding/highway_0/gate/"),
        (r"\bembedding/Dense_1/", "embedding/highway_0/transform/"),
        (r"\bembedding/Dense_2/", "embedding/highway_1/gate/"),
        (r"\bembedding/Dense_3/", "embedding/highway_1/transform/"),
        (r"\bproject/", "embedding_projection/"),
        (r"\battention/similarity$", "context_query_attention/similarity"),
        (r"\breduce/", "context_query_projection/"),
        (r"\b(start|end)/kernel$", r"\1_pointer/kernel"),
        ("/Stack_0/layers/", "/blocks/"),
        (r"/SeparableConvolution_(\d+)/filters$", r"/convolution_\1/depthwise_kernel"),
        (r"/SeparableConvolution_(\d+)/Dense_0/", r"/convolution_\1/pointwise/"),
        (r"/Convolution_(\d+)/", r"/convolution_\1/"),
        ("/MultiHeadAttention_0/", "/self_attention/"),
        ("/Dense_0/", "/feed_forward/in/"),
        ("/Dense_1/", "/feed_forward/out/"),
        # numbered over a block's sub-layers of all kinds
        (
            r"/LayerNorm_(\d+)/",
            *(r"/convolution_\1_norm/", "/self_attention_norm/", "/feed_forward_norm/"),
        ),
        ("/filters$", "/kernel"),
    ),
    "attconv_jax": (
        (r"\bwords$", "word_embedding"),
        (r"\bsecond_words$", "second_word_embedding"),
        (r"\b(hidden_[01])/", r"head/\1/"),
        (r"\bregression/", "head/output/"),
        ("/GatedConvolution_0/", "/unigram/", "/phrase/"),
        ("/GatedConvolution_1/", "/phrase/"),
        ("/change/", "/transform/"),
        ("/filters$", "/kernel"),
    ),
}


def current_names(saved: Iterable[str], wanted: Collection[str]) -> dict[str, str]:
    """Maps the names of saved parameters to the model's names, by `PARAMETERS`.

    A name that the model has, or that no rule turns into one of the model's, maps to itself.

    Args:
      saved: paths "a/b/c", and those of the optimizer state: "opt_state/1/mu/a/b/c".
      wanted: the model's names.
    """
    names = {name: name for name in saved if name in wanted}
    assigned = set(names)
    for name in sorted({*saved} - assigned, key=lambda name: (len(name), name)):  # LayerNorm_9, _10
        free = (new for new in _renamed(name) if new in wanted and new not in assigned)
        names[name] = next(free, name)
        assigned.add(names[name])
    return names


def _renamed(name: str) -> Iterator[str]:
    """Candidates for the current name, by each package's rules."""
    for rules in PARAMETERS.values():
        names = [name]
        for old, *new in rules:
            names = [re.sub(old, one, name) for name in names for one in new]
        yield from names
