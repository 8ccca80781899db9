"""TensorFlow Datasets offline: preparing and reading a local builder, and one-line errors."""

import pytest

from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from tests.common_jax.data import phrasebook
from tests.common_jax.data.phrasebook import COUNTS, PAIRS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    phrasebook.register()
    folder = tmp_path_factory.mktemp("tfds")
    Dataset("phrasebook/de-en", str(folder))
    return folder


@pytest.fixture
def dataset(folder):
    return Dataset("phrasebook/de-en", str(folder))


def rows(start, stop):
    return {(german.encode(), english.encode()) for german, english in PAIRS[start:stop]}


def test_streams_what_was_prepared(dataset):
    assert dataset.texts == ("de", "en")
    start = 0
    for split, count in COUNTS.items():
        stream = list(dataset.stream(split, "data.train", ("de", "en")))
        assert len(stream) == count and set(stream) == rows(start, start + count)
        examples = dataset.source(split, "data.train")
        assert [(row["de"], row["en"]) for row in examples] == stream
        assert list(dataset.stream(split, "", ("en",))) == [(english,) for _, english in stream]
        start += count


def test_parts_of_splits_and_chunks_of_parts(dataset, monkeypatch):
    records = list(dataset.stream("train", "", ("en",)))
    assert list(dataset.stream("train[:7]", "", ("en",))) == records[:7]
    assert list(dataset.stream("train[50%:]", "", ("en",))) == records[len(records) // 2 :]
    both = list(dataset.stream("train+test", "", ("en",)))
    assert sorted(both) == sorted([*records, *dataset.stream("test", "", ("en",))])
    monkeypatch.setattr("common_jax.data.tfds._CHUNK", 7)
    assert list(dataset.stream("train", "", ("en",))) == records


def fails(name, folder, use=lambda dataset: None) -> str:
    with pytest.raises(UserError) as error:
        use(Dataset(name, str(folder)))
    assert "\n" not in str(error.value) and len(str(error.value)) < 700
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wmt14_translat/de-en", "did you mean 'wmt14_translate'?"),
        ("squat", "has no 'squat'"),
        ("phrasebook/xx", "BuilderConfig xx not found"),
        ("phrasebook/xx", "; phrasebook has de-en, en-de, "),
        ("phrasebook/de-en:9.9.9", "cannot be loaded at version 9.9.9"),
        ("a//b", "data.tfds=a//b: Parsing builder name"),
        ("phrasebook/needs-tensorflow", "needs the extra tf"),
        ("phrasebook/needs-beam", "the package no_such_package is needed"),
    ],
)
def test_unknown_names_and_missing_packages(folder, name, message):
    assert message in fails(name, folder)


@pytest.mark.parametrize("split", ["validation_", "", "train[", "train[:9%:]", "train[900:901]"])
def test_unknown_splits(folder, split):
    message = fails("phrasebook/de-en", folder, lambda d: d.source(split, "data.dev"))
    assert f"data.dev={split!r}: phrasebook/de-en has the splits train, validation, test" in message
