"""CTranslate2 models beside the suite's own search, with random parameters."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from common_jax.deploy.bounded_program import InputTooLargeError
from common_jax.deploy.service import service_of
from common_jax.errors import UserError
from csan_jax import engine
from csan_jax.attention.area import Area
from csan_jax.attention.relative import Relative, RelativeCausal
from csan_jax.data.subwords import END
from csan_jax.predictor import Translator
from tests import random_params
from tests.families.tasks import translation

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
PIECES = 40
PLAIN = Area(local_layers=0)
SOURCE = np.array(
    [[5, 9, 30, 1, 0, 0], [7, 1, 0, 0, 0, 0], [0] * 6, [4, 4, 8, 12, 33, 1]], np.int32
)
FILLED = np.array([0, 1, 3])
FORMS = {
    "separate tables": {},
    "all tied": {"tie": "all"},
    "post-norm, more decoder layers": {"norm": "post", "decoder_layers": 3},
    "no sinusoids": {"sinusoids": False, "tie": "target"},
    "rows without a piece": {"target_vocab_size": PIECES + 24},
}


def task(**model):
    sizes = {"dim": 16, "mlp_dim": 24, "decoder_layers": 1, "tie": "none"}
    return translation(model={"encoder_attention": PLAIN, **sizes, **model})


def parameters(of, noise=0.3):
    """Random ones, also of biases and scales."""
    random = np.random.default_rng(1)
    shapes = random_params.shapes(of.model, SOURCE, SOURCE, train=False)
    draw = lambda path, x: (path[-1].key == "scale") + random.normal(0, noise, x.shape)
    return jax.tree.map(np.float32, jax.tree.map_with_path(draw, shapes))


@pytest.mark.parametrize(
    ("form", "beam_size"),
    [
        *zip(FORMS, (4, 1, 4, 1, 4), strict=True),
        *(
            pytest.param(form, n, marks=pytest.mark.slow)
            for form, n in zip(FORMS, (1, 4, 1, 4, 1), strict=True)
        ),
    ],
)
def test_hypotheses_are_those_of_the_suites_search(form, beam_size, tmp_path):
    """Without an end in sight, each search goes to the limit of its own sentence."""
    made = task(**FORMS[form])
    made._pieces = PIECES  # of the vocabulary
    params = parameters(made)
    engine.write(made.model.config, params, tmp_path / "engine", "float32", PIECES)
    program = engine.Engine(tmp_path / "engine", PIECES, 0.0, 5)(
        beam_size=beam_size, hypotheses=beam_size
    )
    actual = program({"source": SOURCE})
    options = {"beam_size": beam_size, "length_penalty": 0.0, "extra_length": 5}
    search = functools.partial(made.translate, hypotheses=beam_size, **options)
    pieces, scores = jax.jit(search)(params, SOURCE)
    best, steps = np.asarray(pieces)[FILLED, 0], actual["pieces"].shape[2]
    np.testing.assert_allclose(actual["scores"][FILLED, 0], scores[FILLED, 0], atol=1e-4)
    np.testing.assert_array_equal(actual["pieces"][FILLED, 0], best[:, :steps])
    assert (best[:, steps:] == 0).all() and (actual["pieces"][2] == 0).all()
    for row in FILLED:
        limit = int((SOURCE[row] != 0).sum()) + 5
        lengths = (actual["pieces"][row] != 0).sum(axis=1)
        assert lengths.max() <= limit
        ended = actual["pieces"][row, 0, lengths[0] - 1] == END
        assert ended or lengths[0] == limit


@pytest.mark.parametrize(
    ("model", "penalty", "key"),
    [
        ({"encoder_attention": Area(local_layers=1)}, 0.0, "Area of model.encoder_attention"),
        ({"encoder_attention": Relative(local_layers=2)}, 0.0, "Relative of model.encoder_att"),
        ({"decoder_attention": RelativeCausal()}, 0.0, "RelativeCausal of model.decoder_att"),
        ({}, 0.6, "length_penalty=0.6; --length_penalty 0"),
    ],
)
def test_what_ctranslate2_cannot_express_is_refused(model, penalty, key):
    made = task(**model)
    decode = dataclasses.replace(made.config.decode, length_penalty=penalty)
    made.config = dataclasses.replace(made.config, decode=decode)
    with pytest.raises(UserError, match=key):
        engine.CTranslate2().require(service_of(made))


def test_a_folder_that_is_no_model_is_one_line(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"no model")
    with pytest.raises(UserError, match="not a model that CTranslate2 reads"):
        engine.Engine(tmp_path, PIECES, 0.0, 1)
    settings = Translator.Settings(beam_size=1, batch_tokens=64)
    with pytest.raises(UserError, match="lack length_penalty or extra_length"):
        engine.CTranslate2().read(tmp_path, [], settings)


@pytest.mark.slow
def test_int8_is_close_and_smaller(tmp_path):
    made = task(dim=64, mlp_dim=128)
    # Given translations: a search amplifies small differences. Without AVX-512, CTranslate2's
    # products of int8 saturate where large numbers meet, as they do with more noise.
    params = parameters(made, noise=0.1)
    random = np.random.default_rng(0)
    source, target = (random.integers(2, PIECES, (20, 12)).astype(str).tolist() for _ in range(2))
    sizes, scores = {}, {}
    for dtype in ("float32", "int8"):
        folder = tmp_path / dtype
        engine.write(made.model.config, params, folder, dtype, PIECES)
        sizes[dtype] = (folder / "model.bin").stat().st_size - 2 * engine.POSITIONS * 64 * 4
        translator = engine.Engine(folder, PIECES, 0.0, 5)._translator
        results = translator.score_batch(source, target)
        scores[dtype] = np.array([result.log_probs for result in results])
    assert sizes["int8"] < 0.35 * sizes["float32"]
    error = np.abs(scores["int8"] - scores["float32"]).mean()
    assert 0 < error < 0.05 * np.abs(scores["float32"]).mean()


@pytest.mark.slow
def test_texts_longer_than_the_table_of_positions_are_too_large(tmp_path):
    made = task()
    engine.write(made.model.config, parameters(made), tmp_path / "engine", "float32", PIECES)
    program = engine.Engine(tmp_path / "engine", PIECES, 0.0, 1)(beam_size=1)
    longest = np.full((1, engine.POSITIONS), 7, np.int32)
    assert program({"source": longest})["pieces"].shape[1] <= engine.POSITIONS
    with pytest.raises(InputTooLargeError, match="1025 pieces, of at most 1024"):
        program({"source": np.full((1, engine.POSITIONS + 1), 7, np.int32)})
