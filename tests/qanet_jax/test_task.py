"""The task: prediction on other texts, and the scores of answers."""

import dataclasses
import hashlib
import json
import subprocess
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from common_jax.bad_examples import BadExamples
from common_jax.deploy.service import service_of
from common_jax.errors import UserError
from common_jax.text.squad import Answer, Question, Squad
from common_jax.text.vectors import read_vectors
from common_jax.text.vocabulary import Vocabulary
from common_jax.text.word_tokenizer import split_words
from launch.train.__main__ import _next_commands
from qanet_jax.config import Config, DataConfig
from qanet_jax.data.text import TokenizedText, input_line
from qanet_jax.reading import Reading
from qanet_jax.task import SpanExtraction
from tests.families.data.corpora import write_trivia
from tests.families.tasks import READER, READER_WORDS, begun, span_extraction
from tests.refusals import refusal


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return span_extraction(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def params(task):
    return jax.tree.map(jnp.asarray, begun(task).params)


@pytest.fixture(scope="module")
def reader(task, params):
    return service_of(task).predictor(params)


@pytest.fixture(scope="module")
def squad(task):
    return task.data.texts("test")


def tokenized(text):
    return TokenizedText.of(text, "english")


def words_of(text):
    return [text[start:end] for start, end in split_words(text)]


def test_the_answer_is_that_of_the_window_that_scores_highest(
    task, params, reader, squad, monkeypatch
):
    """Against decoding each window separately, in loops."""
    question = squad.questions[0].text
    context = " ".join(squad.contexts[:4])
    decode = reader._decode
    shapes = []
    count = lambda batch: shapes.append(batch["context"].shape) or decode(batch)
    monkeypatch.setattr(reader, "_decode", count)
    answers = reader.answer(context, question)
    spans = split_words(context)
    best = {}
    limit = task.config.data.answer_length
    windows = [spans[n : n + 48] for n in range(0, max(1, len(spans) - 48 + 18), 18)]
    assert len(windows) > 4 and shapes == [(4, 48)] * -(-len(windows) // 4)
    largest = np.full((2, len(spans)), -np.inf)
    logits = jax.jit(task.logits)
    for number, words in enumerate(windows):
        piece = context[words[0][0] : words[-1][1]]
        assert [(a + words[0][0], b + words[0][0]) for a, b in split_words(piece)] == words
        batch = reader._encoded("context", [tokenized(piece)], 4, 48)
        batch |= reader._encoded("question", [tokenized(question)], 4, 16)
        start, end = (np.asarray(pointer[0], np.float64) for pointer in logits(params, batch))
        for s in range(len(words)):
            at = 18 * number + s
            largest[:, at] = np.maximum(largest[:, at], [start[s], end[s]])
            for e in range(s, min(s + limit, len(words))):
                key = words[s][0], words[e][1]
                best[key] = max(best.get(key, -np.inf), start[s] + end[e])
    ranked = sorted(best, key=lambda span: -best[span])
    assert [(f.start, f.end) for f in answers] == ranked[:3]
    assert all(context[f.start : f.end] == f.answer for f in answers)
    total = scipy.special.logsumexp(largest, axis=1).sum()
    expected = [np.exp(best[span] - total) for span in ranked[:3]]
    assert [f.probability for f in answers] == pytest.approx(expected, rel=1e-4)


def test_spans_of_masked_words_are_equally_probable():
    """As of a system that chooses one of the candidates in a text without any."""
    reading = Reading("w0 w1 w2 w3", tokenized("w0 w1 w2 w3"))
    masked = np.full(4, -1e30)
    span = np.array([0])
    spans = {"first": span, "last": span, "score": np.array([-2e30])}
    reading.add(0, 4, {**spans, "start": masked, "end": masked})
    (answer,) = reading.answers(3)
    assert answer.probability == pytest.approx(1 / 16)
    pointers = reading.pointers()
    assert np.allclose([pointers.first, pointers.last], 1 / 4)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_equal_scores_in_two_windows_the_first_span_is_the_answer(order):
    """Windows of the words 0 to 5 and 4 to 9, whose best spans are the words 5 and 4."""
    text = " ".join(f"w{n}" for n in range(10))
    reading = Reading(text, tokenized(text))
    windows = [(0, 6, 5), (4, 10, 0)]
    for at in order:
        start, stop, word = windows[at]
        zeros, best = np.zeros(6), np.array([word])
        spans = {"first": best, "last": best, "score": np.array([2.0])}
        reading.add(start, stop, {**spans, "start": zeros, "end": zeros})
    assert [answer.answer for answer in reading.answers(2)] == ["w4", "w5"]

    def characters(row, first, last):
        start = windows[order[row]][0]
        return 3 * (start + first), 3 * (start + last) + 2

    corpus = SimpleNamespace(numbers=np.zeros(2, int), characters=characters)
    task = SimpleNamespace(data=SimpleNamespace(split=lambda _: corpus))
    squad = Squad([text], [Question("q", "Which?", 0, (Answer("w4", 12),))])
    best = np.array([[windows[at][2]] for at in order])
    predictions = {"first": best, "last": best, "score": np.full((2, 1), 2.0)}
    predictions["normaliser"] = np.zeros(2)
    answers = SpanExtraction._answers(task, "test", squad, predictions)
    assert answers["q"][0] == "w4"


def test_questions_read_together_are_answered_as_alone(reader, squad):
    texts = [(squad.contexts[q.context], q.text) for q in squad.questions[:2]]
    texts += [(" ".join(squad.contexts[:4]), squad.questions[0].text), ("one", "two")]
    lines = [json.dumps({"context": c, "question": q, "id": n}) for n, (c, q) in enumerate(texts)]
    answers = [answer.to_dict() for answer in reader.predict(lines)]
    assert [answer["id"] for answer in answers] == [*range(len(lines))]
    for line, pair, answer in zip(lines, texts, answers, strict=True):
        alone = next(reader.predict([line])).to_dict()
        for one, other in zip((answer, *answer["next"]), (alone, *alone["next"]), strict=True):
            assert (one["start"], one["end"]) == (other["start"], other["end"])
            assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)
        assert reader.parse(line, "here").lengths == tuple(len(words_of(text)) for text in pair)


def test_an_answer_that_is_not_probable_enough_is_empty(task, params, squad):
    question = {"context": squad.contexts[0], "question": "zyx zyx ?"}
    answers = []
    for least in (0.0, 1.0):
        strict = service_of(task).predictor(params, min_probability=least)
        answers += [answer.to_dict() for answer in strict.predict([question])]
    best, empty = answers
    words = [word for text in question.values() for word in words_of(text)]
    vocabulary = task.data.vocabulary
    assert best["unknown_words"] == sum(word not in vocabulary for word in words) > 2
    assert empty == {**best, "answer": "", "end": best["start"]}
    (asked, *_) = strict.answer(*question.values())
    assert (asked.answer, asked.start, asked.end) == ("", best["start"], best["start"])
    for words, option in (
        ("min_probability", {"min_probability": 1.5}),
        ("trained vectors", {"vectors": "glove.txt"}),
    ):
        with pytest.raises(UserError, match=words):
            service_of(task).predictor(params, **option)


def test_explained_answers_have_the_probabilities_of_words(task, params, reader, squad):
    context, question = squad.contexts[0], squad.questions[0].text
    line = input_line(context, question)
    answer = next(service_of(task).predictor(params, explain=True).predict([line])).to_dict()
    pointers, words, layers = (answer.pop(name) for name in ("pointers", "words", "layers"))
    assert answer == next(reader.predict([line])).to_dict()
    assert pointers["words"] == words_of(context)
    for name in ("first", "last"):
        assert sum(pointers[name]) == pytest.approx(1, abs=1e-3)
    assert words == [words_of(context), words_of(question)]
    ((attended,),) = layers
    weights = np.array(attended["weights"])
    assert weights.shape == tuple(map(len, words))
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-3)
    assert weights.std() > 0.001


def test_words_that_the_corpus_lacks_are_looked_up_once(tmp_path, monkeypatch):
    """The file is read once for all lines, and not again for words that it lacks."""
    file = tmp_path / "vectors.txt"
    file.write_text("cats 1 2\nZebra 3 4\nnine 5 6\nCats 7 8\n", "utf-8")
    known = ["cats", "."]
    vectors = read_vectors(file, known, 2, BadExamples("error"))
    Vocabulary.make(Counter(known), vectors, 40).save(tmp_path)
    words = dataclasses.replace(READER_WORDS, rows=0, dim=2)
    data = DataConfig(dir=str(tmp_path), vectors=str(file), word_length=4)
    task = SpanExtraction(Config(words=words, model=READER, data=data))
    task.read_vocabulary(tmp_path)
    passes = []
    monkeypatch.setattr(
        "qanet_jax.predictor.read_vectors",
        lambda path, words, *rest: passes.append(words) or read_vectors(path, words, *rest),
    )
    reader = service_of(task).predictor(None, vectors=str(file))
    outputs = {"first": np.array([0]), "last": np.array([0]), "score": np.zeros(1)}
    outputs |= {"start": np.zeros(5), "end": np.zeros(5)}
    monkeypatch.setattr(reader, "_computed", lambda _, windows, needed: [outputs for _ in windows])
    context = "cats nine zebra quagga Cats"
    assert len(list(reader.predict([input_line(context, "nine?")] * 2))) == 2
    assert passes == [["?", "Cats", "cats", "nine", "quagga", "zebra"]]
    encoded = lambda reader: reader._encoded("context", [tokenized(context)], 1, 6)
    batch = encoded(reader)
    expected = [[1, 2], [5, 6], [3, 4], [0, 0], [7, 8], [0, 0]]  # as of an evaluation
    np.testing.assert_array_equal(batch["context_vectors"][0], expected)
    assert list(batch["context"][0] == 1) == [False, False, False, True, False, False]  # unknown
    plain = encoded(service_of(task).predictor(None))
    assert list(plain["context"][0] == 1) == [False, True, True, True, False, False]
    np.testing.assert_array_equal(plain["context_vectors"][0, 4], [1, 2])

    # two threads at once
    def slowly(*args):
        time.sleep(0.1)
        return read_vectors(*args)

    monkeypatch.setattr("qanet_jax.predictor.read_vectors", slowly)
    both = service_of(task).predictor(None, vectors=str(file))
    requests = [[both._request(word, "nine?", {})] for word in ("zebra", "Cats")]
    threads = [threading.Thread(target=both._look_up, args=(one,)) for one in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert both._vocabulary.unknown(["zebra", "Cats", "nine"]) == 0

    # another file is refused, each time
    file.write_text("cats 9 9\nnine 5 6\n", "utf-8")
    reader = service_of(task).predictor(None, vectors=str(file))
    for _ in range(2):
        assert "other vectors than the run has" in refusal(reader.answer, context, "nine?")


def test_scores_are_those_of_the_answers_and_files_have_their_official_form(task, squad):
    """Windows with the whole answer to every second question predict it, all others a word."""
    corpus = task.data.split("test")
    rows = len(corpus.questions)
    predictions = {name: np.zeros((rows, 1), int) for name in ("first", "last")}
    predictions |= {"score": np.full((rows, 1), -1.0), "normaliser": np.full(rows, 2.0)}
    for row in range(rows):
        answer = squad.questions[corpus.numbers[row]].answers[0]
        end = answer.start + len(answer.text)
        spans = [corpus.characters(row, n, n) for n in range(int(corpus.lengths()[row, 0]))]
        inside = [n for n, (a, b) in enumerate(spans) if a >= answer.start and b <= end]
        if inside and spans[inside[0]][0] == answer.start and corpus.numbers[row] % 2 == 0:
            predictions["first"][row] = inside[0]
            predictions["last"][row] = inside[-1]
            predictions["score"][row] = 1.0
    scored = task.score("test", predictions)
    answers = json.loads(scored.predictions["json"])
    assert list(answers) == [q.id for q in squad.questions]
    assert all(answers[q.id] in squad.contexts[q.context] for q in squad.questions)
    right = [answers[q.id] == q.answers[0].text for q in squad.questions]
    assert all(right[::2])
    assert scored.metrics["exact_match"] == pytest.approx(100 * np.mean(right))
    assert scored.results["exact_match"].tolist() == right
    assert scored.results["f1"].mean() == pytest.approx(scored.metrics["f1"] / 100)
    words = [len(squad.contexts[q.context].split()) for q in squad.questions]
    assert scored.results["length"].tolist() == words


def test_the_loss_is_that_of_the_first_gold_answer_over_all_windows(task, params, squad):
    """Against loops over the windows; of TriviaQA and without answers there is none."""
    corpus = task.data.split("test")
    rows = len(corpus.questions)
    gold = np.full(rows, np.nan, np.float32)
    normaliser = np.zeros(rows, np.float32)
    windows = [[] for _ in squad.questions]
    for arrays in task.split_batches("test").epoch(0):
        batch = jax.tree.map(jnp.asarray, arrays)
        outputs = task.predict_step(params, batch, final=False)
        pointers = map(np.asarray, task.logits(params, batch))
        for at, row, start, end in zip(count(), batch["index"].tolist(), *pointers):
            if row >= 0:
                gold[row] = outputs["gold"][at]
                normaliser[row] = outputs["normaliser"][at]
                windows[corpus.numbers[row]].append((row, start, end))

    losses = []
    for question, read in zip(squad.questions, windows, strict=True):
        answer = question.answers[0]
        letters = {*range(answer.start, answer.start + len(answer.text))}
        scores = []
        for row, start, end in read:
            words = [corpus.characters(row, n, n) for n in range(int(corpus.lengths()[row, 0]))]
            inside = [n for n, word in enumerate(words) if letters & {*range(*word)}]
            covered = {letter for n in inside for letter in range(*words[n])}
            if {n for n in letters if not squad.contexts[question.context][n].isspace()} <= covered:
                scores.append(start[inside[0]] + end[inside[-1]])
        pairs = [np.add.outer(start, end).ravel() for _, start, end in read]
        losses.append(scipy.special.logsumexp(np.concatenate(pairs)) - max(scores))
    assert max(map(len, windows)) > 1 and (gold == -np.inf).any()

    spans = dict.fromkeys(("first", "last"), np.zeros((rows, 1), int))
    predictions = {**spans, "score": np.zeros((rows, 1)), "normaliser": normaliser}
    assert "nll" not in task.score("test", predictions).metrics
    nll = task.score("test", {**predictions, "gold": gold}).metrics["nll"]
    assert nll == pytest.approx(np.mean(losses), rel=1e-5)


def test_documents_of_triviaqa_vote_and_predictions_have_the_official_form(tmp_path):
    """Two documents answer Cats, each with less confidence than the third answers Evita."""
    texts = {"a.txt": "He wrote Cats.", "b.txt": "And the cats!", "c.txt": "Evita by Cats"}
    question = {
        "QuestionId": "tc_1",
        "Question": "Which musical?",
        "Answer": {"Aliases": ["Cats"], "NormalizedAliases": ["cats"]},
        "EntityPages": [{"Filename": name} for name in texts],
    }
    for name in ("train", "dev"):
        write_trivia(tmp_path, name, [question], texts)
    files = {"train": "qa/wikipedia-train.json", "dev": "qa/wikipedia-dev.json"}
    folders = {"dir": str(tmp_path), "cache_dir": str(tmp_path / "cache")}
    data = DataConfig(format="triviaqa", **folders, **files)
    task = SpanExtraction(Config(words=READER_WORDS, model=READER, data=data))
    task.prepare()
    assert task.splits[-1] == "dev"  # the official one
    at = np.array([[2], [2], [0]])
    score = np.log([[0.4], [0.3], [0.6]])
    predictions = {"first": at, "last": at, "score": score, "normaliser": np.zeros(3)}
    (batch,) = task.split_batches("dev").epoch(0)
    assert "start" not in batch
    scored = task.score("dev", predictions)
    assert json.loads(scored.predictions["json"]) == {"tc_1": "Cats"}
    assert scored.notes["questions"] == 1
    assert scored.metrics == {"exact_match": 100, "f1": 100}
    assert {name: [*column] for name, column in scored.results.items()} == {
        "length": [2],  # words of the question
        "exact_match": [1],
        "f1": [1],
    }
    assert scored.notes["by_question_type"] == {"which": [1, 100, 100]}
    answers = [text.split("\n")[1] for text in scored.examples]
    assert answers == ["  -> Cats", "  -> cats", "  -> Evita"]


def test_answers_that_cannot_be_located_are_gold(tmp_path):
    """A text that stands several times in the passage has no place, and is right nevertheless."""
    answers = ["Paris", "city of Paris"]
    row = {"id": "1", "context": "Paris, city of Paris", "question": "Where?", "answers": answers}
    for name in ("train", "dev"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    folders = {"dir": str(tmp_path), "cache_dir": str(tmp_path / "cache")}
    data = DataConfig(**folders, train="train.jsonl", dev="dev.jsonl")
    task = SpanExtraction(Config(words=READER_WORDS, model=READER, data=data))
    task.prepare()
    at = np.array([[0]])
    predictions = {"first": at, "last": at, "score": np.zeros((1, 1)), "normaliser": np.zeros(1)}
    scored = task.score("dev", predictions)
    assert scored.metrics == {"exact_match": 100, "f1": 100}
    golds = json.dumps({"1": answers}).encode()
    assert scored.notes["golds_sha256"] == hashlib.sha256(golds).hexdigest()
    (question,) = task.data.texts("dev").questions
    assert [answer.start for answer in question.answers] == [7]


@pytest.mark.slow
def test_commands_to_type_are_the_shells_own(task):
    """The shells' echo interprets backslashes in different ways; printf '%s' does not."""
    run = SimpleNamespace(path=Path("runs/x"), task=task)
    command = _next_commands(run)[0].partition(" | ")[0]
    output = subprocess.check_output(["sh", "-c", command])
    squad = task.data.texts("test")
    assert json.loads(output) == {
        "context": squad.contexts[0],
        "question": squad.questions[0].text,
    }
    assert command.startswith("printf '%s\\n' ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "context",
    [
        "one",
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd, it is right to left",
        "😀 😀😀 flags 🇩🇪 and e\u0301 combined",
        "x" * 10_000 + " tail",
        "word " * 3000,
    ],
)
def test_any_text_is_answered_with_a_piece_of_it(task, params, context):
    reader = service_of(task).predictor(params)
    (answer, *_) = reader.answer(context, "what is \u2019it\u2019?")
    assert answer.answer and context[answer.start : answer.end] == answer.answer
