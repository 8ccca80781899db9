"""The snippets of attention in other models against a reference, and the table of its cost."""

import json
import sys
import types
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax import attention as library
from common_jax.attention import api
from tests.docs.digests import table_lines
from tests.docs.manual import ROOT, blocks

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
    banded = type(api.FORMS["banded"])
    calls = mock.Mock(side_effect=banded.__call__)
    monkeypatch.setattr(banded, "__call__", lambda *request: calls(*request))
    got = run(block, monkeypatch)
    assert calls.called, "the form that a long text takes"
    for name in ("attention", "attention_fn"):
        monkeypatch.setattr(library, name, reference)
    calls.reset_mock()
    want = run(block, monkeypatch)
    assert not calls.called and len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
    assert sum(float(np.abs(x).max()) > 1e-3 for x in want) >= 2


COST = ROOT / "docs" / "results" / "attention_cost.md"
COLUMNS = {
    "all tokens": "vanilla",
    "1D dense": "dense 1D",
    "1D banded": "banded 1D",
    "2D dense": "dense 2D",
    "2D banded": "banded 2D",
}


def number(value):
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def test_the_table_is_that_of_the_raw_file():
    """A line for each length: milliseconds (MiB of temporary memory) of each form."""
    rows = json.loads(COST.with_name("bench_attention_cpu.json").read_text())["rows"]
    by_form = {(row["length"], row["form"]): row for row in rows}
    cells = [["tokens", *COLUMNS], ["---"] * (1 + len(COLUMNS))]
    for length in dict.fromkeys(row["length"] for row in rows):
        forms = [by_form[length, form] for form in COLUMNS.values()]
        times = [f"{number(r['milliseconds'])} ({number(r['temporary_mib'])})" for r in forms]
        cells.append([f"{length:,}", *times])
    assert table_lines(COST) == [f"| {' | '.join(line)} |" for line in cells]
