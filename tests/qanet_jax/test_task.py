"""The task: loss, score, and prediction on other texts."""

import dataclasses
import json
import subprocess
from collections import Counter
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from common_jax.bad_examples import BadExamples
from common_jax.config import OptimizerConfig, TrainConfig
from common_jax.errors import UserError
from common_jax.text.squad import Answer, Question, Squad
from common_jax.text.vectors import read_vectors
from common_jax.text.vocabulary import Vocabulary
from common_jax.text.word_tokenizer import split_words
from common_jax.training.mesh import make_mesh
from common_jax.training.state import abstract_state, init_state
from common_jax.training.step import make_train_step
from qanet_jax.config import Config, DataConfig, MeshConfig
from qanet_jax.data.text import input_line
from qanet_jax.models.base import WordsConfig
from qanet_jax.models.qanet import QANet
from qanet_jax.reading import Reading
from qanet_jax.task import SpanExtraction
from tests.sharded_batch import placed

WORDS = WordsConfig(dim=6, rows=60, char_rows=40, rule="english")
MODEL = QANet(
    dim=8,
    num_heads=2,
    char_dim=4,
    embedding_convs=1,
    model_convs=1,
    model_blocks=1,
    dropout=0.0,
    word_dropout=0.0,
    char_dropout=0.0,
    survival_prob=1.0,
)


def span_extraction(folder, mesh=(1, 1, 1), **train):
    config = Config(
        words=WORDS,
        model=MODEL,
        data=DataConfig(
            source="generated",
            examples=24,
            holdout_size=6,
            cache_dir=str(folder),
            window=48,
            stride=18,
            eval_batch_tokens=200,
            batch_size=12,
            max_shapes=1,
        ),
        optimizer=OptimizerConfig(learning_rate=1e-3, schedule="constant", warmup_steps=1, l2=3e-7),
        train=TrainConfig(ema_decay=0.9, best_metric="f1", **train),
        mesh=MeshConfig(*mesh),
    )
    task = SpanExtraction(config)
    task.prepare()
    return task


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def task(folder):
    return span_extraction(folder)


@pytest.fixture(scope="module")
def initial(task):
    """The state before the first step, on the host: the same on any mesh."""
    return jax.device_get(init_state(task, make_mesh(task.config.mesh)))


@pytest.fixture(scope="module")
def params(initial):
    return jax.tree.map(jnp.asarray, initial.params)


@pytest.fixture(scope="module")
def reader(task, params):
    return task.predictor(params)


@pytest.fixture(scope="module")
def on_one_device(task, initial):
    return trained(task, initial)


def trained(task, initial, steps=4):
    """Loss and gradient norm of each step."""
    mesh = make_mesh(task.config.mesh)
    state = jax.device_put(initial, jax.tree.map(lambda a: a.sharding, abstract_state(task, mesh)))
    step, numbers = make_train_step(task, mesh), []
    batches = task.train_batches()
    read = [batch for epoch in range(steps) for batch in batches.epoch(epoch)][:steps]
    for batch in read:
        state, metrics = step(
            state,
            (placed(batch, mesh, task.config.train.accumulate),),
            jax.random.key(task.config.train.seed),
        )
        numbers.append([metrics["loss"][0], metrics["grad_norm"][0]])
    return np.array(jax.device_get(numbers))


@pytest.mark.parametrize(
    "mesh,train",
    [pytest.param((8, 1, 1), {}, marks=pytest.mark.slow), ((2, 2, 2), {"accumulate": 2})],
)
def test_any_mesh_and_any_parts_equal_one_device(folder, initial, on_one_device, mesh, train):
    assert on_one_device[-1, 0] < on_one_device[0, 0]
    spread = trained(span_extraction(folder, mesh, **train), initial)
    np.testing.assert_allclose(spread, on_one_device, rtol=5e-5)


def test_the_loss_is_the_pointers_logarithms_summed_over_real_rows(task, params):
    batch = next(iter(task.train_batches().epoch(0)))
    empty = {k: np.concatenate([v, np.zeros_like(v[:2])]) for k, v in batch.items()}
    empty["index"][-2:] = -1
    start, end = jax.device_get(jax.jit(task.logits)(params, batch))
    expected = 0.0
    for row in range(len(batch["index"])):
        for logits, at in ((start, batch["start"]), (end, batch["end"])):
            expected -= scipy.special.log_softmax(logits[row].astype(np.float64))[at[row]]
    loss = jax.jit(task.loss)
    for inputs, rows in ((batch, 12), (empty, 12)):
        sums = loss(params, inputs, jax.random.key(0))
        np.testing.assert_allclose(sums["loss"], expected, rtol=1e-5)
        assert sums["weight"] == rows


def test_the_answer_is_that_of_the_window_that_scores_highest(task, params, reader, monkeypatch):
    """Against decoding each window separately, in loops."""
    squad = task.data.texts("test")
    question = squad.questions[0]
    context = " ".join(squad.contexts[:4])
    decode, shapes = reader._decode, []
    monkeypatch.setattr(
        reader,
        "_decode",
        lambda batch: shapes.append(batch["context"].shape) or decode(batch),
    )
    answers = reader.answer(context, question.text)
    spans, best = split_words(context), {}
    limit = task.config.data.answer_length
    windows = [spans[n : n + 48] for n in range(0, max(1, len(spans) - 48 + 18), 18)]
    assert len(windows) > 4 and shapes == [(4, 48)] * -(-len(windows) // 4)
    pieces = [context[words[0][0] : words[-1][1]] for words in windows]
    for words, piece in zip(windows, pieces, strict=True):
        assert [(a + words[0][0], b + words[0][0]) for a, b in split_words(piece)] == words
    largest = np.full((2, len(spans)), -np.inf)
    logits = jax.jit(task.logits)
    for number, (words, piece) in enumerate(zip(windows, pieces, strict=True)):
        batch = reader._encoded("context", [_text(piece)], 4, 48)
        batch |= reader._encoded("question", [_text(question.text)], 4, 16)
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


def test_an_answer_certain_in_overlapping_windows_is_certain(reader, monkeypatch):
    """ "here" is the only likely first and last word in every window."""
    context = "no " * 40 + "here " + "no " * 50

    def computed(_, windows, needed=()):
        for _, text, _, start, stop in windows:
            logits = np.where(np.array(text.words[start:stop]) == "here", 50.0, 0.0)
            at = np.array([logits.argmax()])
            yield {"first": at, "last": at, "score": 2 * logits[at], "start": logits, "end": logits}

    monkeypatch.setattr(reader, "_computed", computed)
    best, *_ = reader.answer(context, "Where?")
    assert (best.answer, best.probability) == ("here", pytest.approx(1))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_equal_scores_in_two_windows_the_first_span_is_the_answer(order):
    """Windows of the words 0 to 5 and 4 to 9, whose best spans are the words 5 and 4."""
    text = " ".join(f"w{n}" for n in range(10))
    reading = Reading(text, _text(text))
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


def test_questions_read_together_are_answered_as_alone(task, params, reader):
    squad = task.data.texts("test")
    texts = [(squad.contexts[q.context], q.text) for q in squad.questions[:2]]
    texts += [(" ".join(squad.contexts[:4]), squad.questions[0].text), ("one", "two")]
    lines = [json.dumps({"context": c, "question": q, "id": n}) for n, (c, q) in enumerate(texts)]
    answers = [answer.to_dict() for answer in reader.predict(lines)]
    assert [answer["id"] for answer in answers] == [*range(len(lines))]
    for line, (context, question), answer in zip(lines, texts, answers, strict=True):
        alone = next(reader.predict([line])).to_dict()
        for one, other in zip((answer, *answer["next"]), (alone, *alone["next"]), strict=True):
            assert (one["start"], one["end"]) == (other["start"], other["end"])
            assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)
        lengths = len(split_words(context)), len(split_words(question))
        assert reader.parse(line, "here").lengths == lengths


def test_explained_answers_have_the_probabilities_of_words(task, params, reader):
    squad = task.data.texts("test")
    context = squad.contexts[0]
    explaining = task.predictor(params, explain=True)
    line = json.dumps({"context": context, "question": squad.questions[0].text})
    answer = next(explaining.predict([line])).to_dict()
    pointers, words, layers = (answer.pop(name) for name in ("pointers", "words", "layers"))
    assert answer == next(reader.predict([line])).to_dict()
    assert pointers["words"] == [context[start:end] for start, end in split_words(context)]
    for name in ("first", "last"):
        assert sum(pointers[name]) == pytest.approx(1, abs=1e-3)
    question = squad.questions[0].text
    assert words == [
        pointers["words"],
        [question[start:end] for start, end in split_words(question)],
    ]
    ((attended,),) = layers
    weights = np.array(attended["weights"])
    assert weights.shape == tuple(map(len, words))
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-3)
    assert weights.std() > 0.001


def test_without_a_similarity_attention_is_uniform(task, params):
    """The limiting case of w = 0, in each window of the context."""
    layer = {
        "similarity": jax.tree.map(jnp.zeros_like, params["context_query_attention"]["similarity"])
    }
    explaining = task.predictor({**params, "context_query_attention": layer}, explain=True)
    line = input_line("One two three four . " * 20, "Where is it?")
    ((attended,),) = next(explaining.predict([line])).to_dict()["layers"]
    np.testing.assert_allclose(attended["weights"], np.full((100, 4), 0.25))


def _text(text):
    from qanet_jax.data.text import TokenizedText

    return TokenizedText.of(text, "english")


def test_words_that_the_corpus_lacks_are_looked_up_once(tmp_path, monkeypatch):
    """The file is read once for all lines, and not again for words that it lacks."""
    file = tmp_path / "vectors.txt"
    file.write_text("cats 1 2\nZebra 3 4\nnine 5 6\n", "utf-8")
    in_vocabulary = ["cats", "."]
    vocabulary = Vocabulary.make(
        Counter(in_vocabulary), read_vectors(file, in_vocabulary, 2, BadExamples("error")), 40
    )
    words = dataclasses.replace(WORDS, rows=0, dim=2)
    data = DataConfig(dir=str(tmp_path), vectors=str(file), word_length=4)
    task = SpanExtraction(Config(words=words, model=MODEL, data=data))
    vocabulary.save(tmp_path)
    task.read_vocabulary(tmp_path)
    passes = []
    monkeypatch.setattr(
        "qanet_jax.predictor.read_vectors",
        lambda path, words, *rest: passes.append(words) or read_vectors(path, words, *rest),
    )
    reader = task.predictor(None, vectors=str(file))
    outputs = {"first": np.array([0]), "last": np.array([0]), "score": np.zeros(1)}
    outputs |= {"start": np.zeros(4), "end": np.zeros(4)}
    monkeypatch.setattr(reader, "_computed", lambda _, windows, needed: [outputs for _ in windows])
    line = {"context": "cats nine zebra quagga", "question": "nine?"}
    assert len(list(reader.predict([json.dumps(line)] * 2))) == 2
    assert passes == [["?", "nine", "quagga", "zebra"]]
    batch = reader._encoded("context", [_text(line["context"])], 1, 5)
    np.testing.assert_array_equal(
        batch["context_vectors"][0], [[1, 2], [5, 6], [3, 4], [0, 0], [0, 0]]
    )
    assert list(batch["context"][0] == 1) == [False, False, False, True, False]  # unknown
    plain = task.predictor(None)._encoded("context", [_text(line["context"])], 1, 5)
    assert list(plain["context"][0] == 1) == [False, True, True, True, False]


def test_a_run_that_trained_its_vectors_takes_no_others(task, params):
    with pytest.raises(UserError, match="has trained vectors"):
        task.predictor(params, vectors="glove.txt")


def test_commands_to_type_are_the_shells_own(task):
    """The shells' echo interprets backslashes in different ways; printf '%s' does not."""
    command = task.next_commands("runs/x")[0].partition(" | ")[0]
    output = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=True
    ).stdout
    squad = task.data.texts("test")
    question = squad.questions[0]
    assert json.loads(output) == {"context": squad.contexts[0], "question": question.text}
    assert command.startswith("printf '%s\\n' ")


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
def test_any_text_is_answered_with_a_piece_of_it(reader, context):
    (answer, *_) = reader.answer(context, "what is \u2019it\u2019?")
    assert answer.answer and context[answer.start : answer.end] == answer.answer


def test_a_byte_order_mark_is_dropped_and_an_overlong_question_is_named(reader, caplog):
    line = json.dumps({"context": "Ada has nine cats.", "question": "why " * 200})
    first, second = reader.predict([f"\ufeff{line}", line], "here")
    assert first == second
    assert [m.partition(",")[0] for m in caplog.messages] == [
        f"here:{n}: 200 tokens" for n in (1, 2)
    ]


@pytest.mark.parametrize(
    "line,message",
    [
        ("", "somewhere:2:1: not JSON"),
        ("[" * 200_000, "somewhere:2: not JSON that can be read"),
        ("[]", "somewhere:2: a list where an object is needed"),
        ('{"context": "a b", "question": 3}', "somewhere:2: question: a whole number where a"),
        ('{"context": "a b"}', "somewhere:2: no 'question'"),
        ('{"context": "", "question": "what?"}', "somewhere:2: the context has no word"),
        ('{"context": "a b", "question": "  "}', "somewhere:2: the question has no word"),
        ('{"context": "\u200b", "question": "what?"}', "somewhere:2: the context has no word"),
        (
            r'{"id": "\ud800", "context": "a", "question": "b"}',
            "somewhere:2: id: .* unpaired surrogate",
        ),
    ],
)
def test_a_line_that_asks_nothing_is_refused_and_those_before_are_answered(reader, line, message):
    good = json.dumps({"id": 7, "context": "Ada has nine cats.", "question": "How many?"})
    answers = reader.predict([good, line], "somewhere")
    first = next(answers)
    assert first.id == 7 and first.answer and len(first.next) == 2
    with pytest.raises(UserError, match=message):
        next(answers)


def test_scores_are_those_of_the_answers_and_files_have_their_official_form(task):
    squad = task.data.texts("test")
    corpus = task.data.split("test")
    rows = len(corpus.questions)
    predictions = {
        "first": np.zeros((rows, 1), int),
        "last": np.zeros((rows, 1), int),
        "score": np.full((rows, 1), -1.0),
        "normaliser": np.full(rows, 2.0),
    }
    right = 0
    for example in range(rows):
        question = squad.questions[corpus.numbers[example]]
        answer = question.answers[0]
        spans = [corpus.characters(example, n, n) for n in range(_length(corpus, example))]
        words = [n for n, (a, b) in enumerate(spans) if a >= answer.start]
        end = answer.start + len(answer.text)
        last = [n for n in words if spans[n][1] <= end]
        if last and spans[words[0]][0] == answer.start and corpus.numbers[example] % 2 == 0:
            predictions["first"][example], predictions["last"][example] = words[0], last[-1]
            predictions["score"][example] = 1.0
    scored = task.score("test", predictions)
    answers = json.loads(scored.predictions["json"])
    assert list(answers) == [q.id for q in squad.questions]
    for number, question in enumerate(squad.questions):
        context = squad.contexts[question.context]
        assert answers[question.id] in context
        right += answers[question.id] == question.answers[0].text
        if number % 2 == 0:
            assert answers[question.id] == question.answers[0].text
    assert scored.metrics["exact_match"] == pytest.approx(100 * right / len(squad.questions))
    assert scored.results["exact_match"].tolist() == [
        answers[q.id] == q.answers[0].text for q in squad.questions
    ]
    assert scored.results["f1"].mean() == pytest.approx(scored.metrics["f1"] / 100)
    words = [len(squad.contexts[q.context].split()) for q in squad.questions]
    assert scored.results["length"].tolist() == words


def _length(corpus, example):
    return int(corpus.lengths()[example, 0])


def test_documents_of_triviaqa_vote_and_predictions_have_the_official_form(tmp_path):
    """Two documents answer Cats, each with less confidence than the third answers Evita."""
    texts = {"a.txt": "He wrote Cats.", "b.txt": "And the cats!", "c.txt": "Evita by Cats"}
    (tmp_path / "evidence" / "wikipedia").mkdir(parents=True)
    for name, text in texts.items():
        (tmp_path / "evidence" / "wikipedia" / name).write_text(text)
    question = {
        "QuestionId": "tc_1",
        "Question": "Which musical?",
        "Answer": {"Aliases": ["Cats"], "NormalizedAliases": ["cats"]},
        "EntityPages": [{"Filename": name} for name in texts],
    }
    (tmp_path / "qa").mkdir()
    for name in ("wikipedia", "dev"):
        (tmp_path / "qa" / f"{name}.json").write_text(json.dumps({"Data": [question]}))
    file = "qa/wikipedia.json"
    data = DataConfig(
        format="triviaqa",
        dir=str(tmp_path),
        train=file,
        dev="qa/dev.json",
        cache_dir=str(tmp_path / "cache"),
    )
    task = SpanExtraction(Config(words=WORDS, model=MODEL, data=data))
    task.prepare()
    assert task.splits[-1] == "dev"  # the official one
    predictions = {
        "first": np.array([[2], [2], [0]]),
        "last": np.array([[2], [2], [0]]),
        "score": np.log([[0.4], [0.3], [0.6]]),
        "normaliser": np.zeros(3),
    }
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
    assert [text.split("\n")[1] for text in scored.examples] == [
        "  -> Cats",
        "  -> cats",
        "  -> Evita",
    ]
