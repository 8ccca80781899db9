"""Schemas: input lines of each kind, and errors."""

import json

import pytest

from common_jax.errors import UserError
from common_jax.predictor_schema import Schema, Text

PAIR = (Text("first", "First"), Text("second", "Second"))


def test_a_string_is_the_line_and_an_object_becomes_it():
    tab, texts = Schema("t", PAIR, "tab"), {"first": "a\tb\nc", "second": "d"}
    assert tab.to_line("a\tb", "here") == "a\tb"
    assert tab.to_line(texts, "here") == "a b c\td"
    assert json.loads(Schema("t", PAIR, "json").to_line(texts, "here")) == texts
    assert Schema("t", PAIR[:1]).to_line({"first": "a\r\nb"}, "here") == "a b"


def test_only_json_lines_have_further_fields():
    more = {"first": "a", "second": "b", "id": 3}
    assert json.loads(Schema("t", PAIR, "json").to_line(more, "here"))["id"] == 3
    with pytest.raises(UserError, match=r"^here: unknown field 'id'; an input has 'first' and 'se"):
        Schema("t", PAIR, "tab").to_line(more, "here")


@pytest.mark.parametrize("value", [None, 3, ["a"], {"first": "a"}, {"first": "a", "second": 1}])
def test_another_value_is_refused(value):
    with pytest.raises(UserError, match=r"^here"):
        Schema("t", PAIR, "tab").to_line(value, "here")
