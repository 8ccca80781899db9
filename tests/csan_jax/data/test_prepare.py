"""Preparing: equal bytes with any number of workers (processes and kills: tests/nightly)."""

from pathlib import Path

from csan_jax.config import DataConfig
from csan_jax.data.dataset import TranslationData


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
