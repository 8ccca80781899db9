"""Names that earlier versions wrote into runs and exports, each with the name it has now.

Runs, exports and sweeps are read through these tables; a config key of another time is refused on
the command line, with its new name.
"""

from collections.abc import Mapping

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

# Of every family's predictor, as exports have them.
PREDICTOR_FIELDS: Mapping[str, str] = {"evaluation_positions": "eval_batch_tokens"}
