"""The task with labels and with rankings: losses, scores, predictions; a system in one new file,
with further inputs, a second table and a further loss."""

import copy
import dataclasses
import functools
import itertools
import json
import shutil

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attconv_jax.config import Config, DataConfig, WordsConfig
from attconv_jax.data.dataset import LabelledData
from attconv_jax.data.prepare import Builder
from attconv_jax.data.text import tokenize
from attconv_jax.models.base import TABLES
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from attconv_jax.task import SentenceClassification
from common_jax.bad_examples import BadExamples
from common_jax.data.corpus import Corpus
from common_jax.deploy.predictor import CompiledFunctions
from common_jax.deploy.service import service_of
from common_jax.errors import UserError
from common_jax.text.squad import read_squad
from launch.api.evaluation import ensemble_mean
from tests.attconv_jax import anss
from tests.attconv_jax.anss import FORM
from tests.families.data.corpora import write_squad
from tests.families.tasks import CLASSIFIER_WORDS, GENERATED, classification
from tests.systems.overlap import Ends, Overlap, Shared

SHIP = "The ship sank in May. Nobody was hurt."
QUESTIONS = [  # context, id, question, answers
    ("Ada lives in Rome. Ben moved to Oslo. It rains.", "0", "Where does Ada live?", ["Rome"]),
    (SHIP, "1", "When did it sink?", ["May"]),
    (SHIP, "2", "Who was hurt?", ["Nobody"]),
    ("One sentence is all.", "3", "How many?", ["One"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("attconv")


@pytest.fixture(scope="module")
def task(folder):
    return classification(folder)


@pytest.fixture(scope="module")
def params(task):
    return jax.jit(task.init)(jax.random.key(0))


@pytest.fixture(scope="module")
def ranking(folder):
    files = {split: f"{split}.json" for split in ("train", "dev", "test")}
    write_squad(folder, *files.values(), questions=QUESTIONS)
    task = classification(folder, data={"dir": str(folder), **FORM, **files})
    return task, jax.jit(task.init)(jax.random.key(0))


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("is_trained", [True, False])
def test_fixed_parameters_are_those_without_a_gradient(task, is_trained, channels):
    model = ConvolutionPooling(dim=4, widths="2", channels=channels, dropout=0.0)
    words = dataclasses.replace(CLASSIFIER_WORDS, trained=is_trained)
    other = SentenceClassification(dataclasses.replace(task.config, model=model, words=words))
    batch = jax.tree.map(jnp.asarray, task.train_batches().epoch(0)[0])
    params = other.init(jax.random.key(0))
    loss = lambda params: other.loss(params, batch, jax.random.key(1))["loss"]
    gradient = jax.jit(jax.grad(loss))(nn.unbox(params))
    without = {name for name, values in gradient.items() if not optax.tree.norm(values)}
    assert without == {*other.fixed} & {*gradient}


@functools.cache
def predict_step(task):
    return jax.jit(functools.partial(task.predict_step, final=True))


def probabilities(task, params, batch):
    return np.asarray(nn.softmax(predict_step(task)(params, batch)["logits"]), np.float64)


@pytest.mark.parametrize("negatives", [1, 3])
@pytest.mark.parametrize(
    ("loss", "pairs"),
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
    words = lambda rows: sorted(tuple(row[row > 0]) for row in rows if row.any())
    assert words(reported) == words(batches.epoch(0)[0]["first"])


def test_words_begin_with_the_vectors_of_a_file(folder):
    file = folder / "vectors.txt"
    file.write_text("red 1 2 3 4 5 6 7 8\nBLUE 8 7 6 5 4 3 2 1\nzzz 0 0 0 0 0 0 0 0\n")
    task = classification(folder, data={**GENERATED, "vectors": str(file)})
    table = jax.tree.leaves(jax.jit(task.init)(jax.random.key(0))["word_embedding"])[0]
    red, blue, green = task.data.vocabulary.word_ids(["red", "blue", "green"])
    np.testing.assert_array_equal(table[red], np.arange(1, 9))
    np.testing.assert_array_equal(table[blue], np.arange(8, 0, -1))
    spread = np.concatenate([table[red], table[blue]]).std()  # of the words with vectors
    assert 0.5 * spread < np.delete(table, [red, blue], axis=0).std() < 2 * spread
    assert np.abs(table[green]).max() > 0.5 * spread


def test_lines_are_labelled_as_the_evaluation_does(task, params):
    judge = service_of(task).predictor(params, explain=True)
    lines = ["\t".join(texts) for texts in task.data.texts("test")]
    answers = [answer.to_dict() for answer in judge.predict(lines)]
    assert len(answers) == 12
    names = task.config.data.names
    for batch in task.split_batches("test").epoch(0):
        likely = probabilities(task, params, batch)
        for row in np.flatnonzero(batch["index"] >= 0):
            answer = answers[batch["index"][row]]
            actual = [answer["probabilities"][name] for name in names]
            np.testing.assert_allclose(actual, likely[row], atol=1e-5)
            assert answer["label"] == names[likely[row].argmax()]
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
        arrays = {"logits": logits, "probabilities": nn.softmax(jnp.array(logits, jnp.float32))}
        self.outputs = {name: np.array(arrays[name], np.float32) for name in outputs}

    def __call__(self, **static):
        return lambda arrays: self.outputs


def with_programs(task, programs, **options):
    service = service_of(task)
    return service.predictor_class(service.vocabulary, service.settings, programs, **options)


@pytest.mark.parametrize("least,labelled", [(None, 2), (0.75, 1), (0.9, 0)])
def test_a_label_that_is_not_probable_enough_is_left_out(task, least, labelled):
    logits = np.log([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    programs = Logits(logits, ("logits", "probabilities"))
    first, second = task.data.texts("test")[0]
    answers = [
        *with_programs(task, programs, min_probability=least).predict(
            [f"{first}\t{second}", "zyx zyx\t" + second]
        )
    ]
    names = task.config.data.names
    assert [answer.label for answer in answers] == [
        names[0] if labelled == 2 else "",
        names[2] if labelled else "",
    ]
    assert [answer.unknown_words for answer in answers] == [0, 2]


@pytest.mark.parametrize("outputs", [("logits", "probabilities"), ("probabilities",)])
def test_sentences_have_scores_where_the_probability_is_1(ranking, outputs):
    task, _ = ranking
    logits = [[-20.0, 20.25], [-21.5, 20.25], [3.0, 3.0], [20.0, -20.5]]
    judge = with_programs(task, Logits(logits, outputs))
    answers = [*judge.predict(["a b\tc d"] * 4)]
    assert [answer.probabilities["yes"] for answer in answers] == [1, 1, 0.5, 0]
    assert [answer.label for answer in answers] == ["yes", "yes", "no", "no"]  # the first of equals
    assert [answer.score for answer in answers] == pytest.approx([40.25, 41.75, 0, -40.5], rel=1e-6)
    scores = [json.loads(answer.line)["score"] for answer in answers]
    assert scores == [answer.score for answer in answers]


def test_a_ranking_needs_logits_like_probabilities_and_leaves_no_sentence_out(ranking):
    task, _ = ranking
    programs = Logits([[1.0, 2.0]], ("logits", "probabilities"))
    with pytest.raises(UserError, match="min_probability"):
        with_programs(task, programs, min_probability=0.5)
    programs.outputs["logits"] = np.zeros((1, 3), np.float32)
    judge = with_programs(task, programs)
    with pytest.raises(UserError, match=r"logits \(1, 3\)"):
        [*judge.predict(["a b\tc d"])]


def test_an_ensemble_has_the_logs_of_the_mean_probabilities():
    """Also where these are rounded to 1; the first rows are those of one model, exchanged."""
    logits = np.array([[[0, 3], [0, 50]], [[3, 0], [0, 90]]], np.float32)
    (mean,) = ensemble_mean([{"logits": of} for of in logits]).values()
    assert mean[0, 0] == mean[0, 1] == pytest.approx(np.log(0.5))
    assert mean[1, 1] == pytest.approx(0)
    assert mean[1, 0] == pytest.approx(np.log((np.exp(-50.0) + np.exp(-90.0)) / 2))


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    """A folder with files of what is ranked, and the fields of `data` that read them."""
    folder = tmp_path_factory.mktemp("ranked")
    anss.write(folder)
    shutil.copy(folder / "train.json", folder / "copy.json")
    files = {"train": "train.json", "dev": "copy.json", "test": "dev.json"}
    return {"dir": str(folder), "cache_dir": str(folder / "cache"), **anss.FORM, **files}


WORDS = WordsConfig(dim=3, rows=400, rule="english")

INPUTS = (Ends(), Shared())


def test_annotations_of_json_lines_reach_the_inputs(tmp_path):
    rows = [
        {
            "gold_label": "neutral",
            "sentence1": f"Man {n}.",
            "sentence2": "Dogs run.",
            "sentence1_note": "x" * n,
            "sentence2_parse": "( Dogs run )",
        }
        for n in range(5)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "b.tsv").write_text("neutral\tMan 7.\tDogs run.\n")
    config = DataConfig(dir=str(tmp_path), train="a.jsonl", dev="b.tsv", test="b.tsv")
    builder = Builder(config, WORDS, INPUTS)
    plain = Builder(config, WORDS).fingerprint()
    assert {**plain, "inputs": builder.fingerprint()["inputs"]} == builder.fingerprint()
    assert "inputs" not in plain
    (tmp_path / "built").mkdir()
    builder.build(tmp_path / "built")
    for split, notes in (("train", range(5)), ("dev", [0])):
        corpus = Corpus.open(tmp_path / "built" / split)
        for row, note in enumerate(notes):
            ends = corpus.row(row, "first_ends").reshape(-1, 3)
            assert len(ends) == 3 and (ends[:, 2] == note).all()
            assert not corpus.row(row, "second_ends").reshape(-1, 3)[:, 2].any()


@pytest.mark.parametrize("split", ["train", "dev"])
def test_batches_of_what_is_ranked_have_the_inputs_of_each_sentence(ranked, split):
    """The expected inputs are encoded from the batch's words, all of which are in the
    vocabulary."""
    data = LabelledData(DataConfig(**ranked, batch_size=5), WORDS, INPUTS)
    data.prepare()
    names = {data.vocabulary.word_ids([w])[0]: w for w in vocabulary(ranked)}
    words = lambda ids: [names[number] for number in ids if number]
    batches = data.train_batches(0) if split == "train" else data.split_batches(split)
    pairs = {"second": "shared"} | ({"other": "other_shared"} if split == "train" else {})
    rows = 0
    for batch in batches.epoch(0):
        if split == "train":  # one other sentence: [B, 1, ...]
            others = ("other", "other_ends", "other_shared")
            batch = {**batch, **{name: batch[name][:, 0] for name in others}}
        for row in np.flatnonzero(batch["index"] >= 0):
            question = words(batch["first"][row])
            for text, key in pairs.items():
                expected = Shared().encode([question, words(batch[text][row])], [])
                np.testing.assert_array_equal(batch[key][row], expected)
            for text in ("first", *pairs):
                own = Ends().encode(words(batch[text][row]), {})
                expected = np.zeros((batch[text].shape[1], 3), np.int32)
                expected[: len(own)] = own
                np.testing.assert_array_equal(batch[f"{text}_ends"][row], expected)
            rows += 1
    assert rows > 10


def vocabulary(ranked):
    squads = [
        read_squad(f"{ranked['dir']}/{ranked[s]}", BadExamples("error")) for s in ("train", "test")
    ]
    texts = [text for s in squads for text in (*s.contexts, *(q.text for q in s.questions))]
    return {word for text in texts for word in tokenize(text, "english")}


def task_of(**data):
    words = WordsConfig(dim=2, rows=200)
    task = SentenceClassification(Config(data=DataConfig(**data), words=words, model=Overlap()))
    task.prepare()
    return task, nn.unbox(jax.jit(task.init)(jax.random.key(0)))


def test_the_second_table_begins_as_the_first(tmp_path):
    """Words of the file of vectors have their vectors in both."""
    file = tmp_path / "vectors.txt"
    file.write_text("red 1 2\nblue 8 7\n")
    data = {"source": "generated", "examples": 24, "holdout_size": 8, "vectors": str(file)}
    task, params = task_of(cache_dir=str(tmp_path / "cache"), **data)
    first, second = (params[name] for name in TABLES)
    np.testing.assert_array_equal(first, second)
    assert second[task.data.vocabulary.word_ids(["red"])[0]].tolist() == [1, 2]


def test_a_further_loss_is_that_of_both_sentences_of_what_is_ranked(ranked):
    task, params = task_of(**ranked, batch_size=64)
    batch = task.train_batches().epoch(0)[0]
    real = batch["index"] >= 0
    assert not real.all()
    further, keys = 0.0, ("second", "second_ends", "shared")
    for names in (keys, ("other", "other_ends", "other_shared")):
        pair = {name: batch[name] for name in ("first", "first_ends")}
        texts = [batch[name] if name in keys else batch[name][:, 0] for name in names]
        pair |= dict(zip(keys, texts, strict=True))
        pair = jax.tree.map(jnp.asarray, pair)
        _, losses = task.model.apply({"params": params}, pair, train=False)
        further += np.asarray(losses["pooled_square"])[real].sum()
    sums = jax.jit(task.loss)(params, batch, jax.random.key(1))
    assert float(sums["pooled_square"]) == pytest.approx(further, rel=1e-5)
    assert float(sums["loss"]) == pytest.approx(float(sums["ranking"]) + further, rel=1e-5)
    assert "nll" not in sums  # which is the cross-entropy elsewhere
    assert float(sums["weight"]) == real.sum()
