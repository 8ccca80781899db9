"""Fine-tuning: a run continues with the parameters and the vocabulary of another on other data."""

import json
import re
import shutil

import jax
import numpy as np
import pytest

from common_jax.config import MeshConfig
from common_jax.data.corpus import Corpus
from common_jax.errors import UserError
from common_jax.io.parameters import named_parameters
from common_jax.text.vocabulary import Vocabulary
from common_jax.training.config import read_task
from common_jax.training.load_parameters import read_parameters
from common_jax.training.mesh import make_mesh
from common_jax.training.run_folder import RunFolder
from csan_jax.data.subwords import END, Subwords
from launch import train
from tests.launch.commands import fails
from tests.launch.test_changed_data import FAMILIES, arguments, vocabulary
from tests.launch.test_other_files import NAMES, score, write
from tests.launch.tiny_runs import result


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory):
    """A family, and the folder of its files and its run."""
    folder = write(request.param, tmp_path_factory.mktemp(request.param))
    train.main(arguments(request.param, folder))
    return request.param, folder


def fine_tuning(family, folder, source, run="tuned", **changes):
    run_folder = str(source / "run")
    values = {"train.init_from": run_folder, "data.vocabulary_from": run_folder}
    return arguments(family, folder, run, **{**values, **changes})


@pytest.mark.slow_for("qanet")
def test_a_run_continues_with_the_vocabulary_and_the_parameters_of_another(trained, tmp_path):
    family, source = trained
    other = write(family, tmp_path / "other", first=11)
    frozen = {"optimizer.learning_rate": 1e-30}
    train.main(fine_tuning(family, other, source, **frozen))
    assert vocabulary(other / "tuned") == vocabulary(source / "run")
    first, tuned = _parameters(source / "run"), _parameters(other / "tuned")
    for name, value in tuned.items():
        # the moving average rounds, and a step moves what is 0
        np.testing.assert_allclose(value, first[name], rtol=1e-5, atol=1e-25)
    _require_encoded(family, read_task(RunFolder(other / "tuned")), other)
    with pytest.raises(UserError, match=r"another vocabulary than this run; data\.vocab"):
        train.main(fine_tuning(family, other, source, "wrong", **{"data.vocabulary_from": ""}))


def _parameters(run):
    folder = RunFolder(run)
    params = read_parameters(folder, read_task(folder), make_mesh(MeshConfig(1))).values
    return named_parameters(params)


def _require_encoded(family, task, folder):
    """The first training example has the ids that the source's vocabulary gives its text."""
    task.prepare()
    if family == "csan":
        (model,) = [Subwords.load(path) for path in (folder / "tuned" / "vocabulary").iterdir()]
        line = (folder / "train.en").read_text().splitlines()[0]
        ids = Corpus.open(task.data.path / "train").row(0, "source")
        assert ids.tolist() == [*model.encode([line])[0], END]
        return
    words = Vocabulary.load(folder / "tuned" / "vocabulary")
    if family == "attconv":
        text = (folder / "train.tsv").read_text().splitlines()[0].split("\t")[1]
        ids = Corpus.open(task.data.path / "train").row(0, "first")
        assert ids.tolist() == words.word_ids(text.split())
    else:
        article = json.loads((folder / "train.json").read_text())["data"][0]["paragraphs"][0]
        ids = Corpus.open(task.data.path / "train" / "questions").row(0, "words")
        text = re.findall(r"[^\W\d]+|\d+|[^\w\s]", article["qas"][0]["question"])
        assert ids.tolist() == words.word_ids(text)


@pytest.mark.slow_for("csan", "qanet")
def test_a_fine_tuned_run_needs_the_other_one_only_at_its_start(trained, tmp_path, capsys):
    family, source = trained[0], tmp_path / "source"
    shutil.copytree(trained[1] / "run", source / "run")
    other = write(family, tmp_path / "other", first=11)
    train.main(fine_tuning(family, other, source))
    before = result(other / "tuned")["metrics"]["test"]
    with pytest.raises(UserError, match=r"differs in data\.vocabulary_from"):
        train.main(fine_tuning(family, other, source, **{"data.vocabulary_from": ""}))
    shutil.rmtree(source)
    printed = score(capsys, other / "tuned")
    assert {name: printed[name] for name in before} == pytest.approx(before)
    printed = score(capsys, other / "tuned", "--data", other / NAMES[family], "--name", "new")
    assert {name: printed[name] for name in before} == pytest.approx(before)
    train.main(fine_tuning(family, other, source, **{"train.steps": 6}))
    assert result(other / "tuned")["resumed_from"] == [4]
    with pytest.raises(UserError, match=r"data\.vocabulary_from=.*run: no run or export with a"):
        shutil.rmtree(other / "cache")
        train.main(fine_tuning(family, other, source, "second"))


def test_other_labels_get_a_new_output_layer(tmp_path, capsys):
    """All other parameters are those of the first run; the new ones are those of a fresh run."""
    source = write("attconv", tmp_path / "source")
    train.main(arguments("attconv", source))
    other = write("attconv", tmp_path / "other", first=11)
    for path in other.glob("*.tsv"):
        path.write_text(
            path.read_text().replace("neutral", "contradiction").replace("contr", "no_contr")
        )
    fields = {"data.labels": "no_contradiction,entailment", "optimizer.learning_rate": 1e-30}
    capsys.readouterr()
    train.main(fine_tuning("attconv", other, source, **fields))
    assert "new parameters, as the labels of" in capsys.readouterr().err
    first, tuned = _parameters(source / "run"), _parameters(other / "tuned")
    task = read_task(RunFolder(other / "tuned"))
    fresh = named_parameters(jax.jit(task.init)(jax.random.key(0)))
    new = {name for name in tuned if tuned[name].shape != first[name].shape}
    assert len(new) == 2 and all("output" in name for name in new)
    for name, value in tuned.items():
        expected = fresh[name] if name in new else first[name]
        np.testing.assert_allclose(value, getattr(expected, "value", expected), atol=1e-25)


UNFIT = {
    "csan": [
        ({"data.vocab_size": 320}, "data.vocab_size=320: .* has 310 pieces of the source,"),
        (
            {"data.joint_vocabulary": False, "model.tie": "none"},
            "joint_vocabulary=False: .* has joint.model",
        ),
    ],
    "qanet": [
        ({"words.rows": 9}, "words.rows=9: .*vocabulary has [0-9]+; set it to that run"),
        ({"words.char_rows": 9}, "words.char_rows=9: .*vocabulary has [0-9]+; set it"),
    ],
    "attconv": [({"words.rows": 5}, "words.rows=5: .*vocabulary has [0-9]+; set it to that run")],
}


def test_a_vocabulary_that_does_not_fit_the_config_is_refused(
    trained, tmp_path, monkeypatch, capsys
):
    family, source = trained
    other = write(family, tmp_path, first=11)
    for fields, words in UNFIT[family]:
        line = fails(monkeypatch, capsys, fine_tuning(family, other, source, **fields))
        assert re.search(words, line)
