"""Paths by text: disks and gs://, all other URLs refused."""

from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.io.paths import as_path, in_bucket


@pytest.mark.parametrize("text", ["runs/a", "/runs/a:b/c", "~/x", "a:/b", ".", "gs"])
def test_a_path_on_a_disk(text):
    path = as_path(text)
    assert path == Path(text) and not in_bucket(path)
    assert as_path(path) == path


def test_a_path_in_a_bucket_keeps_its_url():
    path = as_path("gs://bucket/runs/a/")
    assert str(path) == "gs://bucket/runs/a" and in_bucket(path)
    assert as_path(path) == path
    child = path / "b" / "c.json"
    assert str(child) == "gs://bucket/runs/a/b/c.json"
    assert str(child.parent.with_name("d")) == "gs://bucket/runs/a/d"
    assert (child.name, child.suffix) == ("c.json", ".json")
    assert child.relative_to(path).as_posix() == "b/c.json"
    for same in (path.absolute(), path.resolve(), path.expanduser()):
        assert str(same) == str(path)


@pytest.mark.parametrize(
    "text,message",
    [
        *(
            (f"{scheme}://bucket/a", "of URLs, only gs:// is")
            for scheme in ("s3", "az", "hf", "S3")
        ),
        ("https://storage.googleapis.com/bucket/a", "of URLs, only gs:// is"),
        ("s3:/bucket/a", "of URLs, only gs:// is"),
        ("file:///runs/a", "write the path alone"),
        ("gs:/bucket/a", "write gs://BUCKET/FOLDER"),
        ("gs://", "write gs://BUCKET/FOLDER"),
        ("GS://bucket/a", "write gs://BUCKET/FOLDER"),
        ("gs://Bucket/a", "write gs://BUCKET/FOLDER"),
    ],
)
def test_other_urls_are_refused(text, message):
    with pytest.raises(UserError, match=f"^{text}: {message}"):
        as_path(text)
