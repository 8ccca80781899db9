"""Paraphrases on a full disk."""

import resource

import pytest

from common_jax.errors import UserError
from qanet_jax.augmentation import paraphrases as module
from qanet_jax.augmentation.paraphrases import write_paraphrases
from tests.qanet_jax.augmentation.test_augment import backward, forward


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    """A limit on the size of files stands for it."""
    monkeypatch.setattr(module, "_SENTENCES", 2)
    sentences, translators = [f"s{n}" for n in range(9)], lambda: (forward, backward)
    write_paraphrases(tmp_path / "one", sentences, translators)
    complete = (tmp_path / "one").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(complete) // 2, limits[1]))
    try:
        with pytest.raises(UserError, match="cannot be written: File too large"):
            write_paraphrases(tmp_path / "full", sentences, translators)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    written, translated = len((tmp_path / "full").read_bytes().splitlines()), []
    assert written >= 2
    again = lambda texts: translated.extend(texts) or forward(texts)
    write_paraphrases(tmp_path / "full", sentences, lambda: (again, backward))
    assert (tmp_path / "full").read_bytes() == complete
    assert translated == sentences[written // 2 * 2 :]
