"""Files that a run was not trained on: new test sets, lost raw files, fine-tuning."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from common_jax.config import to_config_dict
from common_jax.data.prepared import PreparedData
from common_jax.errors import UserError
from common_jax.fields import to_mapping
from common_jax.io import checksums
from common_jax.text.vocabulary import Vocabulary
from common_jax.training.config import parse, task_class
from launch import evaluate, train
from launch.api import evaluation
from tests.launch.commands import fails
from tests.launch.test_changed_data import FAMILIES, WORDS, arguments
from tests.launch.tiny_runs import evaluated, result

NAMES = {"csan": "test", "qanet": "test.json", "attconv": "test.tsv"}
NOT_PREPARED = {  # other values of the fields
    **{"adversarial": True, "max_unreachable_answers": 0.5, "max_equal_pairs": 0.75},
    **{"batch_size": 3, "eval_batch_tokens": 999, "batch_tokens": 999, "max_shapes": 3},
    **{"batching": "packed", "row_tokens": 400, "negatives": 1, "cache_dir": "elsewhere"},
}


def write(family, folder, first=0):
    folder.mkdir(exist_ok=True)
    FAMILIES[family][0](folder, first)
    return folder


def move_raw_files(folder, to):
    """Moves a run's raw files; returns the new names of its test split."""
    to.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        path.rename(to / path.name)


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory):
    """A family, and the folder of its files and its run."""
    folder = write(request.param, tmp_path_factory.mktemp(request.param))
    train.main(arguments(request.param, folder))
    return request.param, folder


@pytest.fixture
def copy(trained, tmp_path):
    """As `trained`, a copy for a test that changes it; the run's config has its own paths."""
    family, folder = trained
    shutil.copytree(folder, tmp_path / "copy", dirs_exist_ok=True, symlinks=True)
    file = tmp_path / "copy" / "run" / "config.json"
    file.write_text(file.read_text().replace(str(folder), str(tmp_path / "copy")))
    return family, tmp_path / "copy"


def prepared_splits(cache):
    return sorted(path.name for path in cache.glob("*/*") if path.is_dir() and len(path.name) < 6)


def score(capsys, *argv):
    capsys.readouterr()
    evaluate.main(["--workdir", *map(str, argv)])
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow_for("csan", "qanet")
def test_a_test_set_is_scored_without_the_training_files(copy, tmp_path, capsys):
    """It has the scores that the run had on the same examples; nothing else is prepared."""
    family, folder = copy
    run, moved = folder / "run", tmp_path / "moved"
    before = evaluated(run)
    move_raw_files(folder, moved)
    shutil.rmtree(folder / "cache")
    for path in moved.iterdir():
        if not path.name.startswith("test"):
            path.unlink()
    printed = score(capsys, run, "--data", moved / NAMES[family], "--name", "new")
    assert printed["split"] == "new"
    for name, value in result(run)["metrics"]["test"].items():
        assert printed[name] == pytest.approx(value)
    after = evaluated(run)
    assert {name: after[name] for name in before} == before
    for name in before:
        if name.startswith("test.predictions"):
            _require_same_predictions(after[name.replace("test", "new")], before[name])
    assert prepared_splits(folder / "cache") == ["test"]
    move_raw_files(moved, tmp_path / "gone")  # the prepared test set is enough, too
    assert score(capsys, run, "--data", moved / NAMES[family], "--name", "new") == printed


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
    train.main([*arguments(family, folder), "--prepare"])  # records the files under their new names
    move_raw_files(folder, tmp_path / "moved")
    assert score(capsys, folder / "run", "--split", "dev")["split"] == "dev"
    longer = arguments(family, folder, **{"train.steps": 6})
    capsys.readouterr()
    train.main(longer)
    assert "missing; the corpus was prepared before" in capsys.readouterr().err
    assert result(folder / "run")["resumed_from"] == [4]
    for fields in ({}, {"data.max_shapes": 2}):  # does not change the prepared corpus
        again = arguments(family, folder, "again", **fields)
        train.main(again)
        shutil.rmtree(folder / "again") if not fields else None
    assert expected.keys() == result(folder / "again")["metrics"].keys()
    shutil.rmtree(folder / "cache")
    with pytest.raises(UserError, match="no such file"):
        train.main(arguments(family, folder, "third"))


@pytest.fixture
def hashed(monkeypatch):
    """The names of the raw files that are hashed."""
    names, describe = [], checksums.describe
    monkeypatch.setattr(
        "common_jax.data.raw_files.checksums.describe",
        lambda path: names.append(os.path.basename(path)) or describe(path),
    )
    return names


@pytest.mark.parametrize("family", FAMILIES)
def test_raw_files_are_hashed_again_if_size_or_time_has_changed(family, tmp_path, hashed):
    write(family, tmp_path)
    files = sorted(path for path in tmp_path.iterdir() if path.is_file())
    config = parse(*_config(arguments(family, tmp_path)))

    def fingerprint():
        hashed.clear()
        data: PreparedData = task_class(config.task)(config).data
        value = data._fingerprint(data.builder())
        return value, sorted(
            name for name in hashed if not name.endswith(".json") or family == "qanet"
        )

    first, names = fingerprint()
    assert names == [path.name for path in files]
    assert fingerprint() == (first, names)  # just written: they could change with the same time
    for path in files:
        os.utime(path, ns=(0, 1_000_000_000))
    assert fingerprint() == (first, names)
    assert fingerprint() == (first, [])
    changed = files[-1]
    content = changed.read_bytes()
    changed.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])  # of the same size
    os.utime(changed, ns=(0, 2_000_000_000))
    second, names = fingerprint()
    assert names == [changed.name] and second != first
    changed.write_bytes(content)
    os.utime(changed, ns=(0, 3_000_000_000))
    assert fingerprint() == (first, [changed.name])


def _config(argv):
    return argv[1], [text for text in argv[2:] if text.startswith("--config.")]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_prepared_corpus_does_not_depend_on_fields_that_are_not_prepared(family, tmp_path):
    write(family, tmp_path)
    config = parse(*_config(arguments(family, tmp_path)))
    fingerprint = lambda config: task_class(config.task)(config).data.builder().fingerprint()
    expected = fingerprint(config)
    for name in config.data.not_prepared:
        values = to_config_dict(config)
        values.data[name] = NOT_PREPARED[name]
        if name == "batching":
            values.data.row_tokens = 512
        changed = type(config)(
            **{**vars(config), "data": type(config.data)(**values.data.to_dict())}
        )
        assert to_mapping(changed) != to_mapping(config) or name == "negatives"
        assert fingerprint(changed) == expected


def test_the_vectors_of_words_that_a_run_lacks_are_read(tmp_path, capsys, caplog):
    """Questions of a test set have words of the vectors' file that the run's files do not have."""
    folder = write("qanet", tmp_path / "qanet")
    file = folder / "vectors.txt"
    words = ["the", "lives", "zebra", *WORDS]
    rows = np.random.default_rng(0).standard_normal((len(words), 6)).round(3)
    lines = [f"{w} {' '.join(map(str, row))}\n" for w, row in zip(words, rows, strict=True)]
    file.write_text("".join(lines))
    vectors = {"data.vectors": file, "words.rows": 0}
    train.main(arguments("qanet", folder, **vectors))
    question = {"id": "1", "question": "zebra?", "answers": [{"text": "b", "answer_start": 4}]}
    data = {"data": [{"paragraphs": [{"context": "the b zebra", "qas": [question]}]}]}
    (tmp_path / "new.json").write_text(json.dumps(data))
    score(capsys, folder / "run", "--data", tmp_path / "new.json")
    prepared = next(path for path in (folder / "cache").glob("*/lexicon.json")
                    if not (path.parent / "train").exists()).parent  # fmt: skip
    vocabulary = Vocabulary.load(prepared)
    own = Vocabulary.load(folder / "run" / "vocabulary")
    ids = vocabulary.word_ids(["zebra"])
    np.testing.assert_array_equal(vocabulary.vectors(np.array(ids))[0], rows[2].astype(np.float32))
    assert own.word_ids(["zebra"]) == [1] and own.compatible_with(vocabulary)
    file.write_text(file.read_text().replace("the ", "the 1"))
    with pytest.raises(UserError, match=r"data\.vectors: other vectors than .*vocabulary has"):
        evaluate.main(["--workdir", str(folder / "run"), "--data", str(tmp_path / "new.json")])
    file.unlink()
    shutil.rmtree(folder / "cache")
    capsys.readouterr()
    evaluate.main(["--workdir", str(folder / "run"), "--data", str(tmp_path / "new.json")])
    assert "missing; words that the run lacks are unknown" in capsys.readouterr().err


BAD = {"csan": "b.en", "qanet": "b.json", "attconv": "b.tsv"}


def test_the_advice_for_an_invalid_example_fits_the_command(trained, tmp_path, monkeypatch, capsys):
    family, folder = trained
    source = write(family, tmp_path / "other")
    for path in source.glob("test*"):
        text = path.read_text()
        if family == "csan":
            text = text if path.suffix == ".en" else text.replace(text.splitlines()[0], "", 1)
        elif family == "attconv":
            first, rest = text.split("\n", 1)  # the first line may be a header
            text = first + "\n" + rest.replace("entailment", "entails", 1)
        else:
            text = text.replace('"answer_start": ', '"answer_start": 9', 1)
        path.write_text(text)
    argv = [
        "--workdir",
        str(folder / "run"),
        "--data",
        str(source / NAMES[family]),
        "--name",
        "bad",
    ]
    assert fails(monkeypatch, capsys, argv, evaluate.main).endswith("; fix it, or give --skip_bad")
    score(capsys, *argv[1:], "--skip_bad")
    count = {"csan": 7, "qanet": 5, "attconv": 8}[family]
    rows = (folder / "run" / "eval" / "bad.examples.tsv").read_text().splitlines()[1:]
    assert len(rows) == count
    argv = arguments(family, tmp_path / "third", **{"data.dir": source, "data.cache_dir": tmp_path})
    assert fails(monkeypatch, capsys, argv).endswith("or set data.on_bad_example=skip")


def test_other_columns_are_described_by_overrides(tmp_path, capsys):
    folder = write("attconv", tmp_path / "attconv")
    train.main(arguments("attconv", folder))
    rows = [line.split("\t") for line in (folder / "test.tsv").read_text().splitlines()]
    csv = "premise;said of it;gold\n" + "".join(f"{p};{h};{label[:3]}\n" for label, p, h in rows)
    (tmp_path / "reviews.csv").write_text(csv)
    columns = "--config.data.columns=label=gold,first=premise,second=said of it"
    files = ["--data", tmp_path / "reviews.csv", columns, "--config.data.labels=ent,neu,con"]
    printed = score(capsys, folder / "run", *files)
    expected = result(folder / "run")["metrics"]["test"]
    assert (printed["split"], printed["accuracy"]) == ("reviews", expected["accuracy"])


def test_a_run_on_generated_examples_is_scored_on_files(tmp_path, capsys):
    folder = tmp_path / "run"
    argv = arguments("attconv", tmp_path, **{"data.source": "generated", "data.examples": 60})
    argv = [
        text
        for text in argv
        if not text.startswith(("--config.data.dir", "--config.data.t", "--config.data.dev"))
    ]
    train.main([*argv, "--config.data.holdout_size=12"])
    write("attconv", tmp_path / "other")
    printed = score(capsys, folder, "--data", tmp_path / "other" / "test.tsv")
    assert printed["split"] == "test.tsv" and 0 <= printed["accuracy"] <= 100


@pytest.mark.parametrize(
    "argv,words",
    [
        (["--skip_bad"], "--skip_bad goes with --workdir and --data"),
        (["--name", "x"], "--name goes with --workdir and --data"),
        (["--config.data.columns=1"], "--config.data.columns=1 goes with --workdir and --data"),
        (["--data", "x", "--name", "dev"], "--name dev: letters and digits, and not dev or test"),
        (["--data", "x", "--name", "../a"], "--name ../a: letters and digits"),
        (["--data", "x", "--config.data.train=y"], "--config.data.train: not for a test set"),
        (["--data", "x", "--config.train.steps=1"], "--config.train.steps: not for a test set"),
        (["--data", "x", "--config.data.colums=1"], "did you mean 'columns'?"),
        (["--data", "x,"], "--data: name its files"),
        (["--datta", "x"], "unrecognized arguments: --datta x"),
    ],
)
def test_mistakes_are_one_line(argv, words, trained, monkeypatch, capsys):
    argv = ["--workdir", str(trained[1] / "run"), *argv]
    assert words in fails(monkeypatch, capsys, argv, evaluate.main)


@pytest.mark.parametrize(
    "files,name",
    [
        ("a/newstest.2013", "newstest.2013"),
        ("a/b.TSV.GZ", "b"),
        ("a/b.csv,c/d.parquet", "b+d"),
        ("a/test", "a-test"),
        ("a/test.tsv", "test.tsv"),
    ],
)
def test_scores_are_named_after_their_files(files, name):
    assert evaluation.name_of(files, ("dev", "test")) == name
