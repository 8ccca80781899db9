"""Configs of attentive convolution: systems, and a shortened run of each on data of its form."""

import json
from pathlib import Path

import jax.numpy as jnp
import pytest

from attconv_jax.config import DataConfig, WordsConfig
from common_jax.errors import UserError
from common_jax.text.squad import write_squad
from common_jax.training.config import parse
from common_jax.training.optimizer import make_schedule
from configs.attconv.systems import ORIGINALS, SYSTEMS, config_of
from launch import train
from tests.attconv_jax.anss import squad
from tests.launch.commands import example_results

FOLDER = Path(__file__).parents[2] / "configs" / "attconv"
SMALL = {"words.dim": 4, "words.rows": 140, "words.unknown_rows": 100, "model.dim": 6}


PARSED = (1, "Man"), (2, "Dog")


def pairs(folder):
    labels = ("entailment", "neutral", "contradiction", "-")
    for name in ("snli_1.0_train.jsonl", "snli_1.0_test.jsonl", "snli_1.0_dev.jsonl"):
        rows = (
            {"gold_label": labels[n % 4]}
            | {f"sentence{m}": f"{who} {n}." for m, who in PARSED}
            | {f"sentence{m}_binary_parse": f"( {who} ( {n} . ) )" for m, who in PARSED}
            for n in range(40)
        )
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def passages(folder):
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        write_squad(folder / name, squad(range(8)))


def reviews(folder):
    rows = ({"stars": float(n % 5 + 1), "text": f"It was {n} times good."} for n in range(60))
    file = folder / "yelp_academic_dataset_review.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


OF_REVIEWS = ["yelp", "reviews_small"]
NAMES = ["quickstart", "snli", "snli_small", "squad_anss", "squad_anss_small", *OF_REVIEWS]


# Systems that also read a single text, a review.
OF_ONE_TEXT = {
    *("cnn", "light", "advanced", "bi_lstm", "self_attentive", "lin_bilstm", "lin_cnn"),
    *("multichannel_cnn", "internal_attention", "paragraph_vector"),
}


# Systems compared on pairs with three labels.
OF_PAIRS = (
    *("bi_lstm", "word_by_word", "self_attentive", "match_lstm", "decomposable"),
    *("decomposable_intra", "abcnn", "apcnn", "abcnn1", "abcnn2", "abcnn3", "nse", "lstmn"),
    *("tree_cnn", "light", "advanced"),
)


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_systems(name):
    for system in SYSTEMS:
        if name in OF_REVIEWS and system not in OF_ONE_TEXT:
            with pytest.raises(UserError, match=r"two texts|only attend to itself"):
                parse(f"{FOLDER / name}.py:{system}", [])
            continue
        config = parse(f"{FOLDER / name}.py:{system}", [])
        assert config.paper.system == system
    attention = "intra" if name in OF_REVIEWS else "inter"
    for system, source in (("light", "states"), ("advanced", "multigranular")):
        model = parse(f"{FOLDER / name}.py:{system}", []).model
        assert (model.attention, model.focus) == (attention, source)
    assert parse(f"{FOLDER / name}.py", []).paper.system in SYSTEMS
    with pytest.raises(
        UserError, match=r"'wide': must be cnn \| light \| advanced \| advanced_intra"
    ):
        parse(f"{FOLDER / name}.py:wide", [])


@pytest.mark.parametrize("name", NAMES)
def test_originals(name):
    """As many epochs as with the file's settings, and the original's training."""
    for system in ORIGINALS:
        if name in OF_REVIEWS and system not in OF_ONE_TEXT:
            continue
        config, own = (parse(f"{FOLDER / name}.py:{system}{end}", []) for end in ("-original", ""))
        assert config.paper.system == f"{system}-original"
        assert config.paper.results == own.paper.results
        seen, expected = (c.train.steps * c.data.batch_size for c in (config, own))
        assert seen == pytest.approx(expected, rel=0.01)
        rates = [make_schedule(c.optimizer, c.train.steps) for c in (config, own)]
        shares = [
            [
                float(rate(jnp.int32(part * c.train.steps))) / c.optimizer.learning_rate
                for part in (0.3, 0.9)
            ]
            for rate, c in zip(rates, (config, own), strict=True)
        ]
        assert shares[0] == pytest.approx(shares[1], abs=0.02)
        changed = (config.optimizer, config.model, config.words) != (
            *(own.optimizer, own.model, own.words),
        )
        assert changed
    with pytest.raises(UserError, match="SYSTEM-original of decomposable"):
        parse(f"{FOLDER / name}.py:cnn-original", [])


@pytest.mark.parametrize("field", ["loss=cross_entropy", "pairs=batch", "margin=0.1"])
def test_settings_of_rankings_alone(field):
    with pytest.raises(UserError, match=f"{field}: only for data.format=ranking"):
        parse(str(FOLDER / "snli_small.py"), [f"--config.{field}"])


def test_a_comparison_over_a_batch_needs_all_of_it():
    flags = ["--config.pairs=batch", "--config.train.accumulate=2"]
    with pytest.raises(UserError, match="accumulate=2: pairs=batch compares all of a batch"):
        parse(str(FOLDER / "rankings.py"), ["--config.data.dir=x", *flags])


def test_published_numbers():
    results = lambda name: parse(f"{FOLDER}/{name}", []).paper.results
    assert results("snli.py:nse") == ("NES: test accuracy 84.8",)
    assert results("snli_small.py:decomposable") == ()  # not in the table
    assert results("squad_anss.py:wordc2") == ("WordC2: test precision_at_1 79.59",)
    assert results("yelp.py:light") == ("AttentiveConvNet, light: test accuracy 66.75",)


def test_a_config_sets_fields_of_the_models_that_have_them():
    data = DataConfig(source="generated", examples=9)
    fields = {"dim": 7, "phrase_width": 5}
    models = [config_of(s, data, WordsConfig(dim=6), **fields) for s in ("cnn", "advanced")]
    assert [config.model.dim for config in models] == [7, 7]
    assert "phrase_width" not in models[0].model and models[1].model.phrase_width == 5


@pytest.mark.parametrize(
    ("name", "make", "metric"),
    [
        pytest.param("snli", pairs, "accuracy", marks=pytest.mark.slow),
        ("snli_small", pairs, "accuracy"),
        pytest.param("squad_anss", passages, "precision_at_1", marks=pytest.mark.slow),
        ("squad_anss_small", passages, "precision_at_1"),
        pytest.param("yelp", reviews, "accuracy", marks=pytest.mark.slow),
        ("yelp:cnn", reviews, "accuracy"),
        *(pytest.param(f"snli:{s}", pairs, "accuracy", marks=pytest.mark.slow) for s in OF_PAIRS),
        *(
            pytest.param(f"squad_anss:{s}", passages, "precision_at_1", marks=pytest.mark.slow)
            for s in ("wordc1", "wordc2", "cdssm", "bi_gru", "sentence_rank", "apcnn")
        ),
        *(
            pytest.param(f"yelp:{s}", reviews, "accuracy", marks=pytest.mark.slow)
            for s in sorted(OF_ONE_TEXT - {"cnn", "advanced"})
        ),
        pytest.param("yelp:multichannel_cnn-original", reviews, "accuracy", marks=pytest.mark.slow),
        pytest.param("snli:match_lstm-original", pairs, "accuracy", marks=pytest.mark.slow),
    ],
)
def test_runs(tmp_path, name, make, metric):
    file, colon, system = name.partition(":")
    make(tmp_path)
    path = f"{FOLDER / file}.py{colon}{system}"
    model = parse(path, []).model
    small = {k: v for k, v in SMALL.items() if k != "model.dim" or hasattr(model, "dim")}
    changes = small | {"data.dir": tmp_path, "data.cache_dir": tmp_path / "cache"}
    changes |= {"data.vectors": "", "data.max_shapes": 1, "train.steps_per_call": 1}
    changes |= {"data.holdout_size": 5, "data.batch_size": 4, "train.steps": 2, "mesh.data": 1}
    overrides = [f"--config.{key}={value}" for key, value in changes.items()]
    run = str(tmp_path / "run")
    train.main(["--config", path, *overrides, "--workdir", run])
    metrics = json.loads((tmp_path / "run" / "result.json").read_text())["metrics"]
    assert set(metrics) == {"dev", "test"}
    lines = (tmp_path / "run" / "eval" / "test.predictions.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines[1:]]
    right = example_results(tmp_path / "run", "test")["right"]
    if metric == "accuracy":
        assert right == [gold == label for gold, label, *_ in rows]
    else:  # as many questions have an answer as there are right sentences, at the least
        assert sum(right) <= sum(gold == "yes" for gold, *_ in rows) < len(rows)
    assert metrics["test"] == {metric: pytest.approx(100 * sum(right) / len(right))}
