"""From SQuAD's JSON to batches: words, answers and windows."""

import dataclasses
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.deploy.predictor import Unanswered
from common_jax.deploy.schema import Schema, Text
from common_jax.errors import UserError
from common_jax.text.squad import Answer
from common_jax.text.vocabulary import UNKNOWN
from common_jax.text.word_tokenizer import split_words
from launch.predict.records import file_records, results_to
from qanet_jax.answer_files import score_files
from qanet_jax.config import Config
from qanet_jax.data.dataset import ReadingData
from qanet_jax.data.text import TokenizedText, windows
from qanet_jax.models.base import WordsConfig
from qanet_jax.score import is_adversarial
from tests.common_jax.data.other_tools import COMPRESSIONS, json_lines, parquet
from tests.families.data import corpora
from tests.families.data.corpora import FACTS, QUESTIONS, TRAINED, reading, rows_of, write_squad
from tests.families.data.test_layouts import hub_squad

FIXED = WordsConfig(dim=3, char_rows=80, rule="english")
GLOVE = "ada 1 2 3\nparis 4 5 6\nBen 7 8 9\n. 1 1 1\n"


@pytest.fixture
def folder(tmp_path):
    write_squad(tmp_path, "train.json", "dev.json")
    (tmp_path / "glove.txt").write_text(GLOVE)
    return tmp_path


def vectors(folder, config):
    return {"words": config, "vectors": "" if config.rows else str(folder / "glove.txt")}


def words(text):
    return [text[start:end] for start, end in split_words(text)]


def texts():
    """The passages, each once, and the questions."""
    yield from dict.fromkeys(context for context, *_ in QUESTIONS)
    yield from (question for _, _, question, _ in QUESTIONS)


def test_a_pattern_alone_with_a_weight_is_not_a_mixture(folder):
    """Its files were taken for as many names."""
    text = (folder / "train.json").read_text()
    for part in ("1", "2"):
        (folder / f"part-{part}.json").write_text(text.replace('"id": "', f'"id": "{part}-'))
    data = reading(folder, train="train.json,part-*.json", weights="0,1")
    assert len(rows_of(data.train_batches(0))) == 2 * len(QUESTIONS)


def test_a_training_batch_has_the_passage_the_question_and_the_answers_words(folder):
    mappings = {"word": {}, "letter": {}}
    rows = rows_of(reading(folder).train_batches(0))
    for row, (context, _, question, (answer, *_)) in zip(rows, QUESTIONS, strict=True):
        for name, text in (("context", words(context)), ("question", words(question))):
            ids, characters = row[name], row[f"{name}_characters"]
            assert np.count_nonzero(ids) == len(text) and (ids[: len(text)] > 0).all()
            for word, number, letters in zip(text, ids, characters, strict=False):
                length = min(6, len(word))
                assert (letters[:length] > 0).all() and not letters[length:].any()
                assert mappings["word"].setdefault(word, int(number)) == number
                for letter, value in zip(word, letters.tolist(), strict=False):
                    assert mappings["letter"].setdefault(letter, value) == value
            assert not characters[len(text) :].any()
        assert words(context)[row["start"] : row["end"] + 1] == words(answer)
    for numbers in mappings.values():
        assert len(set(numbers.values())) == len(numbers) and min(numbers.values()) > 1


def test_fixed_vectors_are_the_files_and_unknown_words_have_none(folder):
    row = rows_of(reading(folder, **vectors(folder, FIXED)).train_batches(0))[0]
    expected = {"Ada": [1, 2, 3], "Paris": [4, 5, 6], "Ben": [7, 8, 9], ".": [1, 1, 1]}
    columns = (row["context"], row["context_vectors"])
    for word, number, vector in zip(words(FACTS), *columns, strict=False):
        np.testing.assert_array_equal(vector, expected.get(word, [0, 0, 0]))
        assert (number == 1) == (word not in expected)
    assert not row["context_vectors"][len(words(FACTS)) :].any()


def test_evaluation_reads_every_word_of_every_question(folder):
    data = reading(folder)
    corpus, split = data.split("dev"), data.texts("dev")
    covered = {number: set() for number in range(len(split.questions))}
    for example, row in enumerate(rows_of(data.split_batches("dev"))):
        length = np.count_nonzero(row["context"])
        assert length <= 50
        spans = {corpus.characters(example, at, at) for at in range(length)}
        covered[int(corpus.numbers[example])] |= spans
    for number, question in enumerate(split.questions):
        assert covered[number] == set(split_words(split.contexts[question.context]))


def test_long_training_examples_are_dropped_counted_and_reported(folder):
    data = reading(folder, context_length=30, answer_length=2, question_length=5)
    kinds = data.split("train").questions.meta["dropped"]
    assert {kind: fault["count"] for kind, fault in kinds.items()} == {
        "over data.context_length=30 words": 2,
        "over data.question_length=5 words": 1,
    }
    assert "question e" in kinds["over data.question_length=5 words"]["first"][0]
    assert len(data.texts("dev").questions) == 5


@pytest.fixture
def other_file(folder):
    """Another file, all of whose words and letters but "Ben" the corpus lacks."""
    write_squad(folder, "other.json", questions=[("Ben 北京 zebra.", "z", "Who?", ["zebra"])])
    return "other.json"


def again(data, run, **changes):
    """The data of a later run, whose vocabulary is in `run`."""
    words = changes.pop("words")
    other = ReadingData(Config(words=words, data=dataclasses.replace(data.config, **changes)))
    other.read_vocabulary(run)
    other.prepare()
    return other


@pytest.mark.parametrize("numbers", [FIXED, TRAINED], ids=["fixed", "trained"])
def test_a_run_reads_other_files_but_notices_other_words(folder, other_file, numbers):
    (folder / "glove.txt").write_text(GLOVE + "zebra 5 6 7\n")
    options = vectors(folder, numbers)
    data = reading(folder, **options)
    run = folder / "run"
    run.mkdir()
    data.vocabulary.save(run)
    for key in ("dev", "test"):
        other = again(data, run, words=numbers, **{key: other_file})
        (row,) = rows_of(other.split_batches(key))
        ben, town, zebra, _ = row["context"].tolist()[:4]
        assert town == UNKNOWN and row["context_characters"][1, :2].tolist() == [UNKNOWN] * 2
        assert ben == other.vocabulary.word_ids(["Ben"])[0] > UNKNOWN
        if numbers.rows:
            assert ben == data.vocabulary.word_ids(["Ben"])[0] and zebra == UNKNOWN
        else:
            assert row["context_vectors"][:3].tolist() == [[7, 8, 9], [0, 0, 0], [5, 6, 7]]
        expected = data.vocabulary.char_ids(["Ben"], 3).tolist()
        assert row["context_characters"][0, :3].tolist() == expected[0]
    (folder / "others.txt").write_text(GLOVE.replace("7 8 9", "7 8 8"))
    changes = {"vectors": str(folder / "others.txt"), "words": numbers}
    if numbers.rows:
        changes = {"words": dataclasses.replace(numbers, rows=90)}
    for changed in ({"train": other_file, "words": numbers}, changes):
        with pytest.raises(UserError, match="other words or characters than the run was trained"):
            again(data, run, **changed)


@pytest.mark.parametrize("numbers", [FIXED, TRAINED], ids=["fixed", "trained"])
def test_characters_are_those_of_the_training_split(folder, other_file, numbers):
    data = reading(folder, **vectors(folder, numbers), dev=other_file)
    letters = {*"".join(texts())}
    ids = data.vocabulary.char_ids(["zebra北京"], 7)[0].tolist()
    assert [n == UNKNOWN for n in ids] == [letter not in letters for letter in "zebra北京"]
    assert ids[-2:] == [UNKNOWN, UNKNOWN]


def test_the_share_of_words_with_a_vector_is_reported(folder, monkeypatch, caplog):
    monkeypatch.setenv("HOME", str(folder))
    options = {"words": FIXED, "vectors": "~/glove.txt"}
    (folder / "glove.txt").write_text(GLOVE + "cat 1 2\n")
    message = corpora.fails("qanet", folder, **options)
    assert message.startswith("data.vectors: glove.txt:5: 2 numbers after")
    caplog.set_level("INFO")

    def reported(content):
        (folder / "glove.txt").write_text(content)
        caplog.clear()
        reading(folder, **options, on_bad_example="skip")
        return caplog.text

    every = {word for text in texts() for word in words(text)}
    in_file = every & {"Ada", "Paris", "Ben", "."}
    text = reported(GLOVE + "cat 1 2\n")
    share = f"{100 * len(in_file) / len(every):.1f}% of {len(every)} distinct words have a vector"
    assert share in text
    assert "~/glove.txt: left out 1 2 numbers after a word, not 3 (" in text

    tokens = [word.lower() for text in texts() for word in words(text)] * 2
    covered = 100 * tokens.count("and") / len(tokens)
    few = f"only {covered:.1f}% of the text's {len(tokens)} tokens have a vector"
    text = reported("and 1 2 3\n")
    assert covered < 20 and few in text and "rows are left out" not in text
    assert "1 words have none, as their rows are left out" in reported("and 1 2 3\n. 1 x 3\n")
    frequent = ["and", "number", ".", "in", "was", "the", ",", "?"]
    assert sum(tokens.count(word) for word in frequent) > 0.2 * len(tokens)
    many = reported("".join(f"{word} 1 2 3\n" for word in frequent))
    assert "tokens have a vector" not in many


def test_answers_that_are_not_whole_words_are_counted(folder, caplog):
    context = "It began in the 1990s, and Anna's brother-in-law came."
    answers = ["1990", "beg", "Anna's", "the 1990s,", "came", "It", "in", "and", "began", "law"]
    asked = [(context, str(n), "?", [answer]) for n, answer in enumerate(answers)]
    write_squad(folder, "dev.json", questions=asked)
    few = "2 of 10 questions have no gold answer of whole words"
    assert corpora.fails("qanet", folder).startswith(f"dev (dev.json): {few}")
    with caplog.at_level("INFO"):
        reading(folder, max_unreachable_answers=0.2)
    assert f"dev: {few} ('1990' in '1990s', 'beg' in 'began')" in caplog.text
    assert "train: 0 of 5 questions have no gold answer of whole words\n" in caplog.text


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_dev_is_held_out_by_passages(tmp_path, form):
    asked = []
    for n in range(30):
        context = f"Box {n} has {n + 100} red and {n + 200} green cups."
        asked.append((context, f"{n}", "How many are red?", [f"{n + 100}"]))
        asked.append((context, f"{n}b", "Which box?", ["Box"]))
    keys = ("context", "id", "question", "answers")
    if form == "json":
        write_squad(tmp_path, "all.json", questions=asked)
    else:
        rows = [dict(zip(keys, row, strict=True)) for row in asked]
        (tmp_path / "all.jsonl").write_bytes(json_lines(rows))
    held_out = {}
    for seed in (0, 0, 1):
        data = reading(tmp_path, train=f"all.{form}", dev="", holdout_size=9, seed=seed)
        dev = data.texts("dev")
        assert len(data.split("train").numbers) == 50 and len(dev.questions) == 10
        contexts = {question.context for question in dev.questions}
        assert contexts == {*range(5)} == {*range(len(dev.contexts))}
        for question in dev.questions:
            answers = [answer.text for answer in question.answers]
            assert (dev.contexts[question.context], question.id, question.text, answers) in asked
        assert held_out.setdefault(seed, dev) == dev
    assert held_out[0] != held_out[1]
    options = {"train": f"all.{form}", "dev": "", "holdout_size": 60}
    message = corpora.fails("qanet", tmp_path, **options)
    assert "holdout_size=60: too many for 60 questions to train on" in message


TRIVIA = [
    {"id": "a", "question": "Who?", "aliases": ["Ada"], "context": FACTS},
    {"id": "b", "question": "Where?", "aliases": ["Oslo"], "context": FACTS},
    {"id": "c", "question": "Where?", "aliases": ["Rome"], "context": FACTS},
]


def test_the_oracles_questions_are_those_with_a_window(folder):
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_bytes(json_lines(TRIVIA))
    data = reading(folder, format="triviaqa_lines")
    assert data.splits == ("train", "dev_oracle", "dev")
    names = {split: [gold["QuestionId"] for gold in data.golds(split)] for split in data.splits[1:]}
    assert names == {"dev_oracle": ["a", "c"], "dev": ["a", "b", "c"]}
    dropped = data.split("dev_oracle").questions.meta["dropped"]
    assert dropped["question without a window"] == {"count": 1, "first": ["b"]}
    assert not data.split("dev").questions.meta["dropped"]
    assert not (data.path / "train" / "golds.json").exists()
    with_test = reading(folder, prepare=False, format="triviaqa_lines", test="dev.json")
    assert with_test.splits == (*data.splits, "test")


@given(st.integers(0, 400), st.integers(1, 30), st.data())
def test_every_short_span_lies_in_a_window(length, answer, draw):
    stride = draw.draw(st.integers(1, 60))
    window = stride + answer + draw.draw(st.integers(0, 20))
    cuts = windows(length, window, stride)
    assert all(0 <= start <= stop <= length and stop - start <= window for start, stop in cuts)
    for first in range(max(0, length - answer + 1)):
        assert any(start <= first and first + answer <= stop for start, stop in cuts)


@given(st.text(alphabet="ab .-\u05d0😀", max_size=30), st.data())
def test_an_answers_words_are_those_it_has_a_character_of(text, draw):
    start = draw.draw(st.integers(0, len(text)))
    end = draw.draw(st.integers(start, len(text)))
    span = TokenizedText.of(text, "english").locate(Answer(text[start:end], start))
    inside = [n for n, (a, b) in enumerate(split_words(text)) if a < end and b > start]
    assert span == ((inside[0], inside[-1]) if inside else None)


def test_ids_may_be_missing_in_inputs_and_numbers_that_json_lacks_are_null(tmp_path):
    """pandas stores whole numbers beside missing ones as floats."""
    cells = ((7.0, 0.5), (None, None), (math.nan, math.nan))
    rows = [{"id": i, "context": "Ada", "question": "Who?", "score": s} for i, s in cells]
    (tmp_path / "q.parquet").write_bytes(parquet(rows))
    schema = Schema("Reading", (Text("context", "C"), Text("question", "Q")), "json")
    records = file_records(tmp_path / "q.parquet", "", schema)
    rows = [*records.rows]
    assert [record.input.value.get("id") for record in rows] == [7, None, None]
    output = io.StringIO()
    results = results_to(tmp_path / "out.jsonl", records, output, schema)
    for record in rows:
        results.write(record, Unanswered("too long"))
    strict = lambda name: pytest.fail(f"{name} is not JSON")
    written = [json.loads(s, parse_constant=strict) for s in output.getvalue().splitlines()]
    assert [row["score"] for row in written] == [0.5, None, None]


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_the_published_adversarial_questions_are_known_by_name(ending):
    assert is_adversarial(f"folder/sample1k-HCVerifyAll.json{ending}")
    assert not is_adversarial(f"folder/dev-v1.1.json{ending}")


@pytest.mark.parametrize("ending", ["json", "parquet", "jsonl"])
def test_scores_leave_out_impossible_questions(tmp_path, ending):
    impossible = ("b", "e")
    (tmp_path / "dev.json").write_text(json.dumps(corpora.squad(impossible=impossible)))
    (tmp_path / "dev.parquet").write_bytes(parquet(hub_squad(impossible)))
    (tmp_path / "dev.jsonl").write_bytes(json_lines(hub_squad(impossible)))
    (tmp_path / "p.json").write_text(json.dumps({"a": "Paris", "b": "", "c": "Word9", "e": "x"}))
    assert score_files(tmp_path / "p.json", tmp_path / f"dev.{ending}") == {
        **{"exact_match": pytest.approx(100 / 3), "f1": pytest.approx(100 / 3)},
        **{"questions": 3, "unanswered": 1, "impossible": 2},
    }
