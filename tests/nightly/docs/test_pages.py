"""Pages that are made from trials are made again."""

import json

import pytest

from tests.docs.digests import LISTS, MADE, RESULTS, ROOT, STORED, unchanged, wrong_lines
from tests.docs.test_results import PAGES

PAGES = [*LISTS, *(path for path in PAGES if MADE in path.read_text())]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_is_made_again(path, tmp_path):
    assert not wrong_lines(path, tmp_path)


def test_the_digests_are_those_of_the_pages():
    stale = [name for name in json.loads(STORED.read_text()) if not unchanged(RESULTS / name)]
    assert stale == [], "run python -m tests.docs.digests"
