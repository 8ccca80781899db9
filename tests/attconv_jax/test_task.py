"""The task with labels and with rankings: training on meshes, losses, scores, predictions."""

import copy
import dataclasses
import functools
import itertools
import json

import flax.linen as nn
import jax
import numpy as np
import optax
import pytest

from attconv_jax.config import Config, DataConfig, WordsConfig
from attconv_jax.models.attentive_convolution import AttentiveConvolution
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from attconv_jax.task import SentenceClassification
from common_jax.config import MeshConfig, OptimizerConfig, TrainConfig
from common_jax.errors import UserError
from common_jax.predictor import CompiledFunctions, Input, Unanswered
from common_jax.text.squad import Answer, Question, Squad, write_squad
from common_jax.training.evaluate import ensemble_mean
from common_jax.training.mesh import make_mesh
from common_jax.training.state import abstract_state, init_state
from common_jax.training.step import make_train_step
from tests.sharded_batch import placed

STEPS = 12
WORDS = WordsConfig(dim=8, rows=120)
MODEL = AttentiveConvolution(dim=8, attention="both", dropout=0.0)
PASSAGES = {
    "Ada lives in Rome. Ben moved to Oslo. It rains.": {"Where does Ada live?": "Rome"},
    "The ship sank in May. Nobody was hurt.": {
        "When did it sink?": "May",
        "Who was hurt?": "Nobody",
    },
    "One sentence is all.": {"How many?": "One"},
}


def classification(folder, data=None, mesh=(1, 1, 1), model=None, **train):
    data = data or DataConfig(source="generated", examples=60, holdout_size=12, max_shapes=2)
    data = dataclasses.replace(data, cache_dir=str(folder / "cache"), batch_size=12)
    config = Config(
        words=WORDS,
        model=model or MODEL,
        data=data,
        optimizer=OptimizerConfig(
            name="adagrad", learning_rate=0.05, schedule="constant", warmup_steps=1, eps=1e-8
        ),
        train=TrainConfig(**train),
        mesh=MeshConfig(*mesh),
    )
    return SentenceClassification(config)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attconv")
    questions = [
        Question(text, text, number, (Answer(answer, context.index(answer)),))
        for number, (context, answers) in enumerate(PASSAGES.items())
        for text, answer in answers.items()
    ]
    squad = Squad([*PASSAGES], questions, [str(number) for number in range(len(PASSAGES))])
    for split in ("train", "dev", "test"):
        write_squad(folder / f"{split}.json", squad)
    return folder


@pytest.fixture(scope="module")
def task(folder):
    task = classification(folder)
    task.prepare()
    return task


@pytest.fixture(scope="module")
def params(task):
    return jax.jit(task.init)(jax.random.key(0))


@pytest.fixture(scope="module")
def ranking(folder):
    files = {split: f"{split}.json" for split in ("train", "dev", "test")}
    data = DataConfig(
        format="ranking", dir=str(folder), labels="no,yes", ignored_labels="", **files
    )
    task = classification(folder, data)
    task.prepare()
    return task, jax.jit(task.init)(jax.random.key(0))


def trained(task, initial, per_call=1):
    """The loss and the gradient's norm of each step, [steps, 2]."""
    mesh = make_mesh(task.config.mesh)
    state = jax.device_put(initial, jax.tree.map(lambda a: a.sharding, abstract_state(task, mesh)))
    step, numbers = make_train_step(task, mesh), []
    batches = list(itertools.islice(itertools.cycle(task.train_batches().epoch(0)), STEPS))
    for at in range(0, STEPS, per_call):
        group = batches[at : at + per_call]
        group = tuple(placed(batch, mesh, task.config.train.accumulate) for batch in group)
        state, metrics = step(state, group, jax.random.key(task.config.train.seed))
        numbers += zip(*jax.device_get((metrics["loss"], metrics["grad_norm"])), strict=True)
    return np.array(numbers)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("is_trained", [True, False])
def test_fixed_parameters_are_those_without_a_gradient(task, is_trained, channels):
    model = ConvolutionPooling(dim=4, widths="2", channels=channels, dropout=0.0)
    words = dataclasses.replace(WORDS, trained=is_trained)
    other = SentenceClassification(dataclasses.replace(task.config, model=model, words=words))
    batch = jax.tree.map(jax.numpy.asarray, next(iter(task.train_batches().epoch(0))))
    params = other.init(jax.random.key(0))
    loss = lambda params: other.loss(params, batch, jax.random.key(1))["loss"]
    gradient = jax.jit(jax.grad(loss))(nn.unbox(params))
    without = {name for name, values in gradient.items() if not optax.tree.norm(values)}
    assert without == {*other.fixed} & {*gradient}


@pytest.fixture(scope="module")
def alone(folder):
    """The initial state, on the host, and the results of `trained` on one device."""
    task = classification(
        folder, DataConfig(source="generated", examples=60, holdout_size=12, max_shapes=1)
    )
    task.prepare()
    initial = jax.device_get(init_state(task, make_mesh(task.config.mesh)))
    return initial, trained(task, initial)


@pytest.mark.parametrize(
    "mesh,train,per_call",
    [
        pytest.param((8, 1, 1), {}, 1, marks=pytest.mark.slow),
        ((2, 2, 2), {"accumulate": 3}, 4),
        pytest.param((1, 1, 1), {}, 4, marks=pytest.mark.slow),
    ],
)
def test_any_mesh_and_any_steps_a_call_equal_one_device(folder, alone, mesh, train, per_call):
    data = DataConfig(source="generated", examples=60, holdout_size=12, max_shapes=1)
    task = classification(folder, data, mesh, **train)
    task.prepare()
    initial, expected = alone
    assert expected[-1, 0] < 0.9 * expected[0, 0]  # it learns
    np.testing.assert_allclose(trained(task, initial, per_call), expected, rtol=2e-5)


@functools.cache
def predict_step(task):
    return jax.jit(functools.partial(task.predict_step, final=True))


def probabilities(task, params, batch):
    predict = predict_step(task)
    return np.asarray(nn.softmax(predict(params, batch)["logits"]), np.float64)


def test_the_loss_is_the_labels_logarithm_summed_over_real_rows(task, params):
    batch = dict(task.train_batches().epoch(0)[0])
    likely = probabilities(task, params, batch)
    batch["index"] = np.where(np.arange(12) < 7, batch["index"], -1)
    sums = jax.jit(task.loss)(params, batch, jax.random.key(1))
    expected = -sum(np.log(likely[row, batch["label"][row]]) for row in range(7))
    assert float(sums["loss"]) == pytest.approx(expected, rel=1e-5)
    assert float(sums["weight"]) == 7


@pytest.mark.parametrize("negatives", [1, 3])
@pytest.mark.parametrize(
    "loss,pairs",
    [*itertools.product(["hinge", "both"], ["question", "batch"]), ("cross_entropy", "question")],
)
def test_the_ranking_loss_is_what_lacks_of_the_margin(ranking, loss, pairs, negatives):
    ranking, params = ranking
    task = copy.copy(ranking)
    data = dataclasses.replace(ranking.config.data, negatives=negatives)
    task.config = dataclasses.replace(ranking.config, loss=loss, pairs=pairs, data=data)
    task.data = copy.copy(ranking.data)
    task.data.config = data
    [batch] = task.train_batches().epoch(0)
    real = batch["index"] >= 0
    assert real.sum() == 3  # of four questions, one has a passage of one sentence
    assert batch["other"].shape[1] == negatives
    there = batch["other"].any(-1)
    assert sorted(there[real].sum(1)) == ([1, 1, 1] if negatives == 1 else [1, 1, 2])
    likely = lambda sentences: probabilities(
        ranking, params, {"first": batch["first"], "second": sentences}
    )
    right = likely(batch["second"])
    wrong = [likely(batch["other"][:, n]) for n in range(negatives)]
    rows, total = np.flatnonzero(real), 0.0
    others = {m: [wrong[n][m] for n in range(negatives) if there[m, n]] for m in rows}
    for m in rows:
        compared = (
            others[m] if pairs == "question" else [*itertools.chain.from_iterable(others.values())]
        )
        hinge = np.mean([max(0, 0.85 - right[m, 1] + other[1]) for other in compared])
        entropy = -np.log(right[m, 1]) - np.mean([np.log(other[0]) for other in others[m]])
        total += {"hinge": hinge, "cross_entropy": entropy / 2, "both": hinge + entropy / 2}[loss]
    sums = jax.jit(task.loss)(params, batch, jax.random.key(1))
    assert float(sums["loss"]) == pytest.approx(total, rel=1e-5)
    assert float(sums["weight"]) == 3


def test_examples_of_a_batch_are_its_pairs(ranking):
    ranking, _ = ranking
    batches, corpus = ranking.train_batches(), ranking.data.corpus("train")
    reported = corpus.gather(batches.examples((0, 0)), "first", 20)
    batch = batches.epoch(0)[0]["first"]
    words = lambda rows: sorted(tuple(row[row > 0]) for row in rows if row.any())
    assert words(reported) == words(batch)


def test_words_begin_with_the_vectors_of_a_file(folder):
    (folder / "vectors.txt").write_text(
        "red 1 2 3 4 5 6 7 8\nBLUE 8 7 6 5 4 3 2 1\nzzz 0 0 0 0 0 0 0 0\n"
    )
    data = DataConfig(
        source="generated", examples=60, holdout_size=12, vectors=str(folder / "vectors.txt")
    )
    task = classification(folder, data)
    task.prepare()
    table = jax.tree.leaves(jax.jit(task.init)(jax.random.key(0))["word_embedding"])[0]
    red, blue, green = (
        task.data.vocabulary.word_ids([word])[0] for word in ("red", "blue", "green")
    )
    np.testing.assert_array_equal(table[red], np.arange(1, 9))
    np.testing.assert_array_equal(table[blue], np.arange(8, 0, -1))
    spread = np.concatenate([table[red], table[blue]]).std()  # of the words with vectors
    assert 0.5 * spread < np.delete(table, [red, blue], axis=0).std() < 2 * spread
    assert np.abs(table[green]).max() > 0.5 * spread


def test_lines_are_labelled_as_the_evaluation_does(task, params):
    judge = task.predictor(params, explain=True)
    lines = ["\t".join(texts) for texts in task.data.texts("test")]
    answers = [answer.to_dict() for answer in judge.predict(lines)]
    assert len(answers) == 12
    for batch in task.split_batches("test").epoch(0):
        likely = probabilities(task, params, batch)
        for row in np.flatnonzero(batch["index"] >= 0):
            answer = answers[batch["index"][row]]
            actual = [answer["probabilities"][name] for name in task.config.data.names]
            np.testing.assert_allclose(actual, likely[row], atol=1e-5)
            assert answer["label"] == task.config.data.names[likely[row].argmax()]
    for answer in answers:
        looked = {(attention["text"], attention["context"]) for attention in answer["layers"][0]}
        assert looked == {(0, 1), (0, 0), (1, 0), (1, 1)}
        for attention in answer["layers"][0]:
            weights = np.array(attention["weights"])
            shape = tuple(len(answer["words"][attention[name]]) for name in ("text", "context"))
            assert weights.shape == shape
            np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-2)


class Logits(CompiledFunctions):
    """A program of given logits, with the logits in its outputs or, as in older exports, not."""

    def __init__(self, logits, outputs):
        probabilities = nn.softmax(jax.numpy.array(logits, jax.numpy.float32))
        arrays = {"logits": logits, "probabilities": probabilities}
        self.outputs = {name: np.array(arrays[name], np.float32) for name in outputs}

    def __call__(self, **static):
        return lambda arrays: self.outputs


@pytest.mark.parametrize("outputs", [("logits", "probabilities"), ("probabilities",)])
def test_sentences_have_scores_where_the_probability_is_1(ranking, outputs):
    task, _ = ranking
    logits = [[-20.0, 20.25], [-21.5, 20.25], [3.0, 3.0], [20.0, -20.5]]
    judge = task.predictor_class(task.vocabulary, task.settings, Logits(logits, outputs))
    answers = [*judge.predict(["a b\tc d"] * 4)]
    assert [answer.probabilities["yes"] for answer in answers] == [1, 1, 0.5, 0]
    assert [answer.label for answer in answers] == ["yes", "yes", "no", "no"]  # the first of equals
    assert [answer.score for answer in answers] == pytest.approx([40.25, 41.75, 0, -40.5], rel=1e-6)
    scores = [json.loads(answer.line)["score"] for answer in answers]
    assert scores == [answer.score for answer in answers]


def test_logits_of_another_shape_than_the_probabilities_are_refused(ranking):
    task, _ = ranking
    programs = Logits([[1.0, 2.0]], ("logits", "probabilities"))
    programs.outputs["logits"] = np.zeros((1, 3), np.float32)
    judge = task.predictor_class(task.vocabulary, task.settings, programs)
    with pytest.raises(UserError, match=r"logits \(1, 3\)"):
        [*judge.predict(["a b\tc d"])]


def test_an_ensemble_has_the_logs_of_the_mean_probabilities():
    """Also where these are rounded to 1; the first rows are those of one model, exchanged."""
    logits = np.array([[[0, 3], [0, 50]], [[3, 0], [0, 90]]], np.float32)
    (mean,) = ensemble_mean([{"logits": of} for of in logits]).values()
    assert mean[0, 0] == mean[0, 1] == pytest.approx(np.log(0.5))
    assert mean[1, 1] == pytest.approx(0)
    assert mean[1, 0] == pytest.approx(np.log((np.exp(-50.0) + np.exp(-90.0)) / 2))


def test_a_line_is_cleaned_and_one_far_longer_than_in_training_is_named(task, params, caplog):
    judge = task.predictor(params)
    longest = task.config.data.max_length
    long = "a " * (2 * longest + 1)
    first, second, _ = judge.predict(["\ufeffa b\tc", "a b\tc", f"a\t{long}"], "here")
    assert first == second
    expected = f"here:3: {2 * longest + 1} tokens, where training has at most {longest}"
    assert caplog.messages == [expected]


@pytest.mark.parametrize("line", ["one text", "a\tb\tc", "\tb", "a\t ", "", "a\t\u200b"])
def test_a_line_that_is_no_pair_is_refused(task, line):
    judge = task.predictor(None)  # no model is needed
    with pytest.raises(UserError, match=r"^here:2: "):
        judge.parse(line, "here:2")
    (result,) = judge.results([Input("here:2", line)])
    assert isinstance(result, Unanswered) and result.reason.startswith("here:2: ")
