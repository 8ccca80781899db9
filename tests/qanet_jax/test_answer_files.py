"""Files of answers are scored as the official object {id: answer} with the same answers is."""

import json
from pathlib import Path

import pytest

from common_jax.deploy.predictor import Unanswered
from common_jax.deploy.schema import Schema, Text
from launch.predict.records import file_records, results_to
from qanet_jax.answer_files import read_predictions, score_files
from qanet_jax.reading import SpanAnswer
from tests.common_jax.data.other_tools import comma_separated, json_lines
from tests.families.data.corpora import squad
from tests.refusals import refusal

CONTEXT = "Ada and Bob sing."
SCHEMA = Schema("Reading", (Text("context", "C"), Text("question", "Q")), "json")
PREDICTED = {"m1": "Ada", "7": "Bob", "m3": ""}  # "": could not be answered
GOLDS = {"m1": "Ada", "7": "Ada", "m3": "Bob"}
ROWS = [{"id": i, "context": CONTEXT, "question": "Who?"} for i in GOLDS]
GOLD_ROWS = [{**row, "answer": GOLDS[row["id"]]} for row in ROWS]
SQUAD = squad([(CONTEXT, i, "Who?", [gold]) for i, gold in GOLDS.items()])


INPUTS = {  # of `launch.predict`, by name
    "squad.json": json.dumps(SQUAD).encode(),
    "rows.jsonl": json_lines(ROWS),
    "gold.jsonl": json_lines(GOLD_ROWS),
    "rows.csv": comma_separated(ROWS),
    "gold.csv": comma_separated(GOLD_ROWS),
}
OUTPUTS = {".json": ("jsonl", "txt"), ".jsonl": ("jsonl", "txt"), ".csv": ("jsonl", "txt", "csv")}


@pytest.mark.parametrize(
    ("name", "output"), [(name, end) for name in INPUTS for end in OUTPUTS[Path(name).suffix]]
)
def test_what_predict_writes_is_scored(name, output, tmp_path):
    (tmp_path / name).write_bytes(INPUTS[name])
    records = file_records(tmp_path / name, "", SCHEMA)
    answers = tmp_path / f"answers.{output}"
    with answers.open("w", newline="") as file:
        results = results_to(answers, records, file, SCHEMA)
        for record, text in zip(records.rows, PREDICTED.values(), strict=True):
            identity = {"id": record.input.value["id"]}
            answer = SpanAnswer(
                **identity, answer=text, start=0, end=3, probability=1.0, next=[], unknown_words=0
            )
            results.write(record, answer if text else Unanswered("too long"))
        results.close()
    (tmp_path / "official.json").write_text('{"m1": "Ada", "7": "Bob"}')
    (tmp_path / "dev.json").write_text(json.dumps(SQUAD))
    expected = score_files(tmp_path / "official.json", tmp_path / "dev.json")
    assert score_files(answers, tmp_path / "dev.json") == expected
    third = pytest.approx(100 / 3)
    assert expected == {"exact_match": third, "f1": third, "questions": 3, "unanswered": 1}


def test_only_the_texts_of_the_golds_of_a_table_count(tmp_path):
    """Answers that stand several times in the passage, or never, are right."""
    row = {"context": "Paris: the city of Paris.", "question": "Where?"}
    row["answers"] = json.dumps(["Paris", "the city of Paris", "Rome"])
    rows = [{"id": i, **row} for i in "123"]
    (tmp_path / "dev.jsonl").write_bytes(json_lines(rows))
    (tmp_path / "dev.csv").write_bytes(comma_separated(rows))
    (tmp_path / "p.json").write_text('{"1": "Paris", "2": "Rome", "3": "the city"}')
    expected = {"exact_match": pytest.approx(200 / 3), "f1": pytest.approx(100 * (2 + 0.5) / 3)}
    for name in ("dev.jsonl", "dev.csv"):
        scores = score_files(tmp_path / "p.json", tmp_path / name)
        assert scores == {**expected, "questions": 3, "unanswered": 0}


NO_JSON = ":2: answers: not JSON, as json.dumps writes it: "
CELLS = {  # of answers, and the score of "Ada"; or the error
    '["Ada", "Ada and Bob"]': 100.0,
    "Ada": 100.0,
    "[Ada": ":2: none of the answers is in the context: ['[Ada']; write several as a JSON list",
    "Ada|Ada and Bob": ":2: none of the answers is in the context: ['Ada|Ada and Bob']; write ",
    "['Ada', 'Ada and Bob']": NO_JSON,
    "['Ada' 'Ada and Bob']": NO_JSON,
    '["Ada" "Ada and Bob"]': NO_JSON,
    "{'text': ['Ada']}": NO_JSON,
}


@pytest.mark.parametrize("cell", CELLS)
def test_lists_of_other_forms_than_json_are_no_gold_answer(cell, tmp_path):
    """They would be a text, which no prediction is equal to."""
    (tmp_path / "dev.csv").write_bytes(comma_separated([{**ROWS[0], "answers": cell}]))
    (tmp_path / "p.json").write_text('{"m1": "Ada"}')
    expected = CELLS[cell]
    if isinstance(expected, float):
        scores = score_files(tmp_path / "p.json", tmp_path / "dev.csv")
        assert scores["exact_match"] == expected
    else:
        assert expected in refusal(score_files, tmp_path / "p.json", tmp_path / "dev.csv")


FILES = {  # with the answers in them, or the error
    '{"m1": "Ada"}': {"m1": "Ada"},
    '{\n "m1": "Ada",\n "m2": ""\n}': {"m1": "Ada", "m2": ""},
    '{"id": "m1", "answer": "Ada", "start": 0}': {"m1": "Ada"},
    '{"id": 7, "answer": "Ada"}\n\n{"id": "m2", "answer": "Bob"}\n': {"7": "Ada", "m2": "Bob"},
    '[{"id": "m1", "answer": "Ada"}]': {"m1": "Ada"},
    '{"qid": "m1", "answer": "Ada"}\n{"qid": "m2", "error": "long"}\n': {"m1": "Ada"},
    '{"m1": null}': "the answer of 'm1' is not a string",
    '{"answer": "Ada"}': ".json:1: no 'id'; it has answer",
    '{"id": null, "answer": "Ada"}': ".json:1: id: empty",
    '{"id": "m1", "answer": null}': ".json:1: answer: null where a string is needed",
    '{"id": "m1", "answer": "Ada"}\n{"id": "m2"}\n': ".json:2: no 'answer'; it has id",
    '{"id": "1", "answer": "Ada"}\n{"id": 1, "answer": "Bob"}\n': ".json:2: repeats the id '1'",
    '{"id": "m1", "answer": "Ada", "error": "x"}': ".json:1: has both answer and error",
    '{"id": "m1", "answer": "Ada"}\n{"id": "m2", "ans': ".json:2:14: not JSON",
    "id,answer\nm1,Ada,Bob\n": ".csv:2: 3 columns where 2 are needed",
    "id,answer,answer\nm1,Ada,Bob\n": ".csv:1: several columns are named 'answer'",
    "Ada\nBob\n": ": needs one object, {id: answer, ...}, or rows of id and answer; it has Ada",
    "": ": needs one object, {id: answer, ...}, or rows of id and answer; it has no row",
}


@pytest.mark.parametrize("content", FILES)
def test_answers_of_a_file(content, tmp_path):
    path = tmp_path / ("a.csv" if content[:1].isalpha() else "a.json")
    path.write_text(content)
    expected = FILES[content]
    if isinstance(expected, dict):
        assert read_predictions(path) == expected
    else:
        assert expected in refusal(read_predictions, path)
