"""CTranslate2 models of 8-bit integers, and their longest texts."""

import numpy as np
import pytest

from common_jax.deploy.predictor import InputTooLargeError
from csan_jax import engine
from tests.csan_jax.test_engine import PIECES, parameters, task

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")


def test_int8_is_close_and_smaller(tmp_path):
    translation = task(dim=64, mlp_dim=128)
    # Given translations: a search amplifies small differences. Without AVX-512, CTranslate2's
    # products of int8 saturate where large numbers meet, as they do with more noise.
    params = parameters(translation, noise=0.1)
    random = np.random.default_rng(0)
    source, target = (random.integers(2, PIECES, (20, 12)).astype(str).tolist() for _ in range(2))
    sizes, scores = {}, {}
    for dtype in ("float32", "int8"):
        folder = tmp_path / dtype
        engine.write(translation.model.config, params, folder, dtype)
        sizes[dtype] = (folder / "model.bin").stat().st_size - 2 * engine.POSITIONS * 64 * 4
        translator = engine.Engine(folder, PIECES, 0.0, 5)._translator
        results = translator.score_batch(source, target)
        scores[dtype] = np.array([result.log_probs for result in results])
    assert sizes["int8"] < 0.35 * sizes["float32"]
    error = np.abs(scores["int8"] - scores["float32"]).mean()
    assert 0 < error < 0.05 * np.abs(scores["float32"]).mean()


def test_texts_longer_than_the_table_of_positions_are_too_large(tmp_path):
    translation = task()
    engine.write(translation.model.config, parameters(translation), tmp_path / "engine", "float32")
    program = engine.Engine(tmp_path / "engine", PIECES, 0.0, 1)(beam_size=1)
    longest = np.full((1, engine.POSITIONS), 7, np.int32)
    assert program({"source": longest})["pieces"].shape[1] <= engine.POSITIONS
    with pytest.raises(InputTooLargeError, match="1025 pieces, of at most 1024"):
        program({"source": np.full((1, engine.POSITIONS + 1), 7, np.int32)})
