"""Resumption on several devices."""

from tests.common_jax.training.test_loop import (  # noqa: F401  (two fixtures)
    complete,
    config,
    resumed,
)
from tests.toy import changed


def test_interrupted_and_resumed_is_bit_identical(config, complete, tmp_path):  # noqa: F811
    assert resumed(changed(config, "mesh", data=8), complete, tmp_path, [9]) == [8]
