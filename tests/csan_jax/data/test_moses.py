"""Unescaping against sacremoses, which escapes and unescapes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacremoses import MosesDetokenizer, MosesTokenizer

from csan_jax.data.moses import undo_escapes

PIECES = ["&apos;", "&quot;", "&lt;", "&gt;", "&#91;", "&#93;", "&#124;", "&amp;", "&", ";", "#"]
PIECES += ["amp;", "lt;", "apos", "91;", "&eacute;", "&#39;", "&nbsp;", "&amp", "x", " ", "ü"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
@example("&amp;amp;lt; &amp;#124;")
def test_agrees_with_sacremoses(text):
    assert undo_escapes(text) == MosesDetokenizer().unescape_xml(text)


@given(st.text(alphabet="a &'\"<>[]|;#19ü\u2028"))
def test_undoes_what_the_tokenizer_does(text):
    assert undo_escapes(MosesTokenizer().escape_xml(text)) == text


@pytest.mark.parametrize("text", ["", "R&D", "&eacute;t&eacute;", "&#39;", "&APOS;", "&apos"])
def test_leaves_the_rest(text):
    assert undo_escapes(text) == text
