"""A run's data are part of it: a corpus or word vectors that change under a run are refused."""

import hashlib
import json
import shutil

import pytest

from common_jax.errors import UserError
from launch import evaluate
from launch.train import __main__ as train
from tests.families.runs import FAMILIES, WORDS
from tests.launch.commands import fails
from tests.launch.tiny_runs import result

LONGER = {"train.steps": 6}


def vocabulary(run):
    return {path.name: path.read_bytes() for path in (run / "vocabulary").iterdir()}


@pytest.mark.slow_for("csan", "qanet")
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_corpus_that_changes_under_a_run_is_refused(family, tiny, tmp_path):
    """Also in a run of an earlier version, which has no digests, if its vocabulary differs."""
    folder = tiny(family.name, tmp_path / "own")
    other = family.written(tmp_path / "new", first=3)
    run = folder / "run"
    file = family.vocabulary
    kept = vocabulary(run)
    recorded = json.loads((run / "data.json").read_text())["sha256"]
    assert kept.keys() == {file}
    assert recorded[file] == hashlib.sha256(kept[file]).hexdigest()
    old = family.written(tmp_path / "old")
    for path in other.glob("test*"):
        shutil.copy(path, folder)
    owner = rf"other data than {run} was trained with: they differ in test; .* with --data"
    with pytest.raises(UserError, match=owner):
        evaluate.main(["--workdir", str(run)])
    evaluate.main(["--workdir", str(run), "--split", "dev"])
    for path in (*old.glob("test*"), *other.glob("train*")):
        shutil.copy(path, folder)
    for owner in (f"{run} was trained on", f"{run} has"):
        with pytest.raises(UserError) as refused:
            train.main(family.arguments(folder, **LONGER))
        line = str(refused.value)
        assert f"data.dir={folder}: other data than {owner}: they differ in " in line
        assert file in line and "another --workdir" in line
        assert "train" in line.partition("differ in")[2] or not (run / "data.json").exists()
        assert vocabulary(run) == kept
        (run / "data.json").unlink(missing_ok=True)  # as in a run of an earlier version


def test_examples_held_out_of_a_changed_file_are_not_scored(tmp_path):
    """They would be others, which the run may have been trained with."""
    family = FAMILIES["attconv"]
    held_out = {"data.dev": "", "data.test": "", "data.holdout_size": 9}
    train.main(family.arguments(family.written(tmp_path), **held_out))
    scores = (tmp_path / "run" / "eval" / "test.json").read_text()
    with (tmp_path / "train.tsv").open("a") as lines:
        lines.write("entailment\ta new dog\ta new cat\tmore\n")
    for split in ("test", "dev"):
        with pytest.raises(UserError, match=r"was trained with: they differ in (test|dev);"):
            evaluate.main(["--workdir", str(tmp_path / "run"), "--split", split])
    assert (tmp_path / "run" / "eval" / "test.json").read_text() == scores


@pytest.mark.slow_for("qanet")
@pytest.mark.parametrize("name", ["qanet", "attconv"])
def test_word_vectors_that_change_under_a_run_are_refused(name, tmp_path):
    family = FAMILIES[name]
    vectors = {"data.vectors": family.written(tmp_path) / "vectors.txt"}
    vectors |= {"words.rows": 0} if name == "qanet" else {}

    def write_vectors(value):
        lines = (f"{word} {' '.join([value] * 6)}\n" for word in [*WORDS, "."])
        vectors["data.vectors"].write_text("".join(lines))

    write_vectors("0.5")
    train.main(family.arguments(tmp_path, **vectors))
    write_vectors("0.25")
    with pytest.raises(UserError, match=r"they differ in .*vectors"):
        train.main(family.arguments(tmp_path, **vectors, **LONGER))


def test_an_earlier_run_with_the_same_vocabulary_resumes_with_a_warning(tiny, tmp_path, capsys):
    tiny("attconv", tmp_path)
    (tmp_path / "run" / "data.json").unlink()
    for steps, warnings in ((6, 1), (8, 0)):
        capsys.readouterr()
        train.main(FAMILIES["attconv"].arguments(tmp_path, **{"train.steps": steps}))
        messages = capsys.readouterr().err
        assert messages.count("whether its examples are the same is unknown") == warnings
        assert (tmp_path / "run" / "data.json").exists()


def test_checkpoints_of_other_data_are_refused(tiny, tmp_path):
    """As after copying the checkpoints of one run into another's folder."""
    family = FAMILIES["attconv"]
    folder = tiny("attconv", tmp_path / "own")
    other = family.written(tmp_path / "other", first=5)
    train.main(family.arguments(other))
    shutil.rmtree(folder / "run" / "checkpoints")
    shutil.copytree(other / "run" / "checkpoints", folder / "run" / "checkpoints")
    with pytest.raises(UserError, match="trained on other data than this run"):
        train.main(family.arguments(folder, **LONGER))


@pytest.mark.slow_for("csan", "qanet")
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_start_that_fails_does_not_keep_its_folder(family, tmp_path, monkeypatch, capsys):
    folder = family.written(tmp_path)
    wrong = family.arguments(folder, **{"train.seed": 3, "data.dev": "missing"})
    assert "missing" in fails(monkeypatch, capsys, wrong)
    train.main(family.arguments(folder, **{"train.seed": 4}))
    assert result(folder / "run")["steps"] == 4
