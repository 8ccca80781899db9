"""Archives of trials."""

import lzma
import re

import pytest

from common_jax.errors import UserError
from launch.reproduce.archive import read_archive, write_archive

TEXTS = {"config.json": "{}", "result.json": "{}", "eval/test.predictions.txt": "a\n"}


def test_references_of_several_trials_are_stored_once(tmp_path):
    common = {"eval/test.references": "ein Hund\n" * 2, "eval/test.sources": "a dog\n" * 2}
    others = {"eval/test.references": "犬\n" * 2, "eval/test.sources": "a cat\n" * 2}
    contents = [TEXTS | common, TEXTS | common, TEXTS | others, TEXTS]
    for number, files in enumerate(contents):
        write_archive(tmp_path / f"{number}.zip", files)
    shared = tmp_path / "test.references.xz"
    assert lzma.decompress(shared.read_bytes()).decode() == common["eval/test.references"]
    for number, files in enumerate(contents):
        assert read_archive(tmp_path / f"{number}.zip") == files

    path = tmp_path / "0.zip"
    for damage in (lambda: shared.write_bytes(b"no"), shared.unlink):
        damage()
        with pytest.raises(UserError, match=rf"^{re.escape(str(path))}: not an archived trial \("):
            read_archive(path)
