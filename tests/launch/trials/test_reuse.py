"""A finished run is not taken for one of other data or settings."""

import shutil

import pytest

from common_jax.errors import UserError
from launch.train import __main__ as train
from launch.trials.executor import Executor
from launch.trials.local_executor import arguments
from launch.trials.train import train as train_trials
from launch.trials.trials import grid_trials
from tests.families.runs import FAMILIES


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


@pytest.mark.slow_for("csan", "qanet")
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_finished_run_of_changed_files_or_settings_is_refused(family, tiny, tmp_path):
    folder = tiny(family.name, tmp_path / "own")
    run = folder / "run"
    kept = contents(run)
    old = family.written(tmp_path / "old")
    new = family.written(tmp_path / "new", first=3)
    train.main(family.arguments(folder, **{"train.log_every": 2, "train.checkpoint_every": 4}))
    train.main(family.arguments(folder, **{"train.log_every": 1, "train.checkpoint_every": 2}))
    assert contents(run) == kept

    # Other settings, then other examples, for which dev and train stay.
    with pytest.raises(UserError, match=rf"{run} has finished with another train\.evaluate_every"):
        train.main(family.arguments(folder, **{"train.evaluate_every": 4}))
    for path in new.glob("test*"):
        shutil.copy(path, folder)
    owner = rf"other data than {run} has finished with: they differ in test;"
    with pytest.raises(UserError, match=owner):
        train.main(family.arguments(folder))
    assert contents(run) == kept

    # A corpus that is nowhere changes nothing.
    for path in old.glob("*.*"):
        (folder / path.name).unlink()
    shutil.rmtree(folder / "cache")
    train.main(family.arguments(folder))
    assert contents(run) == kept


@pytest.fixture
def quoted(tmp_path):
    """A finished sweep of one seed, on a table with quotation marks; and its trials of two seeds
    with further fields."""
    family = FAMILIES["attconv"]
    for path in family.written(tmp_path).glob("*.tsv"):
        rows = (line.split("\t") for line in path.read_text().splitlines())
        path.write_text("".join(f'{label}\t"{a}"\t{b}\tmore\n' for label, a, b, _ in rows))
    file, *overrides = family.arguments(tmp_path, **{"data.quotes": "text"})[1:-2]

    def trials(seeds=2, **fields):
        further = [f"--config.{key}={value}" for key, value in fields.items()]
        return grid_trials(file, [*overrides, *further], [], seeds, tmp_path / "sweep")

    train.main(arguments(*trials(1)))
    return trials


def test_finished_trials_of_other_data_are_refused_before_others_start(quoted, tmp_path):
    trials = quoted()
    out = tmp_path / "sweep"
    kept = contents(out)

    def refused(trials):
        with pytest.raises(UserError) as error:
            train_trials(trials, out / "results.csv", Executor(), out)
        assert contents(out) == kept and not trials[1].workdir.path.exists()
        return str(error.value)

    run = trials[0].workdir.path
    line = refused(quoted(**{"data.quotes": "csv"}))
    assert f"--out: data.dir={tmp_path}: other data than {run} has finished with, " in line
    assert "read with another data.quotes: they differ in " in line and "train" in line

    # The same data by another name of the reading, and without their digests.
    train_trials(quoted(1, **{"data.quotes": "auto"}), out / "results.csv", Executor(), out)
    kept = contents(out)
    (tmp_path / "test.tsv").write_text("entailment\ta dog\ta cat\tmore\n")
    assert f"other data than {run} has finished with: they differ in test;" in refused(trials)
    (run / "data.json").unlink()  # as of an unpacked trial
    train_trials(trials[:1], out / "results.csv", Executor(), out)
