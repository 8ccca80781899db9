"""Exported programs of the comparison systems, and of other settings of the models."""

import pytest

from configs.attconv.systems import SYSTEMS as ATTCONV_SYSTEMS
from configs.csan.systems import SYSTEMS as CSAN_SYSTEMS
from configs.qanet.systems import SYSTEMS as QANET_SYSTEMS
from tests.common_jax.export.test_stablehlo import require_exportable

OF_ONE_TEXT = (
    *("paragraph_vector", "lin_bilstm", "lin_cnn", "self_attentive", "multichannel_cnn"),
    *("internal_attention", "cnn", "light"),
)
CASES = {
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
    require_exportable(*CASES[case])
