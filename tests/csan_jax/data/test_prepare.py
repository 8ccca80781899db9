"""Preparing: equal bytes with any number of workers, and after an interruption (processes and
kills: tests/nightly)."""

import dataclasses
from pathlib import Path

import pytest

from common_jax.data.resume import write_record
from common_jax.errors import UserError
from csan_jax.config import DataConfig
from csan_jax.data.dataset import TranslationData
from csan_jax.data.subwords import Subwords


def config(cache, **options) -> DataConfig:
    fields = dict(source="generated", examples=3000, holdout_size=50, vocab_size=600)
    return DataConfig(**(fields | options), cache_dir=str(cache))


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_workers_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "csan_jax.data.prepare._CHUNK", 700
    )  # several chunks, the last one incomplete
    folders = []
    for workers in (1, 3, None):
        data = TranslationData(config(tmp_path / str(workers)))
        data.prepare(workers)
        folders.append((data.path.name, contents(data.path)))
    assert folders[0] == folders[1] == folders[2]
    assert len(folders[0][1]["train/source.offsets"]) == 8 * 3001


BLANK, LONG, EQUAL = ("", "leer"), ("word " * 70, "Wort " * 70), ("same", "same")


def files_config(folder, cache) -> DataConfig:
    """Pairs in files, of which some are blank, too long or equal; dev and test are held out."""
    sentence = lambda n, word: f" {word} {n} {'und' if n % 2 else 'and'} {n * n % 97}"
    pairs = [(sentence(n, "number"), sentence(n, "Zahl")) for n in range(900)]
    for at, pair in ((3, LONG), (250, BLANK), (251, LONG), (600, EQUAL), (899, BLANK)):
        pairs[at] = pair
    folder.mkdir(exist_ok=True)
    for language, side in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        (folder / f"train.{language}").write_text("\n".join(side) + "\n")
    fields = dict(source="files", dir=str(folder), source_language="en", target_language="de")
    fields |= dict(dev="", test="", max_length=60, on_bad_example="skip", vocab_size=340)
    return config(cache, **fields)


def counted(monkeypatch) -> list[int]:
    """The number of sentences of each call of SentencePiece from now on."""
    counts, encode = [], Subwords.encode_flat

    def counting(self, sentences, workers):
        counts.append(len(sentences))
        return encode(self, sentences, workers)

    monkeypatch.setattr(Subwords, "encode_flat", counting)
    return counts


@pytest.mark.parametrize("writes", [1, 2, 6])
def test_a_kill_between_chunks_is_continued(tmp_path, monkeypatch, writes):
    """Killed after some records; equal bytes, and what was finished is not encoded again."""
    monkeypatch.setattr("csan_jax.data.prepare._CHUNK", 128)
    monkeypatch.setattr("common_jax.data.resume.SECONDS", 0.0)
    uninterrupted = TranslationData(files_config(tmp_path / "files", tmp_path / "once"))
    encoded = counted(monkeypatch)
    uninterrupted.prepare(1)
    total = sum(encoded)
    encoded.clear()

    def killed_after(folder, record):
        write_record(folder, record)
        writing.append(record)
        if len(writing) == writes:
            raise KeyboardInterrupt

    writing, cache = [], tmp_path / "cache"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("csan_jax.data.prepare.write_record", killed_after)
        TranslationData(files_config(tmp_path / "files", cache)).prepare(1)
    assert len(list(cache.glob("*.tmp"))) == 1
    encoded.clear()
    monkeypatch.setattr(Subwords, "train", None)  # the models are of the killed process
    again = TranslationData(files_config(tmp_path / "files", cache))
    again.prepare(3)
    assert again.path.name == uninterrupted.path.name
    assert contents(again.path) == contents(uninterrupted.path)
    assert sum(encoded) == total - 2 * 128 * min(writes - 1, 7)
    dropped = again.split_sizes()["train"][1]
    assert {reason: entry["count"] for reason, entry in dropped.items()} == {
        "empty source": 2,
        "over data.max_length=60 pieces": 2,
    }


def test_the_record_of_another_error_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr("common_jax.data.resume.SECONDS", 0.0)
    cache = tmp_path / "cache"
    data = TranslationData(
        dataclasses.replace(files_config(tmp_path / "files", cache), on_bad_example="error")
    )
    with pytest.raises(UserError, match=r"train\.en:251: empty source"):
        data.prepare()
    assert not list(cache.glob("*.tmp"))
