"""Exported programs: the same results for any numbers of rows and lengths."""

import flax.linen as nn
import jax
import jax.export
import numpy as np
import pytest

from common_jax.deploy.operations import require_allowed
from common_jax.deploy.service import service_of
from common_jax.deploy.stablehlo import serialized
from common_jax.training.config import parse, task_class
from configs.attconv.systems import SYSTEMS as ATTCONV_SYSTEMS
from configs.csan.systems import SYSTEMS as CSAN_SYSTEMS
from configs.qanet.systems import SYSTEMS as QANET_SYSTEMS

SHRUNK = {
    "csan": {
        **{"model.dim": 8, "model.mlp_dim": 8, "model.num_heads": 4, "decode.extra_length": 4},
        **{"model.source_vocab_size": 30, "model.target_vocab_size": 30},
        **{"model.encoder_layers": 5, "model.decoder_layers": 2},
    },
    "qanet": {
        **{"model.dim": 8, "model.num_heads": 2, "model.char_dim": 4, "words.dim": 6},
        **{"model.model_blocks": 1, "model.embedding_convs": 1, "model.model_convs": 1},
        **{"words.char_rows": 9, "data.word_length": 3},
    },
    "attconv": {"model.dim": 6, "words.dim": 4, "words.rows": 30, "words.unknown_rows": 0},
}
OF_ONE_TEXT = (
    *("paragraph_vector", "lin_bilstm", "lin_cnn", "self_attentive", "multichannel_cnn"),
    *("internal_attention", "cnn", "light"),
)
CASES = {
    "2D-CSAN, layers in a loop": ("csan/wmt14_ende.py:base", {}),
    "fixed vectors, position encodings in each block": (
        "qanet/squad.py",
        {"data.vectors": "x", "model.positions": "block", "model.char_pooling": "max"},
    ),
    "one text, in bfloat16": ("attconv/yelp.py:advanced", {"train.compute_dtype": "bfloat16"}),
    "post-norm, separate vocabularies": (
        "csan/tatoeba_deen.py",
        {"model.norm": "post", "model.tie": "target", "data.joint_vocabulary": False},
    ),
    "additive energy": ("attconv/snli.py:advanced_intra", {"model.energy": "additive"}),
    "padding as the authors have it": ("attconv/snli.py:light", {"model.unmasked_softmax": True}),
    **{name: (f"csan/multi30k_small.py:{name}", {"model.num_heads": 8}) for name in CSAN_SYSTEMS},
    **{f"{name} of a passage": (f"qanet/squad.py:{name}", {}) for name in QANET_SYSTEMS},
    **{f"{name} of a pair": (f"attconv/squad_anss.py:{name}", {}) for name in ATTCONV_SYSTEMS},
    **{f"{name} of a text": (f"attconv/yelp.py:{name}", {}) for name in OF_ONE_TEXT},
}


@pytest.mark.parametrize("case", CASES)
def test_a_program_computes_what_the_model_does(case):
    file, changes = CASES[case]
    family = file.partition("/")[0]
    model = parse(f"configs/{file}", []).model
    shrunk = {
        name: value
        for name, value in SHRUNK[family].items()
        if not name.startswith("model.") or hasattr(model, name.removeprefix("model."))
    }
    flags = {"data.dir": ".", "mesh.data": 1, **shrunk, **changes}
    if family == "attconv":
        flags["data.vectors"] = "x"
    config = parse(f"configs/{file}", [f"--config.{k}={v}" for k, v in flags.items()])
    task = task_class(config.task)(config)
    shapes = nn.unbox(jax.eval_shape(task.init, jax.random.key(0)))
    random = np.random.default_rng(0)
    params = jax.tree.map(lambda a: random.normal(0, 0.3, a.shape).astype(a.dtype), shapes)
    service = service_of(task)
    (static, *_) = service.programs()
    answer = jax.jit(lambda params, arrays: service.serve(params, arrays, **static))
    program = jax.export.deserialize(bytearray(serialized(answer, shapes, service.inputs)))
    assert set(program.platforms) == {"cpu", "cuda", "tpu"}
    require_allowed(program, file)
    arrays = random_inputs(service.inputs, 12)
    actual, expected = jax.jit(program.call)(params, arrays), answer(params, arrays)
    atol = 2e-2 if "bfloat16" in changes.values() else 2e-5
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=atol), actual, expected)


def random_inputs(inputs, size):
    """As many rows as words in the longest text; shorter texts are padded with zeros."""
    random = np.random.default_rng(size)
    words, arrays = {}, {}
    for name, (dims, dtype) in inputs.items():
        shape = [int(dim) if dim.strip().isdecimal() else size for dim in dims.split(",")]
        if len(shape) == 2 and dims[-1].isdecimal():  # of the example
            arrays[name] = random.integers(2, 9, shape).astype(dtype)
            continue
        base = name.partition("_")[0]
        if base not in words:
            lengths = random.integers(1, size + 1, size)
            words[base] = np.arange(size)[None] < lengths[:, None]
        valid = words[base].reshape(*words[base].shape, *[1] * (len(shape) - 2))
        values = random.integers(2, 9, shape) if dtype == np.int32 else random.random(shape)
        arrays[name] = np.where(valid, values, 0).astype(dtype)
    return arrays
