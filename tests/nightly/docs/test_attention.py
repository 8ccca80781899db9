"""The snippets of attention in other models against a reference, and the table of its cost."""

import json
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax import attention as library
from common_jax.attention import api
from common_jax.masks import Mask
from tests.docs.manual import ROOT, blocks
from tests.nightly.docs import costs

PAGES = [ROOT / "docs" / name for name in ("attention.md", "appendix/frameworks.md")]
SNIPPETS = [block for page in PAGES for block in blocks(page) if block.language == "python"]


def reference(query, key, value, mask=None, bias=None, **options):
    """One softmax over the tokens and heads that a mask of padding and windows allows."""
    options = {name: value for name, value in options.items() if value}
    assert options.keys() <= {"deterministic", "broadcast_dropout"}
    window, valid = mask.window // 2, mask.key_segments
    tokens, heads = np.arange(query.shape[1]), np.arange(query.shape[2])
    near = np.abs(tokens[:, None] - tokens) <= window
    area = np.abs(heads[:, None] - heads) <= mask.heads // 2
    valid = jnp.ones(query.shape[:2], bool) if valid is None else valid
    allowed = near & valid[:, :, None] & valid[:, None, :]  # [B, T, S]
    allowed = allowed[:, None, None] & area[None, :, :, None, None]  # [B, H, G, T, S]
    scores = jnp.einsum("bthk,bsgk->bhgts", query, key) / np.sqrt(query.shape[-1])
    if bias is not None:
        scores += bias.at(tokens, tokens)[:, :, None]
    weights = jnp.where(allowed, jnp.exp(scores - scores.max((2, 4), keepdims=True)), 0)
    total = weights.sum((2, 4))[..., None]
    summed = jnp.einsum("bhgts,bsgv->bhtv", weights, value)
    return jnp.swapaxes(summed / jnp.where(total == 0, 1, total), 1, 2)


@pytest.fixture(autouse=True)
def promotion_as_the_frameworks_need_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def run(block, monkeypatch):
    """The output and the gradients of a snippet."""
    module = types.ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)  # dataclasses look up their module
    exec(compile(block.text, str(block), "exec"), vars(module))
    return jax.tree.leaves((module.out, module.gradients))


@pytest.mark.parametrize("block", SNIPPETS, ids=str)
def test_outputs_and_gradients_are_those_of_dense_attention(block, monkeypatch):
    calls = []
    banded = api.FORMS["banded"]

    class Recorded(type(banded)):
        def __call__(self, request):
            calls.append(request)
            return banded(request)

    monkeypatch.setattr(api, "FORMS", {**api.FORMS, "banded": Recorded()})
    got = run(block, monkeypatch)
    assert calls, "the form that a long text takes"
    for name in ("attention", "attention_fn"):
        monkeypatch.setattr(library, name, reference)
    calls.clear()
    want = run(block, monkeypatch)
    assert not calls and len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
    assert sum(float(np.abs(x).max()) > 1e-3 for x in want) >= 2


def test_the_reference_is_jax_attention_where_there_is_one_head_in_the_area():
    query, key, value = jax.random.normal(jax.random.key(0), (3, 2, 12, 4, 3))
    valid = jnp.arange(12) < jnp.array([[12], [9]])
    mask = Mask(query_segments=valid, key_segments=valid, window=5)
    lengths = {f"{name}_seq_lengths": valid.sum(1) for name in ("query", "key_value")}
    want = jax.nn.dot_product_attention(query, key, value, local_window_size=2, **lengths)
    got = jax.jit(reference)(query, key, value, mask)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_the_table_is_that_of_the_raw_file():
    rows = json.loads(costs.RAW.read_text())["rows"]
    page = costs.PAGE.read_text()
    assert costs.table(rows) in page and costs.updated(page, rows) == page
