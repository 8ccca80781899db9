"""`launch.reproduce`: a table's trials are trained once, stored and judged; errors are one line."""

import itertools
import json
import pickle
import re
import shutil
import statistics
import sys
import zipfile
from unittest.mock import Mock

import jax
import pytest

from common_jax.deploy import load
from common_jax.deploy.format import Export
from common_jax.errors import UserError
from common_jax.training import run_writer
from launch.pages import charts
from launch.reproduce import __main__ as reproduce
from launch.reproduce.archive import read_archive, write_archive
from launch.train import __main__ as train
from launch.trials import local_executor
from tests.docs.digests import unfounded
from tests.launch.commands import fails
from tests.launch.tiny_runs import ROOT, SMALL

TINY = SMALL["attconv"] | {
    **{"data.examples": 200, "data.holdout_size": 100, "data.max_shapes": 1},
    **{"train.steps": 8, "train.evaluate_every": 4, "train.checkpoint_every": 4},
    **{"optimizer.cooldown": 0.0},
}
TABLE = """
title = "attention and none"
source = "Yin & Schütze 2017, Table 3"
kind = "{kind}"
split = "test"
metrics = ["accuracy"]

[scales.small]
curves = true
config = "configs/attconv/quickstart.py"
seeds = 2
overrides = {{ {overrides} }}

[[rows]]
name = "bi-CNN"
system = "cnn"
published = {{ accuracy = 80.3 }}

[[rows]]
name = "light"
system = "light"
published = {{ accuracy = 86.3, parameters_millions = 1.5 }}

[[rows]]
name = "of others"
missing = "their code is not public"
published = {{ accuracy = 77.6 }}

[[claims]]
text = "attention is better than none"
row = "light"
than = "bi-CNN"
metric = "accuracy"
"""
EXAMPLES = """
[[examples]]
name = "each"
texts = ["a dog runs", "a cat sleeps"]
paper = "neutral"

[[examples]]
name = "one"
texts = ["a dog runs", "a dog moves"]
through = ["light"]

"""


@pytest.fixture(scope="module")
def pictures():
    """The charts that were drawn, by what they show: the same ones stand in many of the pages."""
    return {}


@pytest.fixture(autouse=True)
def drawn_once(pictures, monkeypatch):
    draw = charts.svg

    def svg(*shown, **how):
        key = pickle.dumps((shown, how))
        if key not in pictures:
            pictures[key] = draw(*shown, **how)
        return pictures[key]

    monkeypatch.setattr(charts, "svg", svg)


@pytest.fixture(scope="module")
def runs():
    """The workdirs and copies of the runs that were trained, by config file and overrides."""
    return {}


@pytest.fixture
def trained(runs, tmp_path, tmp_path_factory, monkeypatch):
    """The names of the trials that were trained, in this process, with tables in `tmp_path`.

    A trial that another test has trained is a copy of that run.
    """
    monkeypatch.chdir(ROOT)
    trained = []

    def run_here(trials, jobs):
        for trial in trials:
            arguments, path = (trial.file, trial.overrides), trial.workdir.path
            if arguments in runs:
                first, run = runs[arguments]
                shutil.copytree(run, path)
                text = (run / "result.json").read_text()
                (path / "result.json").write_text(text.replace(first, str(path)))
            else:
                train.main(local_executor.command(trial)[3:])
                run = shutil.copytree(path, tmp_path_factory.mktemp("runs") / "run")
                runs[arguments] = str(path), run
            trained.append(trial.name)
            yield trial

    monkeypatch.setattr(local_executor, "run_here", run_here)
    monkeypatch.setattr(reproduce, "TABLES", tmp_path / "tables")
    monkeypatch.setattr(reproduce, "STORED", tmp_path / "stored")
    write(tmp_path)
    return trained


@pytest.fixture
def folder(trained, tmp_path):
    """The folder of tables and stored trials."""
    return tmp_path


def write(folder, kind="table", **changes):
    """Writes a table's file, with some of its text replaced."""
    values = TINY | {"data.cache_dir": folder.parent / "corpora"}  # of all tests
    listed = ", ".join(f'"{key}" = "{value}"' for key, value in values.items())
    text = TABLE.format(kind=kind, overrides=listed)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "tables" / "attconv").mkdir(parents=True, exist_ok=True)
    (folder / "tables" / "attconv" / "toy.toml").write_text(text)


CORPUS = {
    "overrides = { ": 'overrides = { "paper.source" = "{snli}", ',
    '[[rows]]\nname = "bi-CNN"': '[data.snli]\nfiles = ["a.jsonl"]\norigin = "example.org"\n'
    '[[rows]]\nname = "bi-CNN"',
}


def made(folder, out, *flags):
    reproduce.main(["attconv/toy", "--out", str(folder / out), "--no_speed", *flags])
    return (folder / out / "page.md").read_text(), (folder / out / "table.csv").read_text()


def test_trials_are_trained_once_stored_and_used_again(folder, trained, capsys):
    page, table = made(folder, "first", "--keep")
    assert len(trained) == 4
    assert "![Validation by time](page_charts/" in page
    assert "attention is better than none" in page and "their code is not public" in page
    assert re.search(r"\| (holds here|does not hold here|open: [a-z' ]+) \| [+-]\d[^|]* \|", page)
    rows = [line.split(",") for line in table.splitlines()]
    assert [row[:3] for row in rows[1:]] == [
        ["bi-CNN", "accuracy", "80.3"],
        ["light", "accuracy", "86.3"],
        ["of others", "accuracy", "77.6"],
    ]
    assert [row[6] for row in rows[1:]] == ["2", "2", "0"]

    assert made(folder, "first") == (page, table)  # nothing is trained, the same bytes
    files = {path: path.read_bytes() for path in (folder / "stored").rglob("*.zip")}
    assert len(files) == 4
    for path in files:
        with zipfile.ZipFile(path) as archive:
            assert "--workdir {run}" in archive.read("result.json").decode()
    again, same = made(folder, "second", "--keep")  # from the stored trials
    assert len(trained) == 4 and (again, same) == (page, table)
    assert {path: path.read_bytes() for path in files} == files

    earlier = next(iter(files))  # an archive of a version without a field
    texts = read_archive(earlier)
    older = texts["config.json"].replace('  "quotes": "auto",\n', "")
    assert older != texts["config.json"]
    write_archive(earlier, texts | {"config.json": older})
    files[earlier] = earlier.read_bytes()
    made(folder, "second", "--keep")
    assert {path: path.read_bytes() for path in files} == files

    path = folder / "stored" / "attconv" / "toy" / "small" / "page.md"
    assert path.read_text() == page
    assert not unfounded(path, folder / "tables", folder / "again")
    number = re.search(r"\d\.\d\d \(", page)[0]
    path.write_text(page.replace(number, f"{number[0]}.{99 - int(number[2:4]):02} (", 1))
    assert len(unfounded(path, folder / "tables", folder / "more")) == 1  # a digit has changed

    toy = (folder / "tables" / "attconv" / "toy.toml").read_text()
    (folder / "tables" / "attconv" / "twin.toml").write_text(toy.replace("bi-CNN", "CNN"))
    reproduce.main(["attconv/twin", "--out", str(folder / "twin"), "--no_speed"])
    numbers = lambda text: [line.split(",")[1:] for line in text.splitlines()]
    assert numbers((folder / "twin" / "table.csv").read_text()) == numbers(table)
    assert len(trained) == 4  # equal trials of another table are used

    write(folder, **{'"train.steps" = "8"': '"train.steps" = "4"'})
    capsys.readouterr()
    other, _ = made(folder, "third", "--rows", "light", "--seeds", "1")
    assert len(trained) == 5 and "has another train.steps" in other
    reproduce.main(["--list"])
    assert "2 rows, 4 trials of configs/attconv/quickstart.py; 4 stored" in capsys.readouterr().out


def test_an_archive_has_predictions_only_if_the_page_needs_them(folder, trained, capsys):
    """An ensemble is made from the predictions of its runs, also from stored ones."""
    stored = folder / "stored" / "attconv"
    names = lambda path: {name for name in zipfile.ZipFile(path).namelist() if "eval/" in name}
    scores = {f"eval/{split}.json" for split in ("dev", "test")} | {"eval/test.examples.tsv"}
    made(folder, "first", "--keep")
    assert all(names(path) == scores for path in stored.rglob("*.zip"))
    assert [*folder.rglob("test.errors.jsonl")]  # which no archive has

    text = (folder / "tables" / "attconv" / "toy.toml").read_text()
    row = '[[rows]]\nname = "both"\nensemble = { of = "light", runs = 2 }\n'
    (folder / "tables" / "attconv" / "joined.toml").write_text(f"{text}\n{row}")
    arguments = ["attconv/joined", "--no_speed", "--keep", "--out"]
    reproduce.main([*arguments, str(folder / "joined")])
    assert len(trained) == 6  # both seeds of "light" again, whose archives lack predictions
    by_row = {path.name[4:9]: names(path) - scores for path in (stored / "joined").rglob("*.zip")}
    assert by_row == {"bi-CN": set(), "light": {"eval/test.predictions.tsv"}}
    page = (stored / "joined" / "small" / "page.md").read_text()
    assert re.search(r"\| both \| (- \| )?\d+\.\d\d \(", page)
    reproduce.main([*arguments, str(folder / "again")])
    assert len(trained) == 6 and (folder / "again" / "page.md").read_text() == page


def test_a_rows_model_is_kept_as_an_export_with_its_scores(folder, trained, monkeypatch, capsys):
    argv = ["attconv/toy", "--out", str(folder / "out"), "--keep_model"]
    reproduce.main([*argv, "light"])
    assert trained == ["row=light,train.seed=0"]
    models = folder / "stored" / "attconv" / "toy" / "small" / "models"
    kept = json.loads((models / "light.json").read_text())
    result = json.loads((folder / "out" / "trials" / trained[0] / "result.json").read_text())
    assert kept == {"row": "light", "seed": 0, "metrics": result["metrics"]}
    answers = load(models / "light").predict(["a dog runs\ta cat sleeps"])
    assert next(iter(answers)).label in ("entailment", "neutral", "contradiction")
    assert Export(models / "light").manifest.format == "safetensors"
    capsys.readouterr()
    line = fails(monkeypatch, capsys, [*argv, "nothing"], reproduce.main)
    assert "--keep_model nothing: the rows with trials are bi-CNN | light" in line


def test_some_rows_with_fewer_seeds(folder, trained):
    page, table = made(folder, "out", "--rows", "light", "--seeds", "1")
    assert trained == ["row=light,train.seed=0"]
    assert "Verdicts" not in page and "--rows light --seeds 1" in page
    assert [line.split(",")[0] for line in table.splitlines()] == ["row", "light"]


def test_rows_without_a_trial_are_not_run(folder, trained, capsys):
    made(folder, "out", "--rows", "light", "--seeds", "1")
    page, _ = made(folder, "out", "--no_train", "--keep")
    assert len(trained) == 1 and "stored 1 trials" in capsys.readouterr().out
    assert re.search(r"\| bi-CNN \| \d of \d seeds \| 80.30 \|", page)
    assert "| open: not run: bi-CNN |" in page
    assert "attconv/toy --scale small --data DIR --out OUT trains what is missing" in page
    stored = folder / "stored" / "attconv" / "toy" / "small" / "page.md"
    assert not unfounded(stored, folder / "tables", folder / "again")
    write(folder, **CORPUS)  # which a page of trials that are there does not need
    page, _ = made(folder, "other", "--no_train", "--data", "nowhere")
    assert re.search(r"\| light \| \d of \d seeds \| 86.30 \|", page)


def test_rows_with_an_unknown_system_do_not_hinder_others(folder, monkeypatch, capsys):
    write(folder, **{'"cnn"': '"cnns"', '"of others"': '"of, others"'})
    out = ["--out", str(folder / "out"), "--dry_run"]
    line = fails(monkeypatch, capsys, ["attconv/toy", *out], reproduce.main)
    assert "row 'bi-CNN'" in line and "'cnns': must be cnn" in line and "--rows light" in line
    reproduce.main(["attconv/toy", "--rows", "light, of, others", *out])
    assert len(capsys.readouterr().out.splitlines()) == 5
    reproduce.main(["--list"])
    assert "    not run: of, others: their code is not public" in capsys.readouterr().out


def test_speeds_are_measured_without_training_to_the_end(folder, trained, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.5, 0.5))
    speeds = {'["accuracy"]': '["train_speed", "decode_speed"]', '"accuracy"': '"train_speed"'}
    write(folder, "speed", **speeds)
    argv = ["attconv/toy", "--out", str(folder / "out")]
    reproduce.main(argv)
    rows = [line.split(",") for line in (folder / "out" / "table.csv").read_text().splitlines()]
    values = {(row[0], row[1]): row for row in rows[1:]}
    file = json.loads((folder / "out" / "speed.json").read_text())
    rounds = file["rows"]
    assert file["device"] == jax.devices()[0].device_kind
    for row, metric in itertools.product(("bi-CNN", "light"), ("train_speed", "decode_speed")):
        mean = sum(rounds[row][metric]) / len(rounds[row][metric])
        assert float(values[row, metric][3]) == pytest.approx(mean, rel=1e-4)
        assert values[row, metric][6] == "5"
    for metric in ("train_speed", "decode_speed"):
        ratios = zip(rounds["light"][metric], rounds["bi-CNN"][metric], strict=True)
        expected = statistics.geometric_mean(own / other for own, other in ratios)
        assert float(values["light", metric][8]) == pytest.approx(expected, rel=1e-4)
    page = (folder / "out" / "page.md").read_text()
    decision = "((holds here|does not hold here)(, provisional)?|open: [a-z' ]+)"
    assert re.search(rf"\| {decision} \| \d\.\d\d times \([^|]* \|", page)
    reproduce.main(argv)
    assert not trained and (folder / "out" / "page.md").read_text() == page

    for row, expected in (("bi-CNN", "1"), ("light", "")):  # relative to the first row alone
        some = {**file, "rows": {row: rounds[row]}}
        (folder / "out" / "speed.json").write_text(json.dumps(some))
        reproduce.main(argv)  # speeds of some rows are enough
        rows = [line.split(",") for line in (folder / "out" / "table.csv").read_text().splitlines()]
        measured = {row[0]: row[8] for row in rows if row[1] == "train_speed"}
        assert measured["bi-CNN"] == expected and measured["light"] == ""
    other = {**file, "of": "attconv/toy large"}
    (folder / "out" / "speed.json").write_text(json.dumps(other))
    timed = Mock(side_effect=UserError("timed again"))
    monkeypatch.setattr("launch.measure.rows.measure_rounds", timed)
    with pytest.raises(UserError, match="timed again"):
        reproduce.main(argv)  # speeds of another scale are not used
    (folder / "out" / "speed.json").write_text(json.dumps(file))
    reproduce.main(argv)
    faster = {'"model.dim" = "32"': '"model.dim" = "16"'}
    longer = {"curves = true": "timed_steps = 11"}
    for change in (faster, longer):
        write(folder, "speed", **speeds, **change)
        with pytest.raises(UserError, match="timed again"):
            reproduce.main(argv)  # nor those of other configs or of another number of steps
    write(folder, "speed", **speeds)
    del file["digests"]
    (folder / "out" / "speed.json").write_text(json.dumps(file))
    with pytest.raises(UserError, match="timed again"):
        reproduce.main(argv)  # nor those of which it is unknown, but for a stored page's
    stored = folder / "stored" / "attconv" / "toy" / "small"
    stored.mkdir(parents=True)
    shutil.copy(folder / "out" / "speed.json", stored)
    reproduce.main([*argv, "--no_train"])


def test_a_trial_is_finished_only_with_all_its_files(folder, trained, monkeypatch):
    """Killed while its archive is unpacked."""
    page, _ = made(folder, "first", "--keep")
    replace, count = run_writer.replace_text, itertools.count()

    def killed(path, text):
        if next(count) == 2:
            raise KeyboardInterrupt
        replace(path, text)

    monkeypatch.setattr(run_writer, "replace_text", killed)
    with pytest.raises(KeyboardInterrupt):
        made(folder, "second")
    assert not [*(folder / "second").rglob("result.json")]
    monkeypatch.setattr(run_writer, "replace_text", replace)
    assert made(folder, "second")[0] == page and len(trained) == 4


def test_a_figure_without_fields_compares_the_runs_and_examples_are_answered(folder):
    write(folder, "figure", **{"[[claims]]": EXAMPLES + "[[claims]]"})
    page, _ = made(folder, "out", "--seeds", "1", "--keep")
    assert made(folder, "from stored trials", "--seeds", "1")[0] == page
    stored = folder / "stored" / "attconv" / "toy" / "small" / "page.md"
    assert not unfounded(stored, folder / "tables", folder / "again")
    assert "differences on test" in page and "Accuracy by length" in page
    answers = [line for line in page.splitlines() if line.startswith(("| each", "| one"))]
    assert [line.split("|")[4].strip() for line in answers] == ["bi-CNN", "light", "light"]
    label = r"\| (entailment|neutral|contradiction) \([01]\.\d\d\) \|"
    assert all(re.search(label, line) for line in answers) and "| neutral |" in answers[0]
    some = made(folder, "some", "--seeds", "1", "--rows", "light")[0]
    assert "| bi-CNN |" not in some
    assert made(folder, "some", "--seeds", "1")[0].count("| bi-CNN |") == page.count("| bi-CNN |")


def test_examples_with_other_texts_or_of_other_runs_are_answered_again(folder, monkeypatch):
    opened = []

    def load_and_count(run, **options):
        opened.append(run)
        return load(run, **options)

    def answered(**changes):
        """The number of answers that were made."""
        opened.clear()
        write(folder, "figure", **{"[[claims]]": f"{EXAMPLES}[[claims]]"}, **changes)
        made(folder, "out", "--seeds", "1")
        return len(opened)

    monkeypatch.setattr("common_jax.deploy.load", load_and_count)
    assert [answered(), answered()] == [3, 0]
    other = {"a cat sleeps": "a cat wakes"}
    assert [answered(**other), answered(**other)] == [3, 0]
    (run,) = (folder / "out" / "trials").glob("row=light*0")
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, "parameters_sha256": "another"}))
    assert [answered(**other), answered(**other)] == [3, 0]


@pytest.mark.parametrize(
    ("program", "start"),
    [("reproduce.py", "python -m launch.train"), ("/bin/conv-attention", "conv-attention train")],
)
@pytest.mark.parametrize("current", [".", "launch"])
def test_a_dry_run_lists_commands(trained, current, program, start, monkeypatch, capsys):
    monkeypatch.chdir(ROOT / current)
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setattr(sys, "argv", [program])
    reproduce.main(["attconv/toy", "--out", "x", "--dry_run"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9 and lines[-1] == "4 trials: 4 to train"
    config = "configs/attconv/quickstart.py" if current == "." else "attconv/quickstart"
    assert lines[1].startswith(f"  {start} --config {config}:cnn ")


def states(folder, capsys, *argv):
    """The states of the trials by their rows and seeds, as a dry run prints them."""
    capsys.readouterr()
    reproduce.main(["attconv/toy", "--out", str(folder / "out"), "--dry_run", *argv])
    lines = re.findall(r"^row=(.*),train.seed=(\d): ([^;\n]*)", capsys.readouterr().out, re.M)
    return {(row, int(seed)): state for row, seed, state in lines}


def test_a_dry_run_tells_stored_trials_from_those_to_train(folder, trained, capsys):
    write(folder, **CORPUS)
    file = folder / "snli" / "a.jsonl"
    file.parent.mkdir()
    file.touch()
    data = ["--data", str(folder)]
    made(folder, "first", "--rows", "light", *data)
    made(folder, "first", "--no_train", "--keep", *data)
    stored = {("light", seed): "stored" for seed in (0, 1)}
    assert states(folder, capsys, *data) == stored | {("bi-CNN", n): "to train" for n in (0, 1)}

    # without the corpus
    file.unlink()
    assert states(folder, capsys) == stored | {("bi-CNN", n): "data missing" for n in (0, 1)}
    with pytest.raises(UserError, match=r"^--data: .*/snli has no a\.jsonl; they come from exam"):
        states(folder, capsys, *data)
    assert len(trained) == 2


def test_a_try_is_apart_from_the_tables_trials(folder, trained, capsys):
    made(folder, "out", "--rows", "light", "--seeds", "1")
    flags = ["--rows", "light", "--seeds", "1", "--config.train.steps=4"]
    for _ in range(2):  # the second trains nothing
        reproduce.main(["attconv/toy", "--out", str(folder / "out"), "--no_speed", *flags])
    tried = folder / "out" / "try"
    page = (tried / "page.md").read_text()
    assert page.startswith("# A try, not a result: attconv/toy")
    assert "--config.train.steps=4" in page
    assert trained[1:] == ["row=light,train.steps=4,train.seed=0"]
    result = json.loads((tried / "trials" / trained[1] / "result.json").read_text())
    assert result["steps"] == 4

    # neither resumed nor satisfied
    assert states(folder, capsys)["light", 0] == "finished"
    assert states(folder, capsys, "--out", str(tried))["light", 0] == "to train"


def test_the_corpora_of_a_table_are_prepared_without_training(folder, trained, capsys):
    write(folder, **{str(folder.parent / "corpora"): str(folder / "corpora")})
    reproduce.main(["attconv/toy", "--out", str(folder / "out"), "--prepare"])
    assert "prepared the corpus of light" in capsys.readouterr().out
    assert [*(folder / "corpora").iterdir()] and not trained and not (folder / "out").exists()


def test_a_list_has_all_tables_or_those_of_a_paper(folder, capsys):
    (folder / "tables" / "csan").mkdir()
    toy = (folder / "tables" / "attconv" / "toy.toml").read_text()
    (folder / "tables" / "csan" / "toy.toml").write_text(toy)
    for argv, names in (([], ["attconv/toy", "csan/toy"]), (["csan"], ["csan/toy"])):
        reproduce.main(["--list", *argv])
        assert re.findall(r"^(\w+/toy):", capsys.readouterr().out, re.M) == names


@pytest.mark.parametrize(
    ("changes", "argv", "message"),
    [
        ({}, ["attconv/toys"], "attconv/toys: no such table; did you mean 'attconv/toy'"),
        ({}, ["attconv/toy", "--scale", "huge"], "--scale huge: attconv/toy has small"),
        ({}, ["attconv/toy", "--keep", "--rows", "light"], "--keep: the stored page has all rows"),
        ({'"light"\npub': '"lite"\npub'}, ["attconv/toy"], "row 'light': .*'lite': must be cnn"),
        ({'["accuracy"]': '["bleu"]'}, ["attconv/toy"], "no metric 'bleu'; there are accuracy"),
        (CORPUS, ["attconv/toy", "--data", "nowhere"], "--data: .*nowhere/snli has no a.jsonl"),
        ({}, ["--list", "atconv"], "--list atconv: no such paper or table; did you mean 'attconv'"),
        ({}, ["attconv/toy", "--conf.a=1"], "unrecognized arguments: --conf.a=1"),
        ({}, ["attconv/toy", "--config.train.stps=1"], "unknown config key 'train.stps'"),
        ({}, ["attconv/toy", "--keep", "--config.train.steps=1"], "store no try; leave out"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(folder, trained, changes, argv, message, monkeypatch, capsys):
    write(folder, **changes)
    line = fails(monkeypatch, capsys, [*argv, "--out", str(folder / "out")], reproduce.main)
    assert re.search(message, line), line
    assert not trained
