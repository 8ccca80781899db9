"""An export of a translator has one value of each option of decoding."""

import pytest

from common_jax.errors import UserError
from launch.export import __main__ as export
from tests.launch.test_decoding_options import scored, translator  # noqa: F401


def test_an_export_has_one_value_and_refuses_others(translator, tiny, tmp_path):  # noqa: F811
    plain, changed = tiny.exported("csan", tmp_path / "plain"), tmp_path / "changed"
    argv = ["--workdir", str(translator), "--beam_size", "2", "--out", str(changed)]
    export.main([*argv, "--length_penalty", "0"])
    close = lambda scores: [pytest.approx(row, abs=2e-4) for row in scores]
    assert scored(changed) == close(scored(translator, length_penalty=0.0))
    assert scored(changed, length_penalty=0.0) == scored(changed)
    assert scored(plain) == close(scored(translator))
    message = r"has no program for beam_size=2, .*length_penalty=0.0.*launch\.export makes others"
    with pytest.raises(UserError, match=message):
        scored(plain, length_penalty=0.0)
