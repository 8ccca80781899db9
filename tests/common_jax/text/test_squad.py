"""SQuAD from JSON and TensorFlow Datasets: content, and one-line errors."""

import copy
import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.bad_examples import BadExamples
from common_jax.errors import UserError
from common_jax.text.squad import Answer, Question, Squad, locate, read_squad, read_squad_dataset
from tests.refusals import refusal

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


QA = "data.0.paragraphs.0.qas"


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


def of_file(folder, content, policy="error"):
    """Reads a file, which has text, bytes or JSON."""
    path = folder / "dev.json"
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(content)
    bad_examples = policy if isinstance(policy, BadExamples) else BadExamples(policy)
    return read_squad(path, bad_examples)


def says(folder, content, policy="error") -> str:
    """The message without the folder."""
    return refusal(of_file, folder, content, policy).replace(f"{folder}/", "")


INDENTED = json.dumps(GOOD, ensure_ascii=False, indent=1).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dev.json", INDENTED),
        ("dev.json.gz", gzip.compress(INDENTED.replace(b"\n", b"\r\n"))),
        ("dev.json", json.dumps(GOOD).encode()),  # \u escapes, surrogate pairs among them
    ],
    ids=["indented", "gzipped", "one line"],
)
def test_reads_plain_and_gzipped(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert read_squad(tmp_path / name, BadExamples("error")) == READ


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # the comma, or what is not there after it
        ('{"data": [\n  {"title": "x",}\n]}', "dev.json:2:1"),
        ("", "dev.json:1:1: not JSON"),
        ('{"data": []}\n\n\n{"data": []}', "dev.json:4:1: not JSON"),
        ('{"data": ' + "[" * 100_000, "dev.json: not JSON"),
        ('{"version": 1' + "0" * 5_000 + "}", "dev.json: not JSON"),
        (b'{\n"data": "\xff"}', "dev.json:2: not UTF-8"),
        ("null", "dev.json: null where an object"),
        (changed("data", None), "dev.json: no 'data'; it has version"),
        (changed("data", {}), "dev.json: data: an object where a list"),
        (changed("data.1", "x"), "dev.json: data[1]: a string where an object"),
        (changed("data.1.paragraphs", None), "dev.json: data[1]: no 'paragraphs'; it has title"),
        (changed(QA, 3), "dev.json: data[0].paragraphs[0].qas: a whole number where a"),
    ],
)
@pytest.mark.parametrize("policy", ["error", "skip"])
def test_another_form_is_an_error_whatever_the_policy(tmp_path, content, message, policy):
    assert says(tmp_path, content, policy).startswith(message)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_squad(tmp_path / "dev.json", BadExamples("error"))


@pytest.mark.parametrize("title", ["", 7, None, ["x"]])
def test_articles_without_a_title_have_their_number(tmp_path, title):
    squad = of_file(tmp_path, changed("data.0.title", title))
    assert squad.articles[0] == "0" and "Mill" in squad.articles
    assert len(squad.articles) == len(squad.contexts)


MILLS = "data.2.paragraphs.1"
SHIFTED = "answer not at its answer_start, and several times in its context"
# path of a value, another value, the kind of mistake, words of the message, the questions lost
BAD = [
    ("data.0.paragraphs.0.context", " \n", "empty context", "data[0].paragraphs[0]: ", {0, 1}),
    (f"{QA}.1.question", "\u3000", "empty question", "data[0].paragraphs[0].qas[1]: ", {1}),
    (f"{MILLS}.qas.0.id", "h1", "an id that an earlier question has", "'h1': ", {2}),
    (f"{QA}.1.answers", [], "no answers", "data[0].paragraphs[0].qas[1]: ", {1}),
    (f"{QA}.1.answers", None, "no answers", "data[0].paragraphs[0].qas[1]: ", {1}),
    (f"{QA}.1.answers.0.text", " ", "empty answer", "qas[1].answers[0]: ", {1}),
    (f"{QA}.1.answers.0.text", "7:44", "answer not in its context", "qas[1].answers[0]: ", {1}),
    # Python would count from the end.
    (f"{QA}.1.answers.0", {"text": "ferry", "answer_start": -6}, SHIFTED, "answers[0]: ", {1}),
    (f"{MILLS}.context", 3, "unreadable", "context: a whole number where", {2}),
    (f"{QA}.1.question", None, "unreadable", "qas[1]: no 'question'; it has id, answers", {1}),
    (f"{QA}.0.answers.1.answer_start", 26.0, "unreadable", "answer_start: a number where", {0}),
    (f"{MILLS}.qas.0", [], "unreadable", "qas[0]: a list where", {2}),
    ("data.0.paragraphs.0.context", "\udfed", "unreadable", "'\\udfed' is an unpaired", {0, 1}),
    (f"{MILLS}.qas.0", {"\ud83d": ""}, "unreadable", "no 'id'; it has \\ud83d", {2}),
    (f"{QA}.0.answers.0.text", "\udc00", "unreadable", "answers[0].text: '\\udc00' is an", {0}),
]


@pytest.mark.parametrize(("where", "value", "kind", "words", "lost"), BAD)
def test_bad_examples_are_reported_or_left_out(tmp_path, where, value, kind, words, lost):
    message = says(tmp_path, changed(where, value))
    assert message.startswith("dev.json: data[") and words in message
    assert kind in message or kind == "unreadable"
    assert message.endswith("; fix it, or set data.on_bad_example=skip")
    bad_examples = BadExamples("skip")
    squad = of_file(tmp_path, changed(where, value), bad_examples)
    expected = [q for n, q in enumerate(READ.questions) if n not in lost]
    asked = lambda squad, questions: [(q.id, squad.contexts[q.context]) for q in questions]
    assert asked(squad, squad.questions) == asked(READ, expected)
    ((reason, entry),) = bad_examples.counts.items()
    assert reason == kind and entry["count"] == 1
    assert words.removesuffix(": ") in entry["first"][0]


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_a_wrong_answer_beside_others_is_left_out(tmp_path, policy):
    bad_examples = BadExamples(policy)
    squad = of_file(tmp_path, changed(f"{QA}.0.answers.1.text", "7:44"), bad_examples)
    first = READ.questions[0].answers
    assert squad.questions[0].answers == first[:1] + first[2:]
    assert squad.questions[1:] == READ.questions[1:]
    ((reason, entry),) = bad_examples.counts.items()
    assert (reason, entry["count"]) == ("answer not in its context, beside others", 1)


def test_answers_that_are_counted_otherwise_are_logged(tmp_path, caplog):
    start = READ.questions[1].answers[0].start
    squad = of_file(tmp_path, changed(f"{QA}.1.answers.0.answer_start", start + 1))
    assert squad.questions == READ.questions
    assert "1 answers were not at their answer_start: taken where their text" in caplog.text


def dataset(rows, texts=("id", "context", "question")):
    """As TensorFlow Datasets has it."""
    return SimpleNamespace(name="quiz/v1", texts=texts, source=lambda *_: rows)


def row(question):
    starts = [np.int32(answer.start) for answer in question.answers]
    answers = {"text": [a.text.encode() for a in question.answers], "answer_start": starts}
    texts = {"id": question.id, "question": question.text}
    texts |= {"context": READ.contexts[question.context]}
    return {name: text.encode() for name, text in texts.items()} | {"answers": answers}


def test_the_same_from_a_dataset():
    made = dataset([row(question) for question in READ.questions])
    squad = read_squad_dataset(made, "train", "data.train", BadExamples("error"))
    assert set(squad.contexts) == {HARBOUR, MILL} and len(squad.contexts) == 2
    for actual, expected in zip(squad.questions, READ.questions, strict=True):
        assert (actual.id, actual.text) == (expected.id, expected.text)
        assert actual.answers == expected.answers
        assert squad.contexts[actual.context] == READ.contexts[expected.context]
        assert all(type(answer.start) is int for answer in actual.answers)


SHIFTED_ROWS = [row(question) for question in READ.questions]
SHIFTED_ROWS[1]["answers"]["text"] = [b"leaves"]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (dataset([], ("text",)), "data.tfds=quiz/v1: not of SQuAD's form"),
        (dataset([{"id": b"1", "context": b"a b", "question": b"c?"}]), "no answers with text"),
        (dataset(SHIFTED_ROWS), "quiz/v1 train:.*several times in its context"),
    ],
)
def test_mistakes_of_datasets(made, message):
    with pytest.raises(UserError, match=message):
        read_squad_dataset(made, "train", "data.train", BadExamples("error"))


def test_bad_examples_of_datasets_are_left_out():
    bad_examples = BadExamples("skip")
    squad = read_squad_dataset(dataset(SHIFTED_ROWS), "train", "data.train", bad_examples)
    assert {q.id for q in squad.questions} == {"h1", "m1-high-conf"}
    assert [entry["count"] for entry in bad_examples.counts.values()] == [1]


CONTEXT = "Zoë 😀 wohnt in Köln.\r\nDas heißt „Ecke“, „Ecke“."


@pytest.mark.parametrize("counted", [0, 19, 10**9, -5, None])
@pytest.mark.parametrize("text", ["Köln", "  Köln\t", "😀", "Zoë", "heißt „"])
def test_a_text_that_stands_once_is_taken_there(text, counted):
    """Whatever its start is: in bytes, in units of UTF-16, from 1."""
    found = text if text in CONTEXT else text.strip()
    assert locate(text, counted, CONTEXT) == Answer(found, CONTEXT.index(found))


TEXT = st.text(st.sampled_from("aäe\u0308\n\r😀각 ."), max_size=12)


@given(TEXT, TEXT, TEXT, st.none() | st.integers(-3, 20))
def test_an_answer_is_always_a_span_and_at_its_start_if_it_is_there(before, text, after, start):
    context = before + text + after
    if text.strip():
        assert locate(text, len(before), context) == Answer(text, len(before))
    try:
        answer = locate(text, start, context)
    except ValueError:
        return
    assert context.startswith(answer.text, answer.start) and answer.text.strip()
    at_start = start is not None and start >= 0 and context.startswith(text, start)
    places = [n for n in range(len(context)) if context.startswith(answer.text, n)]
    assert answer == Answer(text, start) if at_start else places == [answer.start]
