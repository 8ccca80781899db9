"""SQuAD from JSON and TensorFlow Datasets: content, and one-line errors."""

import copy
import gzip
import json
from pathlib import Path

import pytest

from common_jax.bad_examples import BadExamples
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.text.squad import Answer, Question, Squad, read_squad, read_squad_dataset
from tests.real import needs_real_data, real_data

HARBOUR = "The ferry to Ashby leaves at 7:43. “Who leaves?” – the ferry."
MILL = "Zoë’s mill 🏭 was built in 1743.\nIt was rebuilt in 1801."
GOOD = {
    "version": "1.1",
    "data": [
        {
            "title": "Harbour",
            "paragraphs": [
                {
                    "context": HARBOUR,
                    "qas": [
                        {
                            "id": "h1",
                            "question": "When does the ferry leave? ",
                            "answers": [
                                {"text": "7:43", "answer_start": 29},
                                {"text": "at 7:43", "answer_start": 26, "occurrences": 2},
                            ],
                        },
                        {
                            "id": "h2",
                            "question": "What leaves?",
                            "answers": [{"text": "the ferry", "answer_start": 51}],
                        },
                    ],
                }
            ],
        },
        {"title": "Nothing", "paragraphs": []},
        {
            "title": "Mill",
            "paragraphs": [
                {"context": "No question is asked of this.", "qas": []},
                {
                    "context": MILL,
                    "qas": [
                        {
                            "id": "m1-high-conf",
                            "question": "When was Zoë’s mill built?",
                            "answers": [{"text": "1743", "answer_start": 26}],
                        }
                    ],
                },
            ],
        },
    ],
}
AT = Answer("at 7:43", 26)
READ = Squad(
    [HARBOUR, "No question is asked of this.", MILL],
    [
        Question(
            "h1", "When does the ferry leave? ", 0, (Answer("7:43", 29), Answer("at 7:43", 26))
        ),
        Question("h2", "What leaves?", 0, (Answer("the ferry", 51),)),
        Question("m1-high-conf", "When was Zoë’s mill built?", 2, (Answer("1743", 26),)),
    ],
    ["Harbour", "Mill", "Mill"],
)


def write(path: Path, data) -> Path:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1), "utf-8")
    return path


def changed(where: str, value) -> dict:
    """GOOD with the value at a path such as data.0.paragraphs replaced."""
    data = copy.deepcopy(GOOD)
    *path, last = [int(part) if part.isdigit() else part for part in where.split(".")]
    node = data
    for part in path:
        node = node[part]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return data


def says(path: Path) -> str:
    with pytest.raises(UserError) as error:
        read_squad(path, BadExamples("error"))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_reads_plain_and_gzipped(tmp_path):
    path = write(tmp_path / "dev.json", GOOD)
    packed = tmp_path / "dev.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes().replace(b"\n", b"\r\n")))
    one_line = tmp_path / "line.json"
    one_line.write_text(json.dumps(GOOD))  # \u escapes, surrogate pairs among them
    for name in (path, packed, one_line):
        assert read_squad(name, BadExamples("error")) == READ
    for question in READ.questions:
        for answer in question.answers:
            assert READ.contexts[question.context][answer.start :].startswith(answer.text)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"data": [\n  {"title": "x",}\n]}', "2:1"),  # the comma, or what is not there after it
        ('{"data": [', "1:11: not JSON (Expecting value"),
        ("", "1:1: not JSON (Expecting value"),
        ('{"data": []}\n\n\n{"data": []}', "4:1: not JSON (Extra data"),
    ],
)
def test_malformed_json_is_placed(tmp_path, text, where):
    path = tmp_path / "dev.json"
    path.write_text(text)
    with pytest.raises(json.JSONDecodeError) as error:  # versions of Python differ in what they say
        json.loads(text)
    python = error.value
    message = says(path)
    assert message == f"{path}:{python.lineno}:{python.colno}: not JSON ({python.msg})"
    assert message.startswith(f"{path}:{where}")


@pytest.mark.parametrize("text", ['{"data": ' + "[" * 100_000, '{"version": 1' + "0" * 5_000 + "}"])
def test_json_that_python_cannot_read_is_reported(tmp_path, text):
    path = tmp_path / "dev.json"
    path.write_text(text)
    assert says(path).startswith(f"{path}: not JSON that can be read")


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("data", None, "FILE: no 'data'; it has version"),
        ("data", {}, "FILE: data: an object where a list is needed"),
        ("data.1", "x", "FILE: data[1]: a string where an object is needed"),
        ("data.1.paragraphs", None, "FILE: data[1]: no 'paragraphs'; it has title"),
        ("data.0.paragraphs.0.qas", 3, "FILE: data[0].paragraphs[0].qas: a whole number where a"),
    ],
)
def test_another_form_is_an_error_whatever_the_policy(tmp_path, where, value, message):
    path = write(tmp_path / "dev.json", changed(where, value))
    assert says(path).startswith(message.replace("FILE", str(path)))
    with pytest.raises(UserError):
        read_squad(path, BadExamples("skip"))


@pytest.mark.parametrize("title", ["", 7, None, ["x"]])
def test_articles_without_a_title_have_their_number(tmp_path, title):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(changed("data.0.title", title)))
    squad = read_squad(path, BadExamples("error"))
    assert squad.articles[0] == "0" and "Mill" in squad.articles
    assert len(squad.articles) == len(squad.contexts)


@pytest.mark.parametrize("content", ["[]", "3", "null"])
def test_a_file_of_something_else(tmp_path, content):
    (tmp_path / "dev.json").write_text(content)
    assert "where an object is needed" in says(tmp_path / "dev.json")


QA = "data.0.paragraphs.0.qas"
BAD = [
    ("data.0.paragraphs.0.context", " \n", "empty context", "data[0].paragraphs[0]", {0, 1}),
    (f"{QA}.1.question", "", "empty question", "data[0].paragraphs[0].qas[1]", {1}),
    (f"{QA}.1.question", "\u3000", "empty question", "data[0].paragraphs[0].qas[1]", {1}),
    ("data.2.paragraphs.1.qas.0.id", "h1", "an id that an earlier question has", "'h1'", {2}),
    (f"{QA}.1.answers", [], "no answers", "data[0].paragraphs[0].qas[1]", {1}),
    (f"{QA}.1.answers", None, "no answers", "data[0].paragraphs[0].qas[1]", {1}),
    (f"{QA}.0.answers.1.text", " ", "empty answer", "qas[0].answers[1]", {0}),
    (f"{QA}.0.answers.1.text", "7:44", "answer not in its context", "qas[0].answers[1]", {0}),
    (f"{QA}.1.answers.0.answer_start", 52, "though elsewhere in its", "qas[1].answers[0]", {1}),
    (f"{QA}.1.answers.0.answer_start", 9999, "though elsewhere in its", "qas[1].answers[0]", {1}),
    # Python would count from the end.
    (f"{QA}.1.answers.0.answer_start", -10, "though elsewhere in its", "qas[1].answers[0]", {1}),
]


@pytest.mark.parametrize(("where", "value", "kind", "place", "lost"), BAD)
def test_bad_examples(tmp_path, where, value, kind, place, lost):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(changed(where, value)))
    message = says(path)
    assert kind in message and f"{place}: " in message and message.startswith(f"{path}: data[")
    assert "fix it, or set data.on_bad_example=skip" in message
    bad_examples = BadExamples("skip")
    squad = read_squad(path, bad_examples)
    expected = [q.id for n, q in enumerate(READ.questions) if n not in lost]
    assert [q.id for q in squad.questions] == expected
    assert [squad.contexts[q.context] for q in squad.questions] == [
        READ.contexts[q.context] for q in READ.questions if q.id in expected
    ]
    ((reason, entry),) = bad_examples.counts.items()
    assert kind in reason and entry["count"] == 1 and entry["first"][0].endswith(place)


@pytest.mark.parametrize(
    ("where", "value", "message", "lost"),
    [
        ("data.2.paragraphs.1.context", 3, "context: a whole number where a string is", {2}),
        ("data.0.paragraphs.0.context", None, "data[0].paragraphs[0]: no 'context'; it", {0, 1}),
        (f"{QA}.1.question", None, "qas[1]: no 'question'; it has id, answers", {1}),
        (f"{QA}.1.id", 12, "qas[1].id: a whole number where a string is needed", {1}),
        (f"{QA}.0.answers.1.answer_start", 26.0, "[1].answer_start: a number where a whole", {0}),
        (f"{QA}.0.answers.1.answer_start", True, "[1].answer_start: a bool where a whole", {0}),
        ("data.2.paragraphs.1.qas.0", [], "qas[0]: a list where an object is needed", {2}),
        (
            "data.0.paragraphs.0.context",
            "\udfed",
            "context: '\\udfed' is an unpaired surrogate",
            {0, 1},
        ),
        (f"{QA}.1.question", "\ud83d?", "qas[1].question: '\\ud83d' is an unpaired surrogate", {1}),
        (f"{QA}.1.id", "h\ud83d", "qas[1].id: '\\ud83d' is an unpaired surrogate", {1}),
        (f"{QA}.0.answers.0.text", "\udc00", "answers[0].text: '\\udc00' is an unpaired", {0}),
    ],
)
def test_unreadable_examples(tmp_path, where, value, message, lost):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(changed(where, value)))
    actual = says(path)
    assert message in actual and actual.startswith(f"{path}: data[")
    assert actual.endswith("; fix it, or set data.on_bad_example=skip")
    bad_examples = BadExamples("skip")
    expected = [q.id for n, q in enumerate(READ.questions) if n not in lost]
    assert [q.id for q in read_squad(path, bad_examples).questions] == expected
    ((kind, fault),) = bad_examples.counts.items()
    assert kind == "unreadable" and fault["count"] == 1 and message in fault["first"][0]


def test_a_field_with_an_unpaired_surrogate_in_its_name(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(changed("data.2.paragraphs.1.qas.0", {"\ud83d": ""})))
    bad_examples = BadExamples("skip")
    read_squad(path, bad_examples)
    ((entry),) = bad_examples.counts.values()
    assert b"no 'id'; it has \\ud83d" in entry["first"][0].encode()


def test_files_that_cannot_be_read(tmp_path):
    assert "No such file" in says(tmp_path / "dev.json")
    (tmp_path / "dev.json").write_bytes(b'{\n"data": "\xff"}')
    assert says(tmp_path / "dev.json").startswith(f"{tmp_path / 'dev.json'}:2: not UTF-8")


def register() -> None:
    """Registers `tfds.builder("quiz/...")`, with SQuAD's features or others."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.question_answering import qa_utils

    if "quiz" in tfds.list_builders(with_community_datasets=False):
        return

    class Quiz(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        BUILDER_CONFIGS = [  # noqa: RUF012
            tfds.core.BuilderConfig(name=name) for name in ("v1.1", "bad", "other", "plain")
        ]

        def _info(self):
            features = qa_utils.squadlike_features()
            if self.builder_config.name == "other":
                features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
            if self.builder_config.name == "plain":
                features = {name: tfds.features.Text() for name in ("id", "context", "question")}
                features = tfds.features.FeaturesDict(features)
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for question in READ.questions:
                shift = self.builder_config.name == "bad" and question.id == "h2"
                row = {
                    "id": question.id,
                    "title": "",
                    "context": READ.contexts[question.context],
                    "question": question.text,
                    "answers": {
                        "text": [answer.text for answer in question.answers],
                        "answer_start": [answer.start + shift for answer in question.answers],
                    },
                }
                if self.builder_config.name == "other":
                    row = {"text": question.text}
                if self.builder_config.name == "plain":
                    row = {name: row[name] for name in ("id", "context", "question")}
                yield question.id, row


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    register()
    return tmp_path_factory.mktemp("tfds")


def dataset(name: str, folder: Path) -> Dataset:
    return Dataset(f"quiz/{name}", str(folder))


def test_the_same_from_tensorflow_datasets(folder):
    squad = read_squad_dataset(dataset("v1.1", folder), "train", "data.train", BadExamples("error"))
    by_id = {q.id: q for q in squad.questions}
    assert set(squad.contexts) == {HARBOUR, MILL} and len(squad.contexts) == 2
    for expected in READ.questions:
        actual = by_id.pop(expected.id)
        assert (actual.text, actual.answers) == (expected.text, expected.answers)
        assert squad.contexts[actual.context] == READ.contexts[expected.context]
        assert all(type(answer.start) is int for answer in actual.answers)
    assert not by_id


def test_mistakes_of_datasets(folder):
    messages = []
    for name, split in [("other", "train"), ("plain", "train"), ("bad", "train"), ("v1.1", "dev")]:
        with pytest.raises(UserError) as error:
            read_squad_dataset(dataset(name, folder), split, "data.train", BadExamples("error"))
        messages.append(str(error.value))
    assert messages[0] == (
        "data.tfds=quiz/other: not of SQuAD's form: it has the texts text, and not id, context, "
        "question"
    )
    assert "quiz/plain: not of SQuAD's form: no answers with text and answer_start" in messages[1]
    assert "quiz/bad train:" in messages[2] and "though elsewhere in its context" in messages[2]
    assert "data.train='dev': quiz/v1.1 has the splits train" in messages[3]
    bad_examples = BadExamples("skip")
    squad = read_squad_dataset(dataset("bad", folder), "train", "data.train", bad_examples)
    assert {q.id for q in squad.questions} == {"h1", "m1-high-conf"}
    assert [entry["count"] for entry in bad_examples.counts.values()] == [1]


@needs_real_data
@pytest.mark.parametrize(
    ("name", "passages", "questions", "answers"),
    [
        pytest.param("squad/train-v1.1.json.gz", 18_896, 87_599, 87_599, marks=pytest.mark.slow),
        ("squad/dev-v1.1.json.gz", 2_067, 10_570, 34_726),
        ("squad_adversarial/sample1k-HCVerifyAll.json.gz", None, 3_560, None),
    ],
)
def test_real_counts(name, passages, questions, answers):
    squad = read_squad(real_data(name), BadExamples("error"))
    assert len(squad.questions) == questions
    if passages:
        assert len(squad.contexts) == passages
        assert sum(len(q.answers) for q in squad.questions) == answers
    else:
        originals = {q.id.split("-")[0] for q in squad.questions}
        assert len(originals) == 1_000 == sum("-" not in q.id for q in squad.questions)
