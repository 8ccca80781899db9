"""One build for several processes, kills while encoding, and unsuitable TensorFlow Datasets."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common_jax.errors import UserError
from csan_jax.data.dataset import TranslationData
from tests.csan_jax.data.test_prepare import config, contents
from tests.csan_jax.data.test_sources import TFDS, read, tfds
from tests.families.data.corpora import dropped, translation, translation_config

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
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def last_line(process: subprocess.Popen) -> str:
    return process.communicate(timeout=120)[0].splitlines()[-1]


def test_two_processes_prepare_once(tmp_path):
    last_lines = sorted(map(last_line, [start(tmp_path, 4_000) for _ in range(2)]))
    assert last_lines[0].startswith("found 4,100 prepared pairs")
    assert last_lines[1].startswith("prepared 4,100 pairs in ")


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


__all__ = ["tfds"]


def test_bad_records_are_reported(tfds):
    broken = TFDS | {"tfds": "phrasebook/broken"}
    with pytest.raises(UserError, match=r"phrasebook/broken (train|test):\d+: .*on_bad_example"):
        translation(tfds, **broken)
    pairs, _, bad = read(translation_config(tfds, **broken), policy="skip")
    assert ("zwei Zeilen", "two lines") in pairs and len(pairs) == 77
    assert {kind: len(first) for kind, first in bad.items()} == {"not UTF-8": 1, "empty source": 2}
    data = translation(tfds, **broken, on_bad_example="skip")
    assert dropped(data, "test") == {"empty target": 1}
    assert len(data.sources("test")) == len(data.references("test")) == 24
