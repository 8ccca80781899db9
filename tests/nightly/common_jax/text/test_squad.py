"""SQuAD as TensorFlow Datasets prepares it."""

import pytest

from common_jax.bad_examples import BadExamples
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.text.squad import read_squad_dataset
from tests.common_jax.text.test_squad import READ, SHIFTED_ROWS, row


def register() -> None:
    """Registers `tfds.builder("quiz/...")`, with SQuAD's features."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.question_answering import qa_utils

    if "quiz" in tfds.list_builders(with_community_datasets=False):
        return

    class Quiz(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in ("v1.1", "bad")]  # noqa: RUF012

        def _info(self):
            return tfds.core.DatasetInfo(builder=self, features=qa_utils.squadlike_features())

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            rows = READ.questions if self.builder_config.name == "v1.1" else []
            for made in [*map(row, rows)] or SHIFTED_ROWS:
                yield made["id"].decode(), {"title": "", **made}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    register()
    return tmp_path_factory.mktemp("tfds")


def read(folder, name, split="train"):
    dataset = Dataset(f"quiz/{name}", str(folder))
    return read_squad_dataset(dataset, split, "data.train", BadExamples("error"))


def test_the_same_from_tensorflow_datasets(folder):
    squad = read(folder, "v1.1")
    asked = lambda squad: {
        (q.id, q.text, q.answers, squad.contexts[q.context]) for q in squad.questions
    }
    assert asked(squad) == asked(READ)
    assert all(type(answer.start) is int for q in squad.questions for answer in q.answers)


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("bad", "train", "quiz/bad train:.*several times in its context"),
        ("v1.1", "dev", r"data\.train='dev': quiz/v1\.1 has the splits train"),
    ],
)
def test_mistakes_of_datasets(folder, name, split, message):
    with pytest.raises(UserError, match=message):
        read(folder, name, split)
