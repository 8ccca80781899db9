"""A run's data are part of it: a corpus or word vectors that change under a run are refused."""

import hashlib
import json
import shutil

import pytest

from common_jax.errors import UserError
from common_jax.text.squad import write_squad
from launch import evaluate, train
from qanet_jax.data.synthetic import generate
from tests.launch import commands, tiny_runs
from tests.launch.commands import fails

WORDS = ["green", "blue", "house", "garden", "dog", "cat", "sleeps", "runs", "in", "on", "the", "a"]
LABELS = ("entailment", "neutral", "contradiction")


def sentences(count, first=0):
    """Distinct sentences of six words."""
    words = lambda n: (WORDS[(n // len(WORDS) ** place + place) % len(WORDS)] for place in range(6))
    return [" ".join(words(number)) for number in range(first, first + count)]


def write_translations(folder, first=0):
    for split, count in (("train", 80), ("dev", 8), ("test", 8)):
        source = sentences(count, first)
        target = [" ".join(reversed(line.upper().split())) for line in source]
        for language, lines in (("en", source), ("de", target)):
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))


def write_questions(folder, first=0):
    for split, count in (("train", 40), ("dev", 6), ("test", 6)):
        write_squad(folder / f"{split}.json", generate(count, first, "train"))


def write_pairs(folder, first=0):
    for split, count in (("train", 60), ("dev", 9), ("test", 9)):
        texts = sentences(2 * count, first)
        rows = zip(LABELS * count, texts[:count], texts[count:], strict=False)
        (folder / f"{split}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))


SPLITS = ("train", "dev", "test")
FAMILIES = {
    "csan": (write_translations, "", {"data.vocab_size": 310}, ["joint.model"]),
    "qanet": (write_questions, ".json", {}, ["lexicon.json"]),
    "attconv": (write_pairs, ".tsv", {}, ["lexicon.json"]),
}


def arguments(family, folder, run="run", **changes):
    _, ending, values, _ = FAMILIES[family]
    tiny = {**tiny_runs.EVERY_STEP, **tiny_runs.TINY[family], "data.source": "files", **values}
    files = {f"data.{split}": f"{split}{ending}" for split in SPLITS}
    if family == "csan":
        files |= {"data.source_language": "en", "data.target_language": "de"}
    values = tiny | files | changes
    return commands.arguments(f"configs/{family}/quickstart.py", folder, run, **values)


def vocabulary(run):
    return {path.name: path.read_bytes() for path in (run / "vocabulary").iterdir()}


@pytest.mark.slow_for("csan", "qanet")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_corpus_that_changes_under_a_run_is_refused(family, tmp_path):
    """Also in a run of an earlier version, which has no digests, if its vocabulary differs."""
    write, *_, files = FAMILIES[family]
    write(tmp_path)
    train.main(arguments(family, tmp_path))
    run = tmp_path / "run"
    kept = vocabulary(run)
    assert kept.keys() == {*files}
    recorded = json.loads((run / "data.json").read_text())["sha256"]
    assert recorded[files[0]] == hashlib.sha256(kept[files[0]]).hexdigest()
    (tmp_path / "new").mkdir()
    write(tmp_path / "new", first=3)
    for path in [*tmp_path.glob("test.*")]:
        shutil.copy(path, tmp_path / "new" / f"old.{path.name}")
        shutil.copy(tmp_path / "new" / path.name, path)
    owner = rf"other data than {run} was trained with: they differ in test; .* with --data"
    with pytest.raises(UserError, match=owner):
        evaluate.main(["--workdir", str(run)])
    evaluate.main(["--workdir", str(run), "--split", "dev"])
    for path in [*tmp_path.glob("test.*")]:
        shutil.move(tmp_path / "new" / f"old.{path.name}", path)
    for path in (tmp_path / "new").iterdir():
        if path.name.startswith("train"):
            shutil.copy(path, tmp_path)
    longer = arguments(family, tmp_path, **{"train.steps": 6})
    for old in (False, True):
        if old:
            (run / "data.json").unlink()
        with pytest.raises(UserError) as refused:
            train.main(longer)
        line = str(refused.value)
        owner = f"{run} has" if old else f"{run} was trained on"
        assert f"data.dir={tmp_path}: other data than {owner}: they differ in " in line
        assert (files[0] in line) and ("train" in line or old) and "another --workdir" in line
        assert vocabulary(run) == kept


def test_examples_held_out_of_a_changed_file_are_not_scored(tmp_path):
    """They would be others, which the run may have been trained with."""
    write_pairs(tmp_path)
    held_out = {"data.dev": "", "data.test": "", "data.holdout_size": 9}
    train.main(arguments("attconv", tmp_path, **held_out))
    run, file = tmp_path / "run", tmp_path / "train.tsv"
    scores = (run / "eval" / "test.json").read_text()
    with file.open("a") as lines:
        lines.write("entailment\ta new dog\ta new cat\n")
    for command in (["--split", "test"], ["--split", "dev"]):
        with pytest.raises(UserError, match=r"was trained with: they differ in (test|dev);"):
            evaluate.main(["--workdir", str(run), *command])
    assert (run / "eval" / "test.json").read_text() == scores


@pytest.mark.slow_for("qanet")
@pytest.mark.parametrize("family", ["qanet", "attconv"])
def test_word_vectors_that_change_under_a_run_are_refused(family, tmp_path):
    write, *_ = FAMILIES[family]
    write(tmp_path)
    file = tmp_path / "vectors.txt"

    def write_vectors(value):
        file.write_text("".join(f"{word} {' '.join([value] * 6)}\n" for word in [*WORDS, "."]))

    write_vectors("0.5")
    vectors = {"data.vectors": file} | ({"words.rows": 0} if family == "qanet" else {})
    train.main(arguments(family, tmp_path, **vectors))
    write_vectors("0.25")
    with pytest.raises(UserError, match=r"they differ in .*vectors"):
        train.main(arguments(family, tmp_path, **vectors, **{"train.steps": 6}))


def test_an_earlier_run_with_the_same_vocabulary_resumes_with_a_warning(tmp_path, capsys):
    write_pairs(tmp_path)
    train.main(arguments("attconv", tmp_path))
    (tmp_path / "run" / "data.json").unlink()
    for steps, warnings in ((6, 1), (8, 0)):
        capsys.readouterr()
        train.main(arguments("attconv", tmp_path, **{"train.steps": steps}))
        messages = capsys.readouterr().err
        assert messages.count("whether its examples are the same is unknown") == warnings
        assert (tmp_path / "run" / "data.json").exists()


def test_checkpoints_of_other_data_are_refused(tmp_path):
    """As after copying the checkpoints of one run into another's folder."""
    write_pairs(tmp_path)
    train.main(arguments("attconv", tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    write_pairs(other, first=5)
    train.main(arguments("attconv", other))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    shutil.copytree(other / "run" / "checkpoints", tmp_path / "run" / "checkpoints")
    with pytest.raises(UserError, match="trained on other data than this run"):
        train.main(arguments("attconv", tmp_path, **{"train.steps": 6}))


@pytest.mark.slow_for("csan", "qanet")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_start_that_fails_does_not_keep_its_folder(family, tmp_path, monkeypatch, capsys):
    write, *_ = FAMILIES[family]
    write(tmp_path)
    wrong = arguments(family, tmp_path, **{"train.seed": 3, "data.dev": "missing"})
    assert "missing" in fails(monkeypatch, capsys, wrong)
    train.main(arguments(family, tmp_path, **{"train.seed": 4}))
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 4


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("override", "fix"),
    [
        ("data.dir=elsewhere", "data.source=files"),
        ("data.train=train.txt", "data.source=files"),
        ("data.tfds=squad", "data.source=tfds"),
        ("optimizer.initial_sum=0.1", "optimizer.name=adagrad"),
    ],
)
def test_an_override_without_effect_is_refused(family, override, fix, monkeypatch, capsys):
    argv = ["--config", f"configs/{family}/quickstart.py", f"--config.{override}", "--prepare"]
    if family == "attconv" and override.startswith("optimizer"):
        argv.append("--config.optimizer.name=adam")
    line = fails(monkeypatch, capsys, argv)
    assert f"--config.{override}: has no effect" in line and f"--config.{fix} would" in line
