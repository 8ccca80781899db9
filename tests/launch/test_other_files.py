"""Files that a run was not trained on: new test sets, lost or changed raw files, other columns."""

import hashlib
import json
import os
import re
import shutil

import numpy as np
import pytest

from common_jax.errors import UserError
from common_jax.fields import to_mapping
from common_jax.io import checksums
from common_jax.text.vocabulary import Vocabulary
from common_jax.training.config import parse, task_class
from launch import evaluate
from launch.api import evaluation
from launch.train import __main__ as train
from tests.families.runs import FAMILIES, SIZES, WORDS
from tests.launch.commands import fails, scores
from tests.launch.tiny_runs import evaluated, result
from tests.toy import changed

NOT_PREPARED = {  # other values of the fields
    **{"adversarial": True, "max_unreachable_answers": 0.5, "max_equal_pairs": 0.75},
    **{"batch_size": 3, "eval_batch_tokens": 999, "batch_tokens": 999, "max_shapes": 3},
    **{"batching": "packed", "row_tokens": 400, "negatives": 1, "cache_dir": "elsewhere"},
}


@pytest.fixture
def copy(trained, tiny, tmp_path):
    """As `trained`, for a test that changes it."""
    family, _ = trained
    return family, tiny(family.name, tmp_path / "copy")


def moved_raw_files(folder, to):
    """Moves a run's raw files to a new folder; returns it."""
    to.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        path.rename(to / path.name)
    return to


@pytest.mark.slow_for("csan", "qanet")
def test_a_test_set_is_scored_without_the_training_files(copy, tmp_path, capsys):
    """It has the scores that the run had on the same examples; nothing else is prepared."""
    family, folder = copy
    run = folder / "run"
    before = evaluated(run)
    moved = moved_raw_files(folder, tmp_path / "moved")
    shutil.rmtree(folder / "cache")
    for path in moved.iterdir():
        if not path.name.startswith("test"):
            path.unlink()
    argv = [run, "--data", moved / family.test, "--name", "new"]
    printed = scores(capsys, *argv)
    assert printed["split"] == "new"
    expected = result(run)["metrics"]["test"]
    assert {name: printed[name] for name in expected} == pytest.approx(expected)
    after = evaluated(run)
    assert before.items() <= after.items()
    for name in before:
        if name.startswith("test.predictions"):
            _require_same_predictions(after[name.replace("test", "new")], before[name])
    prepared = [path.name for path in (folder / "cache").glob("*/*") if path.is_dir()]
    assert [name for name in prepared if len(name) < 6] == ["test"]
    moved_raw_files(moved, tmp_path / "gone")  # the prepared test set is enough, too
    assert scores(capsys, *argv) == printed


def _require_same_predictions(actual, expected):
    """Equal up to the rounding of numbers, as batches may have other widths."""
    cells = [re.split(r"[\t\n]", text.decode()) for text in (actual, expected)]
    for one, other in zip(*cells, strict=True):
        same = one == other or float(one) == pytest.approx(float(other), abs=2e-5)
        assert same, (one, other)


@pytest.mark.slow_for("csan", "qanet")
def test_the_prepared_corpus_alone_trains_and_evaluates(copy, tmp_path, capsys):
    family, folder = copy
    expected = result(folder / "run")["metrics"]
    train.main([*family.arguments(folder), "--prepare"])  # records the files' new names
    moved_raw_files(folder, tmp_path / "moved")
    assert scores(capsys, folder / "run", "--split", "dev")["split"] == "dev"
    train.main(family.arguments(folder, **{"train.steps": 6}))
    assert "missing; the corpus was prepared before" in capsys.readouterr().err
    assert result(folder / "run")["resumed_from"] == [4]
    # a field that does not change the prepared corpus
    train.main(family.arguments(folder, "again", **{"data.max_shapes": 2}))
    assert expected.keys() == result(folder / "again")["metrics"].keys()
    shutil.rmtree(folder / "cache")
    with pytest.raises(UserError, match="no such file"):
        train.main(family.arguments(folder, "third"))


@pytest.fixture
def hashed(monkeypatch):
    """The names of the raw files that are hashed."""
    names, describe = [], checksums.describe
    monkeypatch.setattr(
        "common_jax.data.raw_files.checksums.describe",
        lambda path: names.append(os.path.basename(path)) or describe(path),
    )
    return names


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_raw_files_are_hashed_again_if_size_or_time_has_changed(family, tmp_path, hashed):
    files = sorted(path for path in family.written(tmp_path).iterdir() if path.is_file())
    config = parse(*_config(family.arguments(tmp_path)))
    names = {path.name for path in files}

    def fingerprint():
        hashed.clear()
        data = task_class(config.task)(config).data
        return data._fingerprint(data.builder()), sorted(name for name in hashed if name in names)

    first, found = fingerprint()
    assert found == sorted(names)
    assert fingerprint() == (first, found)  # just written: they could change with the same time
    for path in files:
        os.utime(path, ns=(0, 1_000_000_000))
    assert fingerprint() == (first, found)
    assert fingerprint() == (first, [])
    last = files[-1]
    content = last.read_bytes()
    last.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])  # of the same size
    os.utime(last, ns=(0, 2_000_000_000))
    second, found = fingerprint()
    assert found == [last.name] and second != first
    last.write_bytes(content)
    os.utime(last, ns=(0, 3_000_000_000))
    assert fingerprint() == (first, [last.name])


def _config(argv):
    return argv[1], [text for text in argv[2:] if text.startswith("--config.")]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_prepared_corpus_does_not_depend_on_fields_that_are_not_prepared(family, tmp_path):
    config = parse(*_config(family.arguments(family.written(tmp_path))))
    fingerprint = lambda config: task_class(config.task)(config).data.builder().fingerprint()
    expected = fingerprint(config)
    for name in config.data.not_prepared:
        rows = {"row_tokens": 512} if name == "batching" else {}
        other = changed(config, "data", **{name: NOT_PREPARED[name]}, **rows)
        assert to_mapping(other) != to_mapping(config) or name == "negatives"
        assert fingerprint(other) == expected


@pytest.mark.slow
def test_the_vectors_of_words_that_a_run_lacks_are_read(tmp_path, capsys, caplog):
    """Questions of a test set have words of the vectors' file that the run's files do not have."""
    family = FAMILIES["qanet"]
    folder = family.written(tmp_path / "qanet")
    file = folder / "vectors.txt"
    words = ["the", "lives", "zebra", *WORDS]
    rows = np.random.default_rng(0).standard_normal((len(words), 6)).round(3)
    lines = [f"{w} {' '.join(map(str, row))}\n" for w, row in zip(words, rows, strict=True)]
    file.write_text("".join(lines))
    train.main(family.arguments(folder, **{"data.vectors": file, "words.rows": 0}))
    question = {"id": "1", "question": "zebra?", "answers": [{"text": "b", "answer_start": 4}]}
    data = {"data": [{"paragraphs": [{"context": "the b zebra", "qas": [question]}]}]}
    (tmp_path / "new.json").write_text(json.dumps(data))
    argv = ["--workdir", str(folder / "run"), "--data", str(tmp_path / "new.json")]
    evaluate.main(argv)
    caches = [path.parent for path in (folder / "cache").glob("*/lexicon.json")]
    (prepared,) = (cache for cache in caches if not (cache / "train").exists())
    vocabulary, own = map(Vocabulary.load, (prepared, folder / "run" / "vocabulary"))
    ids = vocabulary.word_ids(["zebra"])
    np.testing.assert_array_equal(vocabulary.vectors(np.array(ids))[0], rows[2].astype(np.float32))
    assert own.word_ids(["zebra"]) == [1] and own.compatible_with(vocabulary)
    file.write_text(file.read_text().replace("the ", "the 1"))
    with pytest.raises(UserError, match=r"data\.vectors: other vectors"):
        evaluate.main(argv)
    file.unlink()
    shutil.rmtree(folder / "cache")
    capsys.readouterr()
    evaluate.main(argv)
    assert "missing; words that the run lacks are unknown" in capsys.readouterr().err


def test_the_advice_for_an_invalid_example_fits_the_command(trained, tmp_path, monkeypatch, capsys):
    family, folder = trained
    source = family.written(tmp_path / "other")
    for path in source.glob("test*"):
        text = path.read_text()
        if family.name == "csan":
            text = text if path.suffix == ".en" else text.replace(text.splitlines()[0], "", 1)
        elif family.name == "attconv":
            first, rest = text.split("\n", 1)  # the first line may be a header
            text = first + "\n" + rest.replace("entailment", "entails", 1)
        else:
            text = text.replace('"text": "', '"text": "absent ', 1)
        path.write_text(text)
    argv = [str(folder / "run"), "--data", str(source / family.test), "--name", "bad"]
    line = fails(monkeypatch, capsys, ["--workdir", *argv], evaluate.main)
    assert line.endswith("; fix it, or give --skip_bad")
    scores(capsys, *argv, "--skip_bad")
    rows = (folder / "run" / "eval" / "bad.examples.tsv").read_text().splitlines()[1:]
    assert len(rows) == SIZES["test"] - 1
    places = {"data.dir": source, "data.cache_dir": tmp_path}
    line = fails(monkeypatch, capsys, family.arguments(tmp_path / "third", **places))
    assert line.endswith("or set data.on_bad_example=skip")


def test_other_columns_are_described_by_overrides(tiny, tmp_path, capsys):
    folder = tiny("attconv", tmp_path)
    rows = [line.split("\t") for line in (folder / "test.tsv").read_text().splitlines()]
    csv = "premise;said of it;gold\n" + "".join(f"{p};{h};{label[:3]}\n" for label, p, h, _ in rows)
    (folder / "reviews.csv").write_text(csv)
    columns = "--config.data.columns=label=gold,first=premise,second=said of it"
    argv = ["--data", folder / "reviews.csv", columns, "--config.data.labels=ent,neu,con"]
    printed = scores(capsys, folder / "run", *argv)
    expected = result(folder / "run")["metrics"]["test"]
    assert (printed["split"], printed["accuracy"]) == ("reviews", expected["accuracy"])


def test_numbers_of_inferred_labels_need_their_order(tiny, tmp_path, capsys):
    folder = tiny("attconv", tmp_path)
    run = folder / "run"
    record = json.loads((run / "config.json").read_text())
    names = sorted(record["config"]["data"]["labels"].split(","))
    record["config"]["data"].update(labels=",".join(names), inferred="labels")
    (run / "config.json").write_text(json.dumps(record))
    lines = (folder / "test.tsv").read_text()
    for number, name in enumerate(names):
        lines = re.sub(rf"(?m)^{name}\t", f"{number}\t", lines)
    (folder / "numbers.tsv").write_text(lines)
    argv = ["--workdir", str(run), "--data", str(folder / "numbers.tsv")]
    with pytest.raises(UserError, match="inferred from names, in alphabetical order"):
        evaluate.main(argv)
    with pytest.raises(UserError, match=rf"must be in the run's order, .*={','.join(names)}$"):
        evaluate.main([*argv, f"--config.data.labels={','.join(names[::-1])}"])
    evaluate.main([*argv, f"--config.data.labels={','.join(names)}"])


def test_a_run_on_generated_examples_is_scored_on_files(tmp_path, capsys):
    family = FAMILIES["attconv"]
    generated = {"data.source": "generated", "data.examples": 60, "data.holdout_size": 12}
    of_files = tuple(f"--config.data.{key}=" for key in (*SIZES, "dir", "columns"))
    argv = family.arguments(tmp_path, **generated)
    train.main([text for text in argv if not text.startswith(of_files)])
    file = family.written(tmp_path / "other") / family.test
    columns = "--config.data.columns=1,2,3"
    printed = scores(capsys, tmp_path / "run", "--data", file, columns)
    assert printed["split"] == "test.tsv" and 0 <= printed["accuracy"] <= 100


@pytest.mark.parametrize(
    "files,name",
    [
        ("a/newstest.2013", "newstest.2013"),
        ("a/b.TSV.GZ", "b"),
        ("a/b.csv,c/d.parquet", "b+d"),
        ("a/test", "a-test"),
        ("a/test.tsv", "test.tsv"),
        ("a/dev-v1.1.json.gz", "dev-v1.1"),
        ("x.jsonl", "x"),
        ("test.json.gz", "test.json.gz"),
    ],
)
def test_scores_are_named_after_their_files(files, name):
    assert evaluation.name_of(files, ("dev", "test")) == name


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
