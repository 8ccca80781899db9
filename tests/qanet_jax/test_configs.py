"""QANet's configs: systems, and a shortened run of each on files of its format."""

import json
from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.text.squad import write_squad
from common_jax.training.config import parse
from configs.qanet.systems import SYSTEMS
from launch import train
from qanet_jax.data.synthetic import generate
from tests.launch.tiny_runs import EVERY_STEP, TINY

FOLDER = Path(__file__).parents[2] / "configs" / "qanet"
SHRUNK = EVERY_STEP | TINY["qanet"] | {"words.rows": 60, "data.vectors": "", "train.steps": 1}
# the LSTM layers of the recurrent twins
OTHERS = {"rnn1": 1, "rnn2": 2, "rnn3": 3}
ABLATIONS = {
    "no_convolution": {"convolution": "none"},
    "no_attention": {"self_attention": False},
    "ordinary_convolution": {"convolution": "ordinary"},
}


@pytest.mark.parametrize("name", ["quickstart", "squad", "squad_small", "triviaqa"])
def test_systems_differ_in_the_model_alone(name):
    base = parse(str(FOLDER / f"{name}.py"), [])
    assert base.paper.system == "qanet"
    assert {"qanet", "bidaf", "random", "classifier", *OTHERS, *ABLATIONS} <= {*SYSTEMS}
    for system, fields in ABLATIONS.items():
        config = parse(f"{FOLDER / name}.py:{system}", [])
        assert config.paper.system == system
        differing = {k for k in vars(config.model) if vars(config.model)[k] != vars(base.model)[k]}
        assert {key: getattr(config.model, key) for key in differing} == fields
        for section in ("words", "data", "optimizer", "train"):
            assert getattr(config, section) == getattr(base, section)
    for system, layers in OTHERS.items():
        config = parse(f"{FOLDER / name}.py:{system}", [])
        assert config.model.lstm_layers == layers and config.model.dim == base.model.dim
        for section in ("words", "data", "optimizer", "train"):
            assert getattr(config, section) == getattr(base, section)
    with pytest.raises(UserError) as refused:
        parse(f"{FOLDER / name}.py:qanets", [])
    names = " | ".join(SYSTEMS)
    assert str(refused.value).endswith(f"'qanets': must be {names}; did you mean 'qanet'?")


def test_bidaf_is_trained_as_in_its_paper():
    """Seo et al. 2017, section 4.1."""
    config = parse(str(FOLDER / "squad.py:bidaf"), [])
    assert config.data.vectors.endswith("glove.6B.100d.txt") and config.words.dim == 100
    assert (config.data.batch_size, config.model.char_dim, config.word_length) == (60, 8, 16)
    assert (config.optimizer.name, config.optimizer.learning_rate) == ("adadelta", 0.5)
    assert (config.model.dropout, config.train.ema_decay, config.train.steps) == (
        0.2,
        0.999,
        20_000,
    )
    assert config.optimizer.l2 == config.optimizer.clip_norm == config.optimizer.warmup_steps == 0


def squad(folder):
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        write_squad(folder / name, generate(12, 0, "train"))


def triviaqa(folder):
    (folder / "qa").mkdir()
    (folder / "evidence" / "wikipedia").mkdir(parents=True)
    texts = generate(12, 0, "train")
    questions = []
    for q in texts.questions:
        file, answer = f"{q.id}.txt", q.answers[0].text
        (folder / "evidence" / "wikipedia" / file).write_text(texts.contexts[q.context])
        aliases = {"Aliases": [answer], "NormalizedAliases": [answer.lower()]}
        question = {"QuestionId": q.id, "Question": q.text, "EntityPages": [{"Filename": file}]}
        questions.append({**question, "Answer": {**aliases, "Value": answer}})
    for name in ("train", "dev"):
        (folder / "qa" / f"wikipedia-{name}.json").write_text(json.dumps({"Data": questions}))


@pytest.mark.parametrize(
    ("name", "make", "split"),
    [
        pytest.param("squad.py:no_attention", squad, "dev", marks=pytest.mark.slow),
        pytest.param("squad_small.py:ordinary_convolution", squad, "dev", marks=pytest.mark.slow),
        ("triviaqa.py:no_convolution", triviaqa, "dev_oracle"),
        pytest.param("squad_small.py:rnn2", squad, "dev", marks=pytest.mark.slow),
        pytest.param("squad_small.py:bidaf", squad, "dev", marks=pytest.mark.slow),
    ],
)
def test_runs(tmp_path, name, make, split):
    make(tmp_path)
    model = parse(str(FOLDER / name), []).model
    shrunk = {
        k: v
        for k, v in SHRUNK.items()
        if hasattr(model, k.removeprefix("model.")) or k[:5] != "model"
    }
    changes = shrunk | {"data.dir": tmp_path, "data.cache_dir": tmp_path / "cache"}
    overrides = [f"--config.{key}={value}" for key, value in changes.items()]
    run = tmp_path / "run"
    train.main(["--config", str(FOLDER / name), *overrides, "--workdir", str(run)])
    scored = json.loads((run / "eval" / f"{split}.json").read_text())
    assert scored["questions"] == 12
    assert len(json.loads((run / "eval" / f"{split}.predictions.json").read_text())) == 12
    result = json.loads((run / "result.json").read_text())
    assert result["steps"] == 1 and split in result["metrics"]
