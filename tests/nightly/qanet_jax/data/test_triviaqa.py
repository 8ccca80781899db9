"""TriviaQA of TensorFlow Datasets, and distantly supervised spans of real documents."""

import gzip
import json

import pytest

from common_jax.bad_examples import BadExamples
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from qanet_jax.data.triviaqa import (
    TRAIN_WINDOW,
    Document,
    Trivia,
    read_dataset,
    read_sample,
    supervise,
)
from tests.real import needs_real_data, real_data


def register() -> None:
    """Registers `tfds.builder("pubquiz/...")`, with the features of trivia_qa that are read."""
    import tensorflow_datasets as tfds

    if "pubquiz" in tfds.list_builders(with_community_datasets=False):
        return
    text = tfds.features.Text()
    texts = lambda *names: {name: text for name in names}

    class Pubquiz(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        BUILDER_CONFIGS = [  # noqa: RUF012
            tfds.core.BuilderConfig(name=name) for name in ("rc", "other")
        ]

        def _info(self):
            features = {
                **texts("question", "question_id"),
                "entity_pages": tfds.features.Sequence(texts("filename", "wiki_context")),
                "search_results": tfds.features.Sequence(texts("filename")),
                "answer": {
                    "aliases": tfds.features.Sequence(text),
                    "normalized_aliases": tfds.features.Sequence(text),
                },
            }
            if self.builder_config.name == "other":
                features = texts("question", "question_id")
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, dl_manager):
            return {"validation": self._generate_examples()}

        def _generate_examples(self):
            for key, name, web in [("a", "q1", 0), ("b", "q1", 0), ("c", "q2", 2), ("d", "q3", 0)]:
                row = {"question": f"Who is {name}?", "question_id": name}
                if self.builder_config.name == "other":
                    yield key, row
                    continue
                pages = ["x", "y"] if name != "q3" else []
                row["entity_pages"] = {
                    "filename": [f"{page}.txt" for page in pages],
                    "wiki_context": [f"Bo of {page} – é" for page in pages],
                }
                row["search_results"] = {"filename": ["w"] * web}
                row["answer"] = {"aliases": ["Bo", "Bó"], "normalized_aliases": ["bo"]}
                yield key, row


def test_tensorflow_datasets(tmp_path):
    register()
    dataset = Dataset("pubquiz/rc", str(tmp_path))
    bad_examples = BadExamples("error")
    (trivia,) = read_dataset(dataset, "validation", "data.dev", bad_examples)
    documents = tuple(Document(f"{page}.txt", f"Bo of {page} – é") for page in "xy")
    assert trivia == Trivia("q1", "Who is q1?", ("Bo", "Bó", "bo"), ("bo",), False, documents)
    assert {kind: fault["count"] for kind, fault in bad_examples.counts.items()} == {
        "question of the web domain": 1,
        "repeated question": 1,
        "question without a document": 1,
    }
    with pytest.raises(UserError, match=r"data\.dev='dev': pubquiz/rc has the splits validation"):
        list(read_dataset(dataset, "dev", "data.dev", bad_examples))
    other = Dataset("pubquiz/other", str(tmp_path))
    with pytest.raises(UserError, match=r"pubquiz/other: not of the form of trivia_qa/rc \(KeyEr"):
        list(read_dataset(other, "validation", "data.dev", bad_examples))


@needs_real_data
@pytest.mark.parametrize(
    ("name", "questions", "expected", "blank"),
    [("wiki_dev_7993", 7_983, 4_719, 3), ("wiki_train_sample", 772, 492, 0)],
)
def test_real_spans(name, questions, expected, blank):
    """Agrees with reference spans, except for a no-break space in a name."""
    path = real_data(f"triviaqa_short/{name}.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        spans = {row["id"]: row["span"] for row in map(json.loads, file)}
    read = list(read_sample(path, BadExamples("error")))
    assert len(read) == len(spans) == questions
    assert sum(span is not None for span in spans.values()) == expected
    # A subset in both formats, for speed: one in ten, and all that could differ.
    odd = [q for q in read if spans[q.id] is None and "\u00a0" in q.documents[0].text]
    some = [q for q in read[::10] if q not in odd]
    bad_examples = BadExamples("error")
    squad = supervise(odd + some, TRAIN_WINDOW, 0, bad_examples)
    by_id = {q.id.split("--")[0]: q for q in squad.questions}
    assert len([q for q in odd if q.id in by_id]) == blank
    assert {q.id for q in some if q.id in by_id} == {q.id for q in some if spans[q.id]}
    for trivia in some:
        if trivia.id in by_id:  # contexts are short: the window is all of them
            question = by_id[trivia.id]
            shift = trivia.documents[0].text.index(squad.contexts[question.context])
            assert question.answers[0].start + shift <= spans[trivia.id][0]
