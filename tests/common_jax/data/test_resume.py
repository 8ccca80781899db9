"""Continuing a corpus after a kill: equal bytes, whatever was written after the record."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common_jax.data.corpus import Corpus, Writer
from common_jax.data.resume import RECORD, delete_record, read_record, write_record
from common_jax.errors import UserError
from tests.common_jax.data.test_corpus import ROWS


def written(path, rows, state=None, *, ends=True):
    """Writes rows; returns the state after them."""
    writer = Writer(path, ["a", "b"], state)
    for a, b in rows:
        writer.append({"a": a, "b": b})
    state = writer.state()
    writer.__exit__(None if ends else KeyboardInterrupt, None, None)
    return state


@settings(max_examples=10)
@given(rows=ROWS, lost=ROWS, data=st.data())
def test_a_continued_corpus_has_the_bytes_of_an_uninterrupted_one(
    tmp_path_factory, rows, lost, data
):
    path, other = tmp_path_factory.mktemp("killed"), tmp_path_factory.mktemp("uninterrupted")
    kill = data.draw(st.integers(0, len(rows)))
    state = written(path, rows[:kill], ends=False)
    written(path, lost, state, ends=False)  # after the record
    assert not (path / "meta.json").exists()
    written(path, rows[kill:], state)
    written(other, rows)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == {
        file.name: file.read_bytes() for file in other.iterdir()
    }
    assert len(Corpus.open(path)) == len(rows)


def test_a_file_shorter_than_its_record_is_refused(tmp_path):
    state = written(tmp_path, [([1, 2], [3])], ends=False)
    (tmp_path / "a.tokens").write_bytes(b"1234")
    with pytest.raises(UserError, match=r"a\.tokens: shorter than recorded; delete the folder"):
        Writer(tmp_path, ["a", "b"], state)


def test_the_record(tmp_path):
    assert read_record(tmp_path) == {}
    write_record(tmp_path, {"pairs": 3})
    assert read_record(tmp_path) == {"pairs": 3}
    (tmp_path / RECORD).write_text("{")
    (tmp_path / f"{RECORD}.1234.partial").write_text("{")
    assert read_record(tmp_path) == {}
    delete_record(tmp_path)
    assert not list(tmp_path.iterdir())
