"""A shortened run of each config and of systems of each kind, on data of its format."""

import json

import jax
import numpy as np
import pytest

from common_jax.text.squad import write_squad
from common_jax.training.config import parse
from common_jax.training.mesh import make_mesh
from common_jax.training.state import init_state, run_key
from common_jax.training.step import make_train_step
from csan_jax.task import Translation
from launch.train import __main__ as train
from qanet_jax.data.synthetic import generate
from tests.attconv_jax.anss import squad as of_passages
from tests.common_jax.data.other_tools import json_lines
from tests.csan_jax.test_configs import PAIRS, prepared, read
from tests.families.data.corpora import write_trivia
from tests.families.test_configs import FOLDER
from tests.launch.commands import example_results
from tests.launch.tiny_runs import EVERY_STEP, TINY
from tests.real import needs_real_data, real_data

TRANSLATION = {
    "data.source": "generated",  # of English and German
    "data.source_language": "en",
    "data.target_language": "de",
    "data.examples": 60,
    "data.holdout_size": 4,
    "data.vocab_size": 400,
    "data.max_length": 64,
    "data.batch_tokens": 128,
    "data.max_shapes": 1,
    "model.dim": 8,
    "model.mlp_dim": 8,
    "model.num_heads": 2,
    "mesh.data": 1,
}
READING = EVERY_STEP | TINY["qanet"] | {"words.rows": 60, "data.vectors": "", "train.steps": 1}
LABELS = {
    "words.dim": 4,
    "words.rows": 140,
    "words.unknown_rows": 100,
    "model.dim": 6,
    "data.vectors": "",
    "data.max_shapes": 1,
    "data.holdout_size": 5,
    "data.batch_size": 4,
    "train.steps_per_call": 1,
    "train.steps": 2,
    "mesh.data": 1,
}


@pytest.mark.parametrize("name", PAIRS)
def test_translation_takes_a_step(name, tmp_path):
    """Each config shortened, on the generated corpus."""
    sizes = {f"data.{side}_vocab_size": 400 for side in ("source", "target")}
    own_sizes = {} if read(name).data.joint_vocabulary else sizes
    config = read(name, **TRANSLATION, **own_sizes, **{"data.cache_dir": tmp_path})
    task, mesh = Translation(config), make_mesh(config.mesh)
    task.prepare()
    batch = task.train_batches().epoch(0)[0]
    step, state = make_train_step(task, mesh), init_state(task, mesh)
    before = jax.tree.map(np.array, state.params)
    after, metrics = step(state, (batch,), run_key(0, mesh))
    values = {name: value.item() for name, value in metrics.items()}
    assert (values["real"], values["bad_steps"]) == (task.count_units(batch)[0], 0)
    assert 0.5 < values["nll"] / np.log(400) < 2
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), before, after.params)
    assert all(jax.tree.leaves(moved))


@needs_real_data
def test_tanaka(tmp_path):
    folder = real_data("tanaka_jaen")
    data = prepared("tanaka_jaen", cache_dir=tmp_path, dir=folder, vocab_size=8000)
    (train, _), (dev, _), (test, _) = data.split_sizes().values()
    assert len(set(data.sources("dev"))) == test == 500 and train + dev == 50_000
    assert not any(dropped for _, dropped in data.split_sizes().values())
    assert data.target_subwords.size == 8000


def trained(folder, name, values):
    """Trains FAMILY/FILE:SYSTEM with the fields that its model has; returns the run's folder."""
    file, colon, system = name.partition(":")
    path = f"{FOLDER / file}.py{colon}{system}"
    model = parse(path, []).model
    known = lambda key: not key.startswith("model.") or hasattr(model, key.removeprefix("model."))
    changes = {key: value for key, value in values.items() if known(key)}
    changes |= {"data.dir": folder, "data.cache_dir": folder / "cache"}
    overrides = [f"--config.{key}={value}" for key, value in changes.items()]
    train.main(["--config", path, *overrides, "--workdir", str(folder / "run")])
    return folder / "run"


def squad(folder, texts):
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        write_squad(folder / name, texts)


def triviaqa(folder, texts):
    questions, documents = [], {}
    for q in texts.questions:
        file, answer = f"{q.id}.txt", q.answers[0].text
        documents[file] = texts.contexts[q.context]
        aliases = {"Aliases": [answer], "NormalizedAliases": [answer.lower()]}
        question = {"QuestionId": q.id, "Question": q.text, "EntityPages": [{"Filename": file}]}
        questions.append({**question, "Answer": {**aliases, "Value": answer}})
    for name in ("train", "dev"):
        write_trivia(folder, name, questions, documents)


@pytest.mark.parametrize(
    "name",
    [
        "squad:no_attention",
        "squad_small:ordinary_convolution",
        "triviaqa:no_convolution",
        "squad_small:rnn2",
        "squad_small:bidaf",
    ],
)
def test_reading_runs(tmp_path, name):
    make, split = (triviaqa, "dev_oracle") if "trivia" in name else (squad, "dev")
    make(tmp_path, generate(12, 0, "train"))
    run = trained(tmp_path, f"qanet/{name}", READING)
    scored = json.loads((run / "eval" / f"{split}.json").read_text())
    assert scored["questions"] == 12
    assert len(json.loads((run / "eval" / f"{split}.predictions.json").read_text())) == 12
    result = json.loads((run / "result.json").read_text())
    assert result["steps"] == 1 and split in result["metrics"]


def pairs(folder):
    """With parses in parentheses."""
    names = ("entailment", "neutral", "contradiction", "-")
    words = (1, "Man"), (2, "Dog")
    rows = [
        {"gold_label": names[n % 4]}
        | {f"sentence{m}": f"{who} {n}." for m, who in words}
        | {f"sentence{m}_binary_parse": f"( {who} ( {n} . ) )" for m, who in words}
        for n in range(40)
    ]
    for split in ("train", "dev", "test"):
        (folder / f"snli_1.0_{split}.jsonl").write_bytes(json_lines(rows))


def reviews(folder):
    rows = [{"stars": float(n % 5 + 1), "text": f"It was {n} times good."} for n in range(60)]
    (folder / "yelp_academic_dataset_review.json").write_bytes(json_lines(rows))


MAKE = {
    "snli": pairs,
    "squad": lambda folder: squad(folder, of_passages(range(8))),
    "yelp": reviews,
}


@pytest.mark.parametrize(
    "name",
    [
        *("snli", "snli_small", "squad_anss", "squad_anss_small", "yelp"),
        # further inputs, tables and losses; the originals' training
        *("snli:tree_cnn", "snli:self_attentive", "snli:match_lstm-original"),
        *("squad_anss:cdssm", "squad_anss:bi_gru", "squad_anss:wordc1", "yelp:paragraph_vector"),
        "yelp:multichannel_cnn-original",
    ],
)
def test_labels_and_rankings_run(tmp_path, name):
    source = name.partition("_")[0].partition(":")[0]
    MAKE[source](tmp_path)
    run = trained(tmp_path, f"attconv/{name}", LABELS)
    metrics = json.loads((run / "result.json").read_text())["metrics"]
    assert set(metrics) == {"dev", "test"}
    lines = (run / "eval" / "test.predictions.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines[1:]]
    right = example_results(run, "test")["right"]
    if source != "squad":
        assert right == [gold == label for gold, label, *_ in rows]
    else:  # as many questions have an answer as there are right sentences, at the least
        assert sum(right) <= sum(gold == "yes" for gold, *_ in rows) < len(rows)
    metric = "precision_at_1" if source == "squad" else "accuracy"
    assert metrics["test"][metric] == pytest.approx(100 * sum(right) / len(right))
