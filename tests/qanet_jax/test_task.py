"""The task: its loss, its score, and questions about anybody's text."""

import json

import jax
import numpy as np
import pytest
import scipy.special

from common_jax.errors import UserError
from common_jax.text.words import split_words
from common_jax.training.config import OptimizerConfig, TrainConfig
from common_jax.training.mesh import make_mesh, put_batch
from common_jax.training.state import init_state
from common_jax.training.step import make_train_step
from qanet_jax.config import Config, DataConfig, MeshConfig, ModelConfig
from qanet_jax.task import SpanExtraction

MODEL = ModelConfig(
    dim=8,
    num_heads=2,
    word_dim=6,
    char_dim=4,
    word_rows=60,
    char_rows=40,
    embedding_convs=1,
    model_convs=1,
    model_blocks=2,
    dropout=0.0,
    word_dropout=0.0,
    char_dropout=0.0,
    survival=1.0,
)


def span_extraction(folder, mesh=(1, 1, 1), **train):
    config = Config(
        model=MODEL,
        data=DataConfig(
            source="generated",
            examples=24,
            heldout=6,
            cache_dir=str(folder),
            window=48,
            stride=18,
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
def params(task):
    return init_state(task, make_mesh(task.config.mesh)).params


@pytest.fixture(scope="module")
def on_one_device(task):
    return trained(task)


def trained(task, steps=6):
    """Loss and gradient norm of each step."""
    mesh = make_mesh(task.config.mesh)
    state, step, numbers = init_state(task, mesh), make_train_step(task, mesh), []
    batches = task.train_batches()
    read = [batch for epoch in range(steps) for batch in batches.epoch(epoch)][:steps]
    for batch in read:
        state, metrics = step(state, (put_batch(batch, mesh, task.config.train.accumulate),))
        numbers.append([metrics["loss"][0], metrics["grad_norm"][0]])
    return np.array(jax.device_get(numbers))


@pytest.mark.parametrize("mesh,train", [((8, 1, 1), {}), ((2, 2, 2), {"accumulate": 2})])
def test_any_mesh_and_any_parts_equal_one_device(folder, on_one_device, mesh, train):
    assert on_one_device[-1, 0] < on_one_device[0, 0]
    spread = trained(span_extraction(folder, mesh, **train))
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
    for given, rows in ((batch, 12), (empty, 12)):
        sums = loss(params, given, jax.random.key(0))
        np.testing.assert_allclose(sums["loss"], expected, rtol=1e-5)
        assert sums["weight"] == rows


def test_the_answer_is_that_of_the_window_that_scores_highest(task, params):
    """Against a decoding of each window by itself, in loops."""
    squad = task.data.texts("test")
    question = squad.questions[0]
    context = " ".join(squad.contexts[:4])
    reader = task.predictor(params, count=2)
    found = reader.answer(context, question.text)
    spans, best = split_words(context), {}
    limit = task.config.data.answer_length
    windows = [spans[n : n + 48] for n in range(0, max(1, len(spans) - 48 + 18), 18)]
    pieces = [context[words[0][0] : words[-1][1]] for words in windows]
    for words, piece in zip(windows, pieces, strict=True):
        assert [(a + words[0][0], b + words[0][0]) for a, b in split_words(piece)] == words
    batch = reader._batch([_text(piece) for piece in pieces], _text(question.text))
    logits = np.stack(jax.jit(task.logits)(params, batch), axis=1)
    for words, (start, end) in zip(windows, logits, strict=False):  # rows are filled up
        for s in range(len(words)):
            for e in range(s, min(s + limit, len(words))):
                key = words[s][0], words[e][1]
                best[key] = max(best.get(key, -np.inf), float(start[s] + end[e]))
    ranked = sorted(best, key=lambda span: -best[span])
    assert [(f.start, f.end) for f in found] == ranked[:2]
    assert all(context[f.start : f.end] == f.text for f in found)
    assert 1 >= found[0].probability >= found[1].probability > 0


def _text(text):
    from qanet_jax.prepare import Text

    return Text.of(text)


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
    (answer, *_) = task.predictor(params, count=1).answer(context, "what is \u2019it\u2019?")
    assert answer.text and context[answer.start : answer.end] == answer.text


@pytest.mark.parametrize(
    "line,message",
    [
        ("", "standard input:2: not JSON"),
        ("{", "standard input:2: not JSON"),
        ("[]", "standard input:2: needs"),
        ('{"context": "a b", "question": 3}', "standard input:2: needs"),
        ('{"context": "", "question": "what?"}', "line 2: the context has no word"),
        ('{"context": "a b", "question": "  "}', "line 2: the question has no word"),
    ],
)
def test_a_line_that_asks_nothing_is_refused_and_those_before_are_answered(
    task, params, line, message
):
    good = json.dumps({"id": 7, "context": "Ada has nine cats.", "question": "How many?"})
    answers = task.predictor(params).predict([good, line])
    first = json.loads(next(answers))
    assert first["id"] == 7 and first["answer"] and len(first["next"]) == 2
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
    answers = json.loads(scored.files[".predictions.json"])
    assert list(answers) == [q.id for q in squad.questions]
    for number, question in enumerate(squad.questions):
        context = squad.contexts[question.context]
        assert answers[question.id] in context
        right += answers[question.id] == question.answers[0].text
        if number % 2 == 0:
            assert answers[question.id] == question.answers[0].text
    assert scored.metrics["exact_match"] == pytest.approx(100 * right / len(squad.questions))


def _length(corpus, example):
    return int(corpus.lengths()[example, 0])


def test_documents_of_triviaqa_vote_and_predictions_have_the_official_form(tmp_path):
    """Two say Cats, both less surely than the third says Evita."""
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
    (tmp_path / "qa" / "wikipedia.json").write_text(json.dumps({"Data": [question]}))
    file = "qa/wikipedia.json"
    data = DataConfig(
        form="triviaqa", dir=str(tmp_path), train=file, dev=file, cache_dir=str(tmp_path / "cache")
    )
    task = SpanExtraction(Config(model=MODEL, data=data))
    task.prepare()
    assert task.splits[-1] == "dev"  # the official one
    predictions = {
        "first": np.array([[2], [2], [0]]),
        "last": np.array([[2], [2], [0]]),
        "score": np.log([[0.4], [0.3], [0.6]]),
        "normaliser": np.zeros(3),
    }
    scored = task.score("dev", predictions)
    assert json.loads(scored.files[".predictions.json"]) == {"tc_1": "Cats"}
    assert scored.notes["questions"] == 1
    assert scored.metrics == {"exact_match": 100, "f1": 100}
    assert [text.split("\n")[1] for text in scored.examples] == [
        "  -> Cats",
        "  -> cats",
        "  -> Evita",
    ]
