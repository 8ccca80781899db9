"""Fine-tuning: a run continues with the parameters and the vocabulary of another on other data."""

import json
import re
import shutil

import jax
import numpy as np
import pytest

from attconv_jax.data.text import tokenize
from common_jax.config import MeshConfig
from common_jax.data.corpus import Corpus
from common_jax.deploy.format import Export
from common_jax.deploy.parameters import read_parameters
from common_jax.errors import UserError
from common_jax.io.parameters import named_parameters
from common_jax.text.vocabulary import Vocabulary
from common_jax.training.config import read_task
from common_jax.training.mesh import make_mesh
from common_jax.training.run_folder import RunFolder
from csan_jax.data.subwords import END, Subwords
from launch.train import __main__ as train
from tests.families.runs import FAMILIES
from tests.launch.commands import fails, scores
from tests.launch.test_other_files import LONGER, vocabulary
from tests.launch.tiny_runs import result

FROZEN = {"optimizer.learning_rate": 1e-30}


def fine_tuning(family, folder, source, run="tuned", **changes):
    values = dict.fromkeys(("train.init_from", "data.vocabulary_from"), source / "run")
    return family.arguments(folder, run, **{**values, **changes})


@pytest.mark.slow_for("csan", "qanet")
def test_a_run_continues_with_the_vocabulary_and_the_parameters_of_another(
    trained, tiny, tmp_path, monkeypatch
):
    family, source = trained
    other = family.written(tmp_path, first=11)
    begun = source
    if family.name == "attconv":  # of an export, which is verified once
        begun = tmp_path / "exported"
        tiny.exported("attconv", begun / "run")
    verified = []
    verify = Export._verified
    monkeypatch.setattr(Export, "_verified", lambda self: verified.append(self) or verify(self))
    train.main(fine_tuning(family, other, begun, **FROZEN))
    assert len(verified) == (begun != source)
    assert vocabulary(other / "tuned") == vocabulary(source / "run")
    first, tuned = _parameters(source / "run"), _parameters(other / "tuned")
    for name, value in tuned.items():
        # the moving average rounds, and a step moves what is 0
        np.testing.assert_allclose(value, first[name], rtol=1e-5, atol=1e-25)
    _require_encoded(family.name, read_task(RunFolder(other / "tuned")), other)
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
        assert ids.tolist() == words.word_ids(tokenize(text, "english"))
    else:
        article = json.loads((folder / "train.json").read_text())["data"][0]["paragraphs"][0]
        ids = Corpus.open(task.data.path / "train" / "questions").row(0, "words")
        text = re.findall(r"[^\W\d]+|\d+|[^\w\s]", article["qas"][0]["question"])
        assert ids.tolist() == words.word_ids(text)


@pytest.mark.slow_for("csan", "qanet")
def test_a_fine_tuned_run_needs_the_other_one_only_at_its_start(trained, tmp_path, capsys):
    family, folder = trained
    source = tmp_path / "source"
    shutil.copytree(folder / "run", source / "run")
    other = family.written(tmp_path / "other", first=11)
    train.main(fine_tuning(family, other, source))
    before = result(other / "tuned")["metrics"]["test"]
    with pytest.raises(UserError, match=r"differs in data\.vocabulary_from"):
        train.main(fine_tuning(family, other, source, **{"data.vocabulary_from": ""}))
    shutil.rmtree(source)
    for flags in ([], ["--data", other / family.test, "--name", "new"]):
        printed = scores(capsys, other / "tuned", *flags)
        assert {name: printed[name] for name in before} == pytest.approx(before)
    train.main(fine_tuning(family, other, source, **LONGER))
    assert result(other / "tuned")["resumed_from"] == [4]
    shutil.rmtree(other / "cache")
    with pytest.raises(UserError, match=r"data\.vocabulary_from=.*run: no run or export with a"):
        train.main(fine_tuning(family, other, source, "second"))


def test_a_vocabulary_with_other_ids_of_unknown_words_is_refused(tiny, tmp_path):
    family = FAMILIES["attconv"]
    source = tiny("attconv", tmp_path / "source")
    fields = {"words.unknown_rows": 2}
    with pytest.raises(UserError, match=r"words\.unknown_rows=2: .*vocabulary has 0; set it"):
        train.main(fine_tuning(family, family.written(tmp_path / "other"), source, **fields))


def test_other_labels_get_a_new_output_layer(tiny, tmp_path, capsys):
    """All other parameters are those of the first run; the new ones are those of a fresh run."""
    family = FAMILIES["attconv"]
    source = tiny("attconv", tmp_path / "source")
    other = family.written(tmp_path / "other", first=11)
    for path in other.glob("*.tsv"):
        text = path.read_text().replace("neutral", "contradiction")
        path.write_text(text.replace("contr", "no_contr"))
    capsys.readouterr()
    fields = {"data.labels": "no_contradiction,entailment", **FROZEN}
    train.main(fine_tuning(family, other, source, **fields))
    assert "new parameters, as the labels of" in capsys.readouterr().err
    first, tuned = _parameters(source / "run"), _parameters(other / "tuned")
    task = read_task(RunFolder(other / "tuned"))
    fresh = named_parameters(jax.jit(task.init)(jax.random.key(0)))
    new = {name for name in tuned if tuned[name].shape != first[name].shape}
    assert len(new) == 2 and all("output" in name for name in new)
    for name, value in tuned.items():
        expected = fresh[name] if name in new else first[name]
        np.testing.assert_allclose(value, getattr(expected, "value", expected), atol=1e-25)


UNFIT = {  # and what the message names
    "csan": [
        ({"data.vocab_size": 320}, "data.vocab_size=320: .* 310"),
        ({"data.joint_vocabulary": False, "model.tie": "none"}, "joint_vocabulary=False: .* joint"),
    ],
    "qanet": [
        ({"words.rows": 9}, "words.rows=9: .*vocabulary has [0-9]+"),
        ({"words.char_rows": 9}, "words.char_rows=9: .*vocabulary has [0-9]+"),
    ],
    "attconv": [({"words.rows": 5}, "words.rows=5: .*vocabulary has [0-9]+")],
}


def test_a_vocabulary_that_does_not_fit_is_refused(trained, tmp_path, monkeypatch, capsys):
    family, source = trained
    other = family.written(tmp_path, first=11)
    for fields, named in UNFIT[family.name]:
        line = fails(monkeypatch, capsys, fine_tuning(family, other, source, **fields))
        assert re.search(named, line)
