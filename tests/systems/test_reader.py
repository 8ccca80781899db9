"""All commands on a reader that consists of a new file and a config."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.special

from common_jax.deploy import load
from common_jax.text.word_tokenizer import split_words
from common_jax.training.config import parse, read_task
from common_jax.training.run_folder import RunFolder
from launch.export import __main__ as export
from launch.train import __main__ as train
from qanet_jax.data.prepare import Builder
from tests.launch import commands
from tests.launch.tiny_runs import EVERY_STEP

CONFIG = """
from common_jax.config import to_config_dict
from configs.qanet import quickstart
from tests.systems.reader import Matching


def get_config():
    config = quickstart.get_config()
    config.model = to_config_dict(Matching())
    return config
"""
FIELDS = {"data.examples": 24, "data.holdout_size": 6, "data.window": 48, "data.stride": 18}
FIELDS |= {"data.batch_size": 12, "words.dim": 4, "words.rows": 60, "words.char_rows": 40}
FIELDS |= EVERY_STEP | {"train.steps": 2}
REQUEST = ("Ada lives in Rome. Ben lives in Paris.", "Where does Ben live?")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("reader") / "matching.py"
    path.write_text(CONFIG)
    return str(path)


@pytest.fixture(scope="module")
def run(config):
    folder = Path(config).parent
    train.main(commands.arguments(config, folder, **FIELDS))
    return folder / "run"


@pytest.fixture(scope="module")
def task(run):
    task = read_task(RunFolder(run))
    task.prepare()
    return task


def test_the_penalty_is_logged_beside_the_loss_that_has_it(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "grad_norm" in line]
    assert len(steps) == 2
    for line in steps:
        assert line["squares"] > 0
        assert line["loss"] == pytest.approx(line["nll"] + line["squares"])


def test_losses_are_summed_over_real_rows(task):
    params = task.init(jax.random.key(1))
    batch = next(iter(task.train_batches().epoch(0)))
    batch["index"][:3] = -1
    sums = jax.jit(task.loss)(params, batch, jax.random.key(0))
    logits = np.stack(jax.jit(task.logits)(params, batch)).astype(np.float64)
    nll = squares = 0.0
    for row in range(3, 12):
        for pointer, at in zip(logits[:, row], (batch["start"], batch["end"]), strict=True):
            words = pointer[batch["context"][row] != 0]
            nll -= scipy.special.log_softmax(words)[at[row]]
            squares += 0.1 * (words**2).sum()
    assert sums["nll"] == pytest.approx(nll, rel=1e-5)
    assert sums["squares"] == pytest.approx(squares, rel=1e-5)
    assert sums["loss"] == pytest.approx(nll + squares, rel=1e-5)


def test_a_batch_has_the_inputs_of_each_window_and_each_example(task):
    """Compared with the texts, in evaluation, where passages are split into windows."""
    squad, corpus, rows = task.data.texts("dev"), task.data.split("dev"), 0
    windows = set()
    for batch in task.split_batches("dev").epoch(0):
        for row, index in enumerate(batch["index"].tolist()):
            if index < 0:
                assert not batch["context_spelling"][row].any() and not batch["shared"][row].any()
                continue
            question = squad.questions[corpus.numbers[index]]
            text = squad.contexts[question.context]
            length = np.count_nonzero(batch["context"][row])
            spans = [corpus.characters(int(index), at, at) for at in range(length)]
            words = {
                "context": [text[slice(*span)] for span in spans],
                "question": [question.text[slice(*span)] for span in split_words(question.text)],
            }
            for name, tokens in words.items():
                spelling = batch[f"{name}_spelling"][row]
                expected = [[1 + w[0].isupper(), min(7, len(w))] for w in tokens]
                assert spelling[: len(tokens)].tolist() == expected
                assert not spelling[len(tokens) :].any()
                assert batch[f"{name}_characters"].shape[2] == 3
            sets = [*map(set, words.values())]
            shared = [len(set.intersection(*sets)), len(set.union(*sets))]
            assert batch["shared"][row].tolist() == shared
            windows.add(spans[0])
            rows += 1
    assert rows == len(corpus.questions) > len(squad.questions) / 2 and len(windows) > 1


def test_an_export_answers_as_the_run_does(run, tmp_path, monkeypatch, capsys):
    out = tmp_path / "export"
    export.main(["--workdir", str(run), "--out", str(out), "--format", "stablehlo"])
    lines = [json.dumps({"context": REQUEST[0] * n, "question": REQUEST[1]}) for n in (1, 12)]
    expected = commands.answers(monkeypatch, capsys, lines, "--workdir", run)
    assert len(expected) == 2 and json.loads(expected[0])["answer"] in REQUEST[0]
    assert commands.same_answers(
        commands.answers(monkeypatch, capsys, lines, "--model", out), expected
    )
    assert load(out).answer(*REQUEST)[0].answer == load(run).answer(*REQUEST)[0].answer


def test_inputs_and_other_characters_prepare_a_corpus_of_their_own(config):
    of = lambda file, *changes: Builder(parse(file, changes)).fingerprint()
    own, plain = of(config), of("configs/qanet/quickstart.py")
    assert "inputs" in own and "inputs" not in plain
    assert (own["limits"][0], plain["limits"][0]) == (3, 16)
    other = of(config, "--config.model.longest=5")
    assert other.pop("inputs") != own.pop("inputs") and other == own
