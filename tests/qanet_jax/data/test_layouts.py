"""Questions as people have them are prepared, and scored, as SQuAD's JSON is."""

import io
import json
import logging
import math
import re

import pytest

from common_jax.deploy.records import JsonLines, file_records
from common_jax.errors import UserError
from common_jax.predictor import Unanswered
from common_jax.predictor_schema import Schema, Text
from common_jax.text.squad import Squad, write_squad
from qanet_jax.config import DataConfig
from qanet_jax.score import is_adversarial, score_files
from tests.common_jax.data.other_tools import (
    COMPRESSIONS,
    FORMATS,
    comma_separated,
    copied,
    indented,
    json_lines,
    parquet,
    shards,
)
from tests.qanet_jax.data.test_data import FACTS, LONG, prepared

QUESTIONS = [  # context, id, question, answers
    (FACTS, "a", "Where was Ada born?", ["Paris", "in Paris"]),
    (FACTS, "b", "When was she born?", ["1901"]),
    (LONG, "c", "Which is the last?", ["Word59"]),
    (LONG, "d", "And the tenth?", ["Word9 and number 9"]),
    ("Two words.", "e", "How many words are there?", ["Two", "Two words"]),
]
TITLES = {FACTS: "Ada", LONG: "Numbers", "Two words.": "Numbers"}


def native(folder, name="native.json", impossible=(), **changes):
    """SQuAD's JSON, with questions that have no answer."""
    data = []
    for title in dict.fromkeys(TITLES.values()):
        paragraphs = [
            {"context": context, "qas": [
                {"id": i, "question": q, "is_impossible": i in impossible,
                 "answers": [] if i in impossible else answers(context, texts)}
                for of, i, q, texts in QUESTIONS if of == context]}
            for context in TITLES if TITLES[context] == title
        ]  # fmt: skip
        data.append({"title": title, "paragraphs": paragraphs})
    (folder / name).write_text(json.dumps({"version": "v2.0", "data": data}))
    return prepared(folder, train=name, dev=copied(folder, name), on_bad_example="error", **changes)


def answers(context, texts):
    return [{"text": text, "answer_start": context.index(text)} for text in texts]


def hub(impossible=()):
    """Rows of the hub's squad and squad_v2."""
    rows = []
    for context, i, question, texts in QUESTIONS:
        texts = [] if i in impossible else texts
        starts = [context.index(text) for text in texts]
        row = {"id": i, "title": TITLES[context], "context": context, "question": question}
        rows.append({**row, "answers": {"text": texts, "answer_start": starts}})
    return rows


def arrays(data):
    return {k: v for k, v in data.digests().items() if k.endswith((".tokens", ".offsets"))}


@pytest.mark.parametrize("impossible", [(), ("b", "e")])
@pytest.mark.parametrize("ending", ["parquet", "jsonl", "json"])
def test_squad_of_the_hub(tmp_path, ending, impossible, caplog):
    expected = native(tmp_path, impossible=impossible)
    caplog.set_level(logging.INFO)
    name = shards(tmp_path, "t", ending, hub(impossible))
    data = prepared(tmp_path, train=name, dev=copied(tmp_path, name))
    assert data.digests() == expected.digests()
    columns = "context = context, question = question, answers = answers, id = id, title = title"
    assert f"{tmp_path}/t-8-of-3.{ending}: columns as in SQuAD: {columns}" in caplog.messages
    for either in (data, expected):
        for split in ("train", "dev"):
            count, dropped = either.split_sizes()[split]
            assert count >= 5 - len(impossible)
            counts = {reason: entry["count"] for reason, entry in dropped.items()}
            assert counts == ({"impossible question": 2} if impossible else {})


def mrqa():
    """MRQA's lines, and the hub's rows of them."""
    lines, rows = [{"header": {"dataset": "SQuAD", "split": "train"}}], []
    for context in TITLES:
        qas = []
        for of, i, question, texts in QUESTIONS:
            if of == context:
                spans = [[(s := context.index(t)), s + len(t) - 1] for t in texts]
                found = [{"text": t, "char_spans": [span], "token_spans": [[0, 0]]}
                         for t, span in zip(texts, spans, strict=True)]  # fmt: skip
                qas.append({"qid": i, "question": question, "answers": texts,
                            "question_tokens": [["x", 0]], "detected_answers": found})  # fmt: skip
                starts = [{"start": [s], "end": [e]} for s, e in spans]
                tokens = {"tokens": ["x"], "offsets": [0]}
                row = {"subset": "SQuAD", "context": context, "context_tokens": tokens, "qid": i}
                found = {"text": texts, "char_spans": starts}
                rows.append(
                    {**row, "question": question, "answers": texts, "detected_answers": found}
                )
        lines.append({"id": "", "context": context, "context_tokens": [["x", 0]], "qas": qas})
    return lines, rows


def test_mrqa(tmp_path, caplog):
    expected = arrays(native(tmp_path))
    caplog.set_level(logging.INFO)
    lines, rows = mrqa()
    (tmp_path / "m.jsonl.gz").write_bytes(COMPRESSIONS[".gz"](json_lines(lines)))
    (tmp_path / "m.parquet").write_bytes(parquet(rows))
    for name, layout in (
        ("m.jsonl.gz", "MRQA's own files: "),
        ("m.parquet", "MRQA, an answer's of"),
    ):
        data = prepared(tmp_path, train=name, dev=copied(tmp_path, name))
        assert arrays(data) == expected and [*data.split_sizes()["train"][1]] == []
        assert f"{tmp_path}/{name}: columns as in {layout}" in "\n".join(caplog.messages)


def test_json_lines_and_csv_with_other_names(tmp_path):
    expected = arrays(native(tmp_path))
    rows = [{"passage": c, "uid": n, "q": q, "gold": {"texts": [t[0]], "text": t,
             "answer_start": [c.index(text) for text in t]}}
            for n, (c, _, q, t) in enumerate(QUESTIONS)]  # fmt: skip
    columns = "context=passage,question=q,answers=gold.text"
    written = {
        "o.jsonl": json_lines,
        "o.parquet": parquet,
        "l.json": json_lines,
        "o.json": indented,
    }
    for name, write in written.items():
        content = write(rows)
        (tmp_path / name).write_bytes(content)
        for more in ("", ",id=uid"):
            data = prepared(
                tmp_path, train=name, dev=copied(tmp_path, name), columns=columns + more
            )
            assert arrays(data) == expected
            assert [q.id for q in data.texts("dev").questions][1] == ("1" if more else "2")
    flat = [
        {"context": c, "question": q, "answer": t[0], "answer_start": float(c.index(t[0])), "x": 1}
        for c, _, q, t in QUESTIONS
    ]
    structs = [{**row, "answers": json.dumps(row["answers"])} for row in hub()]
    (tmp_path / "flat.csv").write_bytes(comma_separated(flat, ";"))
    (tmp_path / "hub.csv").write_bytes(comma_separated(structs))
    columns = "context=context,question=question,answers=answer"
    for name, options in (("flat.csv", {"columns": columns}), ("hub.csv", {})):
        assert (
            arrays(prepared(tmp_path, train=name, dev=copied(tmp_path, name), **options))
            == expected
        )
    texts = [{"context": c, "question": q, "answers": t} for c, _, q, t in QUESTIONS[:2]]
    (tmp_path / "texts.jsonl").write_bytes(json_lines([*texts, {**texts[0], "answers": ["in"]}]))
    with pytest.raises(UserError, match=r"texts\.jsonl:3: answers: 'in' is 3 times in the context"):
        prepared(tmp_path, train="texts.jsonl", dev="native.json")


def test_annotation_tools(tmp_path):
    """No version, no ids or numbers, questions that are not answered yet."""
    expected = arrays(native(tmp_path))
    saved = json.loads((tmp_path / "native.json").read_text())
    qas = [qa for a in saved["data"] for p in a["paragraphs"] for qa in p["qas"]]
    del saved["version"], qas[0]["id"], qas[0]["is_impossible"]
    for number, qa in enumerate(qas[1:]):
        qa["id"] = number
    (tmp_path / "tool.json").write_text(json.dumps(saved))
    data = prepared(tmp_path, train="tool.json", dev=copied(tmp_path, "tool.json"))
    assert arrays(data) == expected
    assert [q.id for q in data.texts("dev").questions] == ["0.0.0", "0", "1", "2", "3"]
    qas[1]["answers"] = None
    (tmp_path / "tool.json").write_text(json.dumps(saved))
    with pytest.raises(UserError, match=r"qas\[1\]: no answers; fix it, or set data\.on_bad_exa"):
        prepared(tmp_path, train="tool.json", dev=copied(tmp_path, "tool.json"))
    data = prepared(
        tmp_path, train="tool.json", dev=copied(tmp_path, "tool.json"), on_bad_example="skip"
    )
    assert data.split_sizes()["train"][1]["no answers"]["count"] == 1


def test_shards_of_squads_json_have_distinct_ids(tmp_path):
    squad = native(tmp_path).texts("dev")
    for number in range(2):
        write_squad(tmp_path / f"s{number}.json", Squad(squad.contexts, squad.questions, ["t"] * 3))
    with pytest.raises(UserError, match=r"s1\.json 'a': an id that an earlier question has"):
        prepared(tmp_path, train="s*.json", dev="native.json")
    assert (
        prepared(tmp_path, train="s0.json,s1.json", dev="native.json").split_sizes()["train"][0] > 4
    )


def test_several_files_without_ids(tmp_path):
    """Of dev and test too; the questions of two files are not one."""
    native(tmp_path)
    saved = json.loads((tmp_path / "native.json").read_text())
    for qa in (qa for a in saved["data"] for p in a["paragraphs"] for qa in p["qas"]):
        del qa["id"]
    rows = [{key: row[key] for key in ("context", "question", "answers")} for row in hub()]
    for file in "ab":
        (tmp_path / f"{file}.json").write_text(json.dumps(saved))
        (tmp_path / f"{file}.parquet").write_bytes(parquet(rows))
    for dev, first in (
        ("a.json,b.json", "0.0.0"),
        ("?.json", "0.0.0"),
        ("a.parquet,b.parquet", "1"),
    ):
        names = f"[ab]{dev[1:]}" if dev.startswith("?") else dev
        data = prepared(tmp_path, train="native.json", dev=names)
        ids = [question.id for question in data.texts("dev").questions]
        ending = dev.rpartition(".")[2]
        assert len(ids) == len({*ids}) == 10
        assert (ids[0], ids[5]) == (f"a.{ending}:{first}", f"b.{ending}:{first}")
    with pytest.raises(UserError, match=r"native\.json 'a': an id that an earlier question has"):
        prepared(tmp_path, train="a.json", dev="native.json,native.json")


def test_ids_may_be_missing_in_inputs_and_numbers_that_json_lacks_are_null(tmp_path):
    """pandas stores whole numbers beside missing ones as floats."""
    rows = [
        {"id": i, "context": "Ada", "question": "Who?", "score": s}
        for i, s in ((7.0, 0.5), (None, None), (math.nan, math.nan))
    ]
    (tmp_path / "q.parquet").write_bytes(parquet(rows))
    schema = Schema("Reading", (Text("context", "C"), Text("question", "Q")), "json")
    records = [*file_records(tmp_path / "q.parquet", "", schema)]
    assert [record.input.value.get("id") for record in records] == [7, None, None]
    output = io.StringIO()
    for record in records:
        JsonLines(output, schema).write(record, Unanswered("too long"))
    strict = lambda name: pytest.fail(f"{name} is not JSON")
    written = [json.loads(s, parse_constant=strict) for s in output.getvalue().splitlines()]
    assert [row["score"] for row in written] == [0.5, None, None]


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_the_published_adversarial_questions_are_known_by_name(ending):
    assert is_adversarial(f"folder/sample1k-HCVerifyAll.json{ending}")
    assert not is_adversarial(f"folder/dev-v1.1.json{ending}")


@pytest.mark.parametrize("ending", ["json", "parquet", "jsonl"])
def test_scores_leave_out_impossible_questions(tmp_path, ending):
    native(tmp_path, "dev.json", impossible=("b", "e"))
    for kind in ("parquet", "jsonl"):
        (tmp_path / f"dev.{kind}").write_bytes(FORMATS[kind](hub(("b", "e"))))
    (tmp_path / "p.json").write_text(json.dumps({"a": "Paris", "b": "", "c": "Word9", "e": "x"}))
    scores = score_files(tmp_path / "p.json", tmp_path / f"dev.{ending}")
    assert scores == {
        **{"exact_match": pytest.approx(100 / 3), "f1": pytest.approx(100 / 3)},
        **{"questions": 3, "unanswered": 1, "impossible": 2},
    }


ROW = {"context": "a", "question": "b"}
MISTAKES = [
    (
        "a.parquet",
        [{"text": "a", "question": "b"}],
        "a.parquet: no columns that are known: text, q",
    ),
    ("a.csv", [{"text": "a", "q": "b", "c": "d"}], "a.csv:1: no header that is known, and not"),
    ("a.json", {"version": 1}, "a.json: no 'data'; it has version"),
    ("a.json", [[1]], "a.json: [0]: a list where an object is needed"),
    ("a.jsonl", [{**ROW, "answers": 3}], 'a.jsonl:1: answers: needs {"text": ['),
    (
        "a.parquet",
        [{**ROW, "answers": {"text": ["a"], "answer_start": []}}],
        "a.parquet: row 1: answers: lists of different lengths: 1 of text, 0 of answer_start; fix",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), MISTAKES)
def test_mistakes_are_one_line(tmp_path, name, content, message):
    native(tmp_path)
    ending = name.rpartition(".")[2]
    write = (
        FORMATS[ending] if isinstance(content, list) else lambda value: json.dumps(value).encode()
    )
    (tmp_path / name).write_bytes(write(content))
    with pytest.raises(UserError, match=re.escape(message)) as error:
        prepared(tmp_path, train=name, dev="native.json")
    assert "\n" not in str(error.value)


def test_triviaqa_has_no_columns():
    for format in ("triviaqa", "triviaqa_lines"):
        with pytest.raises(UserError, match=r"data\.columns=1,2: this data\.format has no columns"):
            DataConfig(dir="x", format=format, columns="1,2")
