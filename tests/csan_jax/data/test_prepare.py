"""Preparing: equal bytes with any number of workers, one build for several processes, kills."""

import dataclasses
import logging
import os
import re
import signal
import subprocess
import sys
import time
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


def test_what_it_says(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    for word in ("prepared", "found"):
        data = TranslationData(config(tmp_path))
        data.prepare()
        data.prepare()
        data.report()
        (line,) = [r.getMessage() for r in caplog.records if r.name == "common_jax.data.prepared"]
        assert line.startswith(f"{word} 3,100 ")
        assert line.endswith(f", in {data.path}")
        speed = re.search(r"pairs in \d+ s \(([\d,]+) pairs/s\), ([\d,]+) tokens", line)
        assert bool(speed) == (word == "prepared")
        caplog.clear()


CODE = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
from tests.csan_jax.data.test_prepare import config
from csan_jax.data.dataset import TranslationData
data = TranslationData(config({cache!r}, examples={examples}))
data.prepare(1)
data.report()
"""


def start(cache, examples: int) -> subprocess.Popen:
    code = CODE.format(cache=str(cache), examples=examples)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def last_line(process: subprocess.Popen) -> str:
    return process.communicate(timeout=120)[0].splitlines()[-1]


@pytest.mark.slow
def test_two_processes_prepare_once(tmp_path):
    last_lines = sorted(map(last_line, [start(tmp_path, 4_000) for _ in range(2)]))
    assert last_lines[0].startswith("found 4,100 prepared pairs")
    assert last_lines[1].startswith("prepared 4,100 pairs in ")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_one_starts_again(tmp_path):
    """Killed while encoding; the partial files are not read as a corpus."""
    examples, cache = 24_000, tmp_path / "cache"
    process = start(cache, examples)
    deadline = time.monotonic() + 100
    while not (started := list(cache.glob("*.tmp/train/source.tokens"))):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert started[0].exists() and not [p for p in cache.iterdir() if p.suffix == ""]
    assert last_line(start(cache, examples)).startswith("prepared 24,100 pairs")
    assert not list(cache.glob("*.tmp"))
    once = TranslationData(config(tmp_path / "other", examples=examples))
    once.prepare()
    again = TranslationData(config(cache, examples=examples))
    again.prepare()
    assert contents(again.path) == contents(once.path)
