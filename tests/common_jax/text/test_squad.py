"""SQuAD from JSON and TensorFlow Datasets: content, and one-line errors."""

import copy
import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from common_jax.bad_examples import BadExamples
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.text.squad import Answer, Question, Squad, read_squad, read_squad_dataset
from tests.real import needs_real_data, real_data

HARBOUR = "The ferry to Ashby leaves at 7:43. “Who leaves?” – the ferry."
MILL = "Zoë’s mill 🏭 was built in 1743.\nIt was rebuilt in 1801."


def question(name, text, *answers):
    """A question of a file, with (text, start) of each answer."""
    spans = [{"text": text, "answer_start": start, "occurrences": 2} for text, start in answers]
    return {"id": name, "question": text, "answers": spans}


def passage(context, *questions):
    return {"context": context, "qas": [*questions]}


ASKED = [
    question("h1", "When does the ferry leave? ", ("7:43", 29), ("at 7:43", 26)),
    question("h2", "What leaves?", ("the ferry", 51)),
    question("m1-high-conf", "When was Zoë’s mill built?", ("1743", 26)),
]
UNASKED = "No question is asked of this."
ARTICLES = [("Harbour", [passage(HARBOUR, *ASKED[:2])]), ("Nothing", [])]
ARTICLES += [("Mill", [passage(UNASKED), passage(MILL, ASKED[2])])]
GOOD = {"version": "1.1", "data": [{"title": t, "paragraphs": parts} for t, parts in ARTICLES]}
READ = Squad(
    [HARBOUR, UNASKED, MILL],
    [
        Question("h1", ASKED[0]["question"], 0, (Answer("7:43", 29), Answer("at 7:43", 26))),
        Question("h2", "What leaves?", 0, (Answer("the ferry", 51),)),
        Question("m1-high-conf", ASKED[2]["question"], 2, (Answer("1743", 26),)),
    ],
    ["Harbour", "Mill", "Mill"],
)


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
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(GOOD, ensure_ascii=False, indent=1), "utf-8")
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
        ("", "1:1: not JSON (Expecting value"),
        ('{"data": []}\n\n\n{"data": []}', "4:1: not JSON (Extra data"),
        ('{"data": ' + "[" * 100_000, " not JSON that can be read"),
        ('{"version": 1' + "0" * 5_000 + "}", " not JSON that can be read"),
    ],
)
def test_malformed_json_is_placed(tmp_path, text, where):
    path = tmp_path / "dev.json"
    path.write_text(text)
    assert says(path).startswith(f"{path}:{where}")


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
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(changed(where, value)))
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


QA = "data.0.paragraphs.0.qas"
SHIFTED = "answer not at its answer_start, though elsewhere in its context"
# path of a value, another value, the kind of mistake, words of the message, the questions lost
BAD = [
    ("data.0.paragraphs.0.context", " \n", "empty context", "data[0].paragraphs[0]: ", {0, 1}),
    (f"{QA}.1.question", "\u3000", "empty question", "data[0].paragraphs[0].qas[1]: ", {1}),
    ("data.2.paragraphs.1.qas.0.id", "h1", "an id that an earlier question has", "'h1': ", {2}),
    (f"{QA}.1.answers", [], "no answers", "data[0].paragraphs[0].qas[1]: ", {1}),
    (f"{QA}.1.answers", None, "no answers", "data[0].paragraphs[0].qas[1]: ", {1}),
    (f"{QA}.1.answers.0.text", " ", "empty answer", "qas[1].answers[0]: ", {1}),
    (f"{QA}.1.answers.0.text", "7:44", "answer not in its context", "qas[1].answers[0]: ", {1}),
    (f"{QA}.1.answers.0.answer_start", 9999, SHIFTED, "qas[1].answers[0]: ", {1}),
    # Python would count from the end.
    (f"{QA}.1.answers.0.answer_start", -10, SHIFTED, "qas[1].answers[0]: ", {1}),
    ("data.2.paragraphs.1.context", 3, "unreadable", "context: a whole number where a string", {2}),
    (f"{QA}.1.question", None, "unreadable", "qas[1]: no 'question'; it has id, answers", {1}),
    (f"{QA}.0.answers.1.answer_start", 26.0, "unreadable", "answer_start: a number where a", {0}),
    ("data.2.paragraphs.1.qas.0", [], "unreadable", "qas[0]: a list where an object is", {2}),
    (
        "data.0.paragraphs.0.context",
        "\udfed",
        "unreadable",
        "'\\udfed' is an unpaired surrogate",
        {0, 1},
    ),
    ("data.2.paragraphs.1.qas.0", {"\ud83d": ""}, "unreadable", "no 'id'; it has \\ud83d", {2}),
    (
        f"{QA}.0.answers.0.text",
        "\udc00",
        "unreadable",
        "answers[0].text: '\\udc00' is an unpaired",
        {0},
    ),
]


@pytest.mark.parametrize(("where", "value", "kind", "words", "lost"), BAD)
def test_bad_examples_are_reported_or_left_out(tmp_path, where, value, kind, words, lost):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(changed(where, value)))
    message = says(path)
    assert message.startswith(f"{path}: data[") and words in message
    assert kind in message or kind == "unreadable"
    assert message.endswith("; fix it, or set data.on_bad_example=skip")
    bad_examples = BadExamples("skip")
    squad = read_squad(path, bad_examples)
    expected = [q for n, q in enumerate(READ.questions) if n not in lost]
    assert [q.id for q in squad.questions] == [q.id for q in expected]
    assert [squad.contexts[q.context] for q in squad.questions] == [
        READ.contexts[q.context] for q in expected
    ]
    ((reason, entry),) = bad_examples.counts.items()
    assert reason == kind and entry["count"] == 1
    assert words.removesuffix(": ") in entry["first"][0]


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_a_wrong_answer_beside_others_is_left_out(tmp_path, policy):
    path, bad_examples = tmp_path / "dev.json", BadExamples(policy)
    path.write_text(json.dumps(changed(f"{QA}.0.answers.1.text", "7:44")))
    squad = read_squad(path, bad_examples)
    first = READ.questions[0].answers
    assert squad.questions[0].answers == first[:1] + first[2:]
    assert squad.questions[1:] == READ.questions[1:]
    ((reason, entry),) = bad_examples.counts.items()
    assert (reason, entry["count"]) == ("answer not in its context, beside others", 1)


def test_answers_that_are_counted_otherwise_are_logged(tmp_path, caplog):
    path = tmp_path / "dev.json"
    start = READ.questions[1].answers[0].start
    path.write_text(json.dumps(changed(f"{QA}.1.answers.0.answer_start", start + 1)))
    assert read_squad(path, BadExamples("error")).questions == READ.questions
    assert "1 answers were off by one: taken at their place" in caplog.text


def test_files_that_cannot_be_read(tmp_path):
    assert "No such file" in says(tmp_path / "dev.json")
    (tmp_path / "dev.json").write_text("null")
    assert "where an object is needed" in says(tmp_path / "dev.json")
    (tmp_path / "dev.json").write_bytes(b'{\n"data": "\xff"}')
    assert says(tmp_path / "dev.json").startswith(f"{tmp_path / 'dev.json'}:2: not UTF-8")


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
            for question in READ.questions:
                shift = 9 * (self.builder_config.name == "bad" and question.id == "h2")
                row = {
                    **{"id": question.id, "title": "", "question": question.text},
                    "context": READ.contexts[question.context],
                    "answers": {
                        "text": [answer.text for answer in question.answers],
                        "answer_start": [answer.start + shift for answer in question.answers],
                    },
                }
                yield question.id, row


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    register()
    return tmp_path_factory.mktemp("tfds")


def test_the_same_from_tensorflow_datasets(folder):
    dataset = Dataset("quiz/v1.1", str(folder))
    squad = read_squad_dataset(dataset, "train", "data.train", BadExamples("error"))
    by_id = {q.id: q for q in squad.questions}
    assert set(squad.contexts) == {HARBOUR, MILL} and len(squad.contexts) == 2
    for expected in READ.questions:
        actual = by_id.pop(expected.id)
        assert (actual.text, actual.answers) == (expected.text, expected.answers)
        assert squad.contexts[actual.context] == READ.contexts[expected.context]
        assert all(type(answer.start) is int for answer in actual.answers)
    assert not by_id


def test_mistakes_of_datasets(folder):
    def fails(dataset, split="train"):
        with pytest.raises(UserError) as error:
            read_squad_dataset(dataset, split, "data.train", BadExamples("error"))
        return str(error.value)

    row = {"id": b"1", "context": b"a b", "question": b"c?"}
    other = SimpleNamespace(name="quiz/other", texts=("text",), source=lambda *_: [])
    plain = SimpleNamespace(name="quiz/plain", texts=tuple(row), source=lambda *_: [row])
    bad, good = (Dataset(f"quiz/{name}", str(folder)) for name in ("bad", "v1.1"))
    assert fails(other) == (
        "data.tfds=quiz/other: not of SQuAD's form: it has the texts text, and not id, context, "
        "question"
    )
    assert "quiz/plain: not of SQuAD's form: no answers with text and answer_start" in fails(plain)
    message = fails(bad)
    assert "quiz/bad train:" in message and "though elsewhere in its context" in message
    assert "data.train='dev': quiz/v1.1 has the splits train" in fails(good, "dev")
    bad_examples = BadExamples("skip")
    squad = read_squad_dataset(bad, "train", "data.train", bad_examples)
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
