"""The model of a row's first seed as an export beside the table's page, with its scores."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from common_jax.errors import UserError, error_context
from common_jax.io.atomic import write_json, writing
from common_jax.training.identity import SEED
from launch.cli import module_command
from launch.reproduce.trials import ROW
from launch.trials.executor import Executor
from launch.trials.train import train
from launch.trials.trials import Trial, require_own_folders

MODELS = "models"


def keep_model(row: str, trials: Sequence[Trial], stored: Path, executor: Executor) -> Path:
    """Trains a row's first seed, unless it has been, and exports its parameters.

    Beside the export stand the run's scores in float32: those of the stored trial of that seed, or,
    where another machine or later code gives another, of a further run with it.

    Args:
      trials: of a folder of their own, into which no archive is unpacked.
      stored: the folder of the table's page.

    Returns: the folder of the export.

    Raises:
      UserError: if there is no such row, or the run did not finish.
    """
    trial = next((trial for trial in trials if trial.values[ROW] == row), None)
    if trial is None:
        rows = " | ".join(dict.fromkeys(str(trial.values[ROW]) for trial in trials))
        raise UserError(f"--keep_model {row}: the rows with trials are {rows}")
    runs = trial.workdir.path.parent
    with error_context("--out"):
        require_own_folders([trial])
    train([trial], runs / "results.csv", executor, runs)
    result = trial.workdir.result()
    if result is None:
        raise UserError(f"{trial.workdir.path}: the training did not finish")

    out = stored / MODELS / re.sub(r"[^\w.&+-]+", "_", row)
    # by the command: no command imports another
    options = ["--workdir", str(trial.workdir.path), "--out", str(out), "--format", "safetensors"]
    with writing(out):
        shutil.rmtree(out, ignore_errors=True)
        subprocess.run([*module_command("export"), *options], check=True, stdout=subprocess.DEVNULL)
        scores = {"row": row, "seed": trial.values[SEED], "metrics": result["metrics"]}
        write_json(out.with_name(f"{out.name}.json"), scores)
    return out
