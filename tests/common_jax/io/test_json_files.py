"""Typed values of JSON files, and one-line errors with their locations."""

import json
import re

import pytest

from common_jax.errors import Location, UserError
from common_jax.io.json_files import parse_json
from tests.refusals import refusal

KINDS = {
    "flag": (bool, True, [None, 1, "true", [], {}]),
    "count": (int, 3, [None, True, 1.0, "1", [], {}]),
    "rate": (float, 0.5, [None, True, "1", [], {}]),
    "name": (str, "a", [None, 1, [], {}, "\ud800"]),
    "any list": (list, [1, "a", None], [None, 1, "a", {}]),
    "any object": (dict, {"a": 1}, [None, 1, "a", []]),
    "names": (list[str], ["a", "b"], [None, "a", [1], ["a", None], ["\udfff"], {}]),
    "parts": (
        list[tuple[int, float]],
        [(1, 2.5), (2, 3)],
        [[1], [[1]], [[1, 2, 3]], [[1.5, 2]], [[1, "a"]], [{}], {}],
    ),
    "scores": (
        dict[str, dict[str, float]],
        {"dev": {"f1": 2.0, "em": 1}, "test": {}},
        [[], {"dev": 1}, {"dev": {"f1": "a"}}, {"dev": {"\ud800": 1}}, {"\ud800": {}}],
    ),
}


def node(**fields):
    return parse_json(json.dumps(fields), "FILE")


@pytest.mark.parametrize("name", KINDS)
def test_only_values_of_the_kind_are_returned(name):
    kind, right, wrong = KINDS[name]
    accepted = node(field=right).get("field", kind)
    assert accepted == right and type(accepted) is type(right)
    for value in wrong:
        message = refusal(node(field=value).get, "field", kind)
        assert message.startswith("FILE: field")
        message.encode()  # can be printed


@pytest.mark.parametrize(
    "text,kind,line",
    [
        ('{"a": [1, "x"]}', list[int], "a[1]: a string where a whole number is needed"),
        ('{"a": [1, 1e400, null]}', list[int], "a[1]: a number where a whole number is needed"),
        ('{"a": {"b": 1}}', list[int], "a: an object where a list is needed"),
        ('{"b": [1]}', list[int], "no 'a'; it has b"),
        ("[1]", list[int], "a list where an object is needed"),
        (
            '{"a": {"b\\n": [[1]]}}',
            dict[str, list[tuple[int, int]]],
            r"a['b\n'][0]: 1 values where 2",
        ),
    ],
)
def test_a_line_names_the_value_that_is_wrong(text, kind, line):
    with pytest.raises(UserError, match=f"^FILE: {re.escape(line)}"):
        parse_json(text, "FILE").get("a", kind)


def test_a_default_is_for_what_is_not_there():
    assert node(a=None).get("a", list[int], []) == node().get("a", list[int], []) == []
    with pytest.raises(UserError, match="a string where a list is needed"):
        node(a="").get("a", list[int], [])


def test_two_values_of_one_name_are_not_a_choice():
    with pytest.raises(UserError, match=r"^FILE:7: not JSON .*\(two values of 'b'\)$"):
        parse_json('{"a": [{"b": 1, "c": 2, "b": 1}]}', Location("FILE", 7))
