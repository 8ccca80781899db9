"""Texts of an export without the paths of a machine."""

import pytest

from common_jax.deploy.shareable import shareable


@pytest.mark.parametrize(
    "text,expected",
    [
        ("/home/ada/data/snli", "snli"),
        ("/home/ada b/data", "data"),
        ("~/data", "data"),
        ("~ada/data/x.txt", "x.txt"),
        ("runs/csan/quickstart", "runs/csan/quickstart"),
        ("../data", "../data"),
        ("and/or, 1/2", "and/or, 1/2"),
        ("gs://bucket/run", "gs://bucket/run"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        (
            "python -m launch.train --config=/a/b.py:light --config.data.dir=/c/d --x '/e f/g'",
            "python -m launch.train --config=b.py:light --config.data.dir=d --x 'g'",
        ),
        ("name=/a/b,other=~/c/d", "name=b,other=d"),
    ],
)
def test_an_absolute_path_is_its_last_component(text, expected):
    assert shareable(text) == expected
    assert shareable({"labels": text, "data": {"labels": text}})["data"]["labels"] == text
    assert shareable({"a": [text, 1, None, 0.5, True]}) == {"a": [expected, 1, None, 0.5, True]}
