"""TriviaQA in its three formats: the release, JSON lines, TensorFlow Datasets."""

import gzip
import json
from pathlib import Path

import pytest

from common_jax.bad_examples import BadExamples
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from qanet_jax.data.triviaqa import (
    Document,
    Trivia,
    read_dataset,
    read_release,
    read_sample,
)

SUNSET = {
    "Answer": {
        "Aliases": ["Sunset Blvd", "Sunset Boulevard", "Sunset Blvd."],
        "MatchedWikiEntityName": "Sunset Boulevard",
        "NormalizedAliases": ["sunset blvd", "sunset boulevard"],
        "NormalizedMatchedWikiEntityName": "sunset boulevard",
        "NormalizedValue": "sunset boulevard",
        "Type": "WikipediaEntity",
        "Value": "Sunset Boulevard",
    },
    "EntityPages": [
        {"DocSource": "TagMe", "Filename": "Andrew_Lloyd_Webber.txt", "Title": "A. L. W."},
        {"DocSource": "Search", "Filename": "Évita.txt", "Title": "Évita"},
    ],
    "Question": "Which Lloyd Webber musical premiered in the US on 10th December 1993?",
    "QuestionId": "tc_33",
    "QuestionPartOfVerifiedEval": True,
    "QuestionSource": "http://www.triviacountry.com/",
    "QuestionVerifiedEvalAttempt": True,
}
TEXTS = {
    "Andrew_Lloyd_Webber.txt": "He wrote Cats.\nThen came  sunset\nblvd. and more.\n",
    "Évita.txt": "Nothing of it here.",
}
PLAIN = Trivia(
    "tc_33",
    SUNSET["Question"],
    ("Sunset Boulevard", "Sunset Blvd", "Sunset Blvd.", "sunset blvd", "sunset boulevard"),
    ("sunset blvd", "sunset boulevard"),
    True,
    tuple(Document(name, text.removesuffix("\n")) for name, text in TEXTS.items()),
)


def release(folder: Path, *questions: dict) -> Path:
    """Writes the official folders, with these questions."""
    (folder / "qa").mkdir(exist_ok=True)
    (folder / "evidence" / "wikipedia").mkdir(parents=True, exist_ok=True)
    for name, text in TEXTS.items():
        (folder / "evidence" / "wikipedia" / name).write_text(text, "utf-8")
    path = folder / "qa" / "wikipedia-dev.json"
    data = {"Data": questions, "Domain": "Wikipedia", "VerifiedEval": False, "Version": 1.0}
    path.write_text(json.dumps(data, indent=4))
    return path


def read(path: Path, policy="error") -> tuple[list[Trivia], dict[str, int]]:
    bad_examples = BadExamples(policy)
    questions = list(read_release(path, bad_examples))
    return questions, {kind: fault["count"] for kind, fault in bad_examples.counts.items()}


def says(path: Path) -> str:
    with pytest.raises(UserError) as error:
        read(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_release(tmp_path):
    assert read(release(tmp_path, SUNSET)) == ([PLAIN], {})
    human = {**SUNSET["Answer"], "HumanAnswers": ["Sunset", "The Boulevard!"]}
    number = {"Type": "Numerical", "Value": "7", "Aliases": ["7", "seven"], "Number": "7"}
    number |= {"NormalizedAliases": ["7", "seven"]}
    (first, second), dropped = read(
        release(
            tmp_path,
            {**SUNSET, "Answer": human},
            {**SUNSET, "QuestionId": "b", "Answer": number, "QuestionPartOfVerifiedEval": False},
        )
    )
    assert first.golds == ("sunset blvd", "sunset boulevard", "sunset", "boulevard")
    assert (
        first.aliases == PLAIN.aliases
    )  # annotators' answers are gold, but not searched in documents
    assert (second.aliases, second.verified) == (("7", "seven"), False)
    assert not dropped


def test_file_names_in_another_case(tmp_path):
    pages = [{"Filename": "andrew_lloyd_WEBBER.txt"}, {"Filename": "E\u0301vita.txt"}]
    ((trivia,), _) = read(release(tmp_path, {**SUNSET, "EntityPages": pages}))
    assert [document.text for document in trivia.documents] == [d.text for d in PLAIN.documents]


def test_skipped_pages_and_questions(tmp_path):
    pages = [*SUNSET["EntityPages"], {"Title": "a page that was never stored"}]
    path = release(
        tmp_path, {**SUNSET, "EntityPages": pages}, {**SUNSET, "QuestionId": "b", "EntityPages": []}
    )
    assert read(path) == ([PLAIN], {"page without a file": 1, "question without a document": 1})
    path = release(tmp_path, {**SUNSET, "EntityPages": [*pages, {"Filename": "Gone.txt"}]})
    place = f"{path}: Data[0].EntityPages[3] 'Gone.txt'"
    assert says(path).startswith(f"{place}: no such file in {tmp_path}/evidence/wikipedia; fix")
    questions, counts = read(path, "skip")
    assert questions == [PLAIN]
    assert counts[f"no such file in {tmp_path}/evidence/wikipedia"] == 1
    path = release(tmp_path, SUNSET, {**SUNSET, "QuestionId": "b", "Question": " "})
    assert f"{path}: Data[1]: empty question; fix it" in says(path)
    unanswered = {key: SUNSET[key] for key in ("Question", "EntityPages")} | {"QuestionId": "b"}
    for answer in ({}, {"Answer": {}}, {"Answer": {"Aliases": [], "NormalizedAliases": [" "]}}):
        path = release(tmp_path, SUNSET, {**unanswered, **answer})  # as in the test file
        assert f"{path}: Data[1]: no answers; fix it" in says(path)
        assert read(path, "skip") == ([PLAIN], {"no answers": 1})


def test_a_document_that_is_no_text(tmp_path):
    path = release(tmp_path, SUNSET)
    file = tmp_path / "evidence" / "wikipedia" / "Évita.txt"
    file.write_bytes(b"one\n\xff")
    assert says(path).startswith(f"{file}:2: not UTF-8 (byte 0xff")
    ((trivia,), counts) = read(path, "skip")
    assert trivia.documents == PLAIN.documents[:1] and counts == {"unreadable": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"QuestionId": 3}, "Data[1].QuestionId: a whole number where a string is needed"),
        ({"Answer": {"Aliases": ["a", None]}}, "Data[1].Answer.Aliases[1]: null where a string"),
        ({"Question": "\ud83d"}, "Data[1].Question: '\\ud83d' is an unpaired surrogate"),
        ({"EntityPages": [{"Filename": 3}]}, "Data[1].EntityPages[0].Filename: a whole number"),
        ({}, "Data[1] 'tc_33': an id that an earlier question has; fix it"),
    ],
)
def test_another_form(tmp_path, changes, message):
    path = release(tmp_path, SUNSET, {**SUNSET, **changes})
    assert says(path).startswith(f"{path}: {message}")
    assert read(path, "skip")[0] == [PLAIN]


def test_missing_evidence(tmp_path):
    path = release(tmp_path, SUNSET)
    (tmp_path / "evidence").rename(tmp_path / "elsewhere")
    assert says(path) == (
        f"{tmp_path}/evidence/wikipedia: no such folder; unpack the release's evidence"
    )


def test_the_sample(tmp_path):
    path = tmp_path / "dev.jsonl.gz"
    row = {"id": "a", "question": "Who?", "aliases": ["Bo", "Bo", " "], "context": "Bo.", "span": 3}
    path.write_bytes(gzip.compress(json.dumps(row).encode() + b"\n\n"))
    assert list(read_sample(path, BadExamples("error"))) == [
        Trivia("a", "Who?", ("Bo",), ("Bo",), False, (Document("a", "Bo."),))
    ]
    path = tmp_path / "dev.jsonl"
    for bad, message in [
        (row, ":2 'a': an id that an earlier question has; fix it, or set "),
        ({**row, "id": "b", "question": ""}, ":2: empty question; fix it, or set "),
        ({**row, "id": "b", "aliases": [" "]}, ":2: no answers; fix it, or set "),
        (3, ":2: a whole number where an object is needed"),
        ("[" * 100_000, ":2: not JSON that can be read"),
        ({**row, "id": "b", "context": "Bo \ud83d"}, ": context: '\\ud83d' is an unpaired"),
        ("\udcff", ":2: not UTF-8 (byte 0xff after 0 bytes)"),
    ]:
        line = bad if isinstance(bad, str) else json.dumps(bad)
        lines = [json.dumps(row), line, json.dumps({**row, "id": "last"})]
        path.write_text("\n".join(lines), "utf-8", "surrogateescape")
        with pytest.raises(UserError) as error:
            list(read_sample(path, BadExamples("error")))
        actual = str(error.value)
        assert actual.startswith(f"{path}:2")
        assert message in actual and "on_bad_example=skip" in actual
        bad_examples = BadExamples("skip")
        assert [trivia.id for trivia in read_sample(path, bad_examples)] == ["a", "last"]
        assert [fault["count"] for fault in bad_examples.counts.values()] == [1]


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
