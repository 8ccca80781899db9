"""A system in one new file: its further inputs, second table and further loss."""

import json
import shutil

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.config import Config, DataConfig, WordsConfig
from attconv_jax.data.dataset import LabelledData
from attconv_jax.data.prepare import Builder
from attconv_jax.data.text import tokenize
from attconv_jax.models.base import TABLES
from attconv_jax.task import SentenceClassification
from common_jax.bad_examples import BadExamples
from common_jax.data.corpus import Corpus
from common_jax.text.squad import read_squad
from tests.attconv_jax import anss
from tests.systems.overlap import Ends, Overlap, Shared


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
    assert float(sums["loss"]) == pytest.approx(float(sums["nll"]) + further, rel=1e-5)
    assert float(sums["weight"]) == real.sum()
