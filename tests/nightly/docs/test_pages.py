"""Pages that are made from trials are made again."""

import json

import pytest

from tests.docs.digests import RESULTS, STORED, unchanged, wrong_lines
from tests.docs.test_results import FROM_TRIALS, by_name


@pytest.mark.parametrize("path", FROM_TRIALS, **by_name)
def test_a_page_is_made_again(path, tmp_path):
    assert not wrong_lines(path, tmp_path)


def test_the_digests_are_those_of_the_pages():
    stale = [name for name in json.loads(STORED.read_text()) if not unchanged(RESULTS / name)]
    assert stale == [], "run python -m tests.docs.digests"
