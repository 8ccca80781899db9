"""TensorFlow Datasets: versions, several processes, folders that cannot be used, no network."""

import json
import shutil
import subprocess
import sys

from common_jax.data.tfds import Dataset
from tests.common_jax.data import phrasebook
from tests.common_jax.data.phrasebook import COUNTS, PAIRS
from tests.common_jax.data.test_tfds import dataset, fails, folder, rows

__all__ = ["dataset", "folder"]


def test_identity_is_of_the_version_and_the_text(dataset, tmp_path, monkeypatch):
    one = dataset.identity("train")
    assert json.loads(json.dumps(one)) == one
    assert one != dataset.identity("test") != dataset.identity("test[:3]")
    for name in ("phrasebook/de-en:2.0.0", "phrasebook/en-de"):
        assert Dataset(name, str(tmp_path)).identity("train") != one
    shutil.rmtree(tmp_path)
    assert Dataset("phrasebook/de-en", str(tmp_path)).identity("train") == one
    shutil.rmtree(tmp_path)
    monkeypatch.setattr(phrasebook, "PAIRS", [(g, e + "!") for g, e in PAIRS])
    assert Dataset("phrasebook/de-en", str(tmp_path)).identity("train") != one


def test_prepared_by_another_after_it_was_opened(tmp_path, monkeypatch):
    import tensorflow_datasets as tfds

    is_prepared = tfds.core.DatasetBuilder.is_prepared

    def after_another(builder):
        with monkeypatch.context() as patch:
            patch.setattr(tfds.core.DatasetBuilder, "is_prepared", is_prepared)
            Dataset("phrasebook/de-en", str(tmp_path))
        return is_prepared(builder)

    phrasebook.register()
    monkeypatch.setattr(tfds.core.DatasetBuilder, "is_prepared", after_another)
    dataset = Dataset("phrasebook/de-en", str(tmp_path))
    assert set(dataset.stream("train", "", ("de", "en"))) == rows(0, COUNTS["train"])


def test_a_folder_that_cannot_be_written_and_files_that_only_tensorflow_reads(tmp_path):
    (tmp_path / "file").touch()
    assert "cannot be prepared in" in fails("phrasebook/de-en", tmp_path / "file")
    Dataset("phrasebook/de-en", str(tmp_path))
    (info,) = tmp_path.rglob("dataset_info.json")
    info.write_text(info.read_text().replace("array_record", "tfrecord"))
    assert "tfrecord files, and array_record is needed" in fails("phrasebook/de-en", tmp_path)


def test_wmt_is_registered_on_demand(tmp_path, monkeypatch):
    """Without a network, the error names the network, not an unknown dataset."""
    import tensorflow_datasets as tfds

    def no_network(self, **options):
        raise ConnectionError("Failed to resolve 'www.statmt.org'\n(Max retries exceeded)")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", no_network)
    for name in ("wmt14_translate/de-en", "wmt17_translate/zh-en", "ted_hrlr_translate/pt_to_en"):
        message = fails(name, tmp_path)
        assert f"data.tfds={name}: cannot be prepared in {tmp_path}: ConnectionError: " in message
        assert message.endswith("or set data.dir to where it is prepared")


CODE = """
import sys
from tests.common_jax.data import phrasebook
phrasebook.register()
from common_jax.data.tfds import Dataset
dataset = Dataset("phrasebook/de-en", {folder!r})
assert "tensorflow" not in sys.modules
print("read", len(dataset.source("train", "")), "generated", phrasebook.generated)
"""


def test_several_processes_prepare_once(tmp_path):
    command = [sys.executable, "-c", CODE.format(folder=str(tmp_path))]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0].splitlines()[-1] for process in processes]
    assert sorted(outputs) == [
        f"read {COUNTS['train']} generated {n}" for n in (0, sum(COUNTS.values()))
    ]
