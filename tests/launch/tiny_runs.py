"""Tiny runs of the three families: sizes, processes, and readers of their files."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STEPS, EVALUATE_EVERY = 48, 8
RHYTHM = {
    "train.steps": STEPS,
    "train.evaluate_every": EVALUATE_EVERY,
    "train.checkpoint_every": 4,
    "train.log_every": 2,
    "optimizer.warmup_steps": 10,
    "optimizer.cooldown_steps": 0,
    "data.max_shapes": 1,
}
SMALL = {
    "csan": {
        "data.examples": 3000,
        "data.holdout_size": 100,
        "data.vocab_size": 400,
        "data.batch_tokens": 512,
        "model.dim": 32,
        "model.mlp_dim": 64,
        "model.encoder_layers": 1,
        "model.decoder_layers": 1,
        "model.local_layers": 1,
        "decode.extra_length": 10,
    },
    "qanet": {
        "data.examples": 300,
        "data.holdout_size": 200,
        "data.batch_size": 8,
        "data.eval_batch_tokens": 1600,
        "model.dim": 16,
        "model.num_heads": 2,
        "words.dim": 16,
        "model.char_dim": 8,
        "model.embedding_convs": 1,
        "model.model_convs": 1,
    },
    "attconv": {
        "data.examples": 3000,
        "data.holdout_size": 2000,
        "data.batch_size": 16,
        "data.eval_batch_tokens": 1600,
        "words.dim": 16,
        "model.dim": 32,
        "train.steps_per_call": 4,
        "train.log_every": 4,
    },
}
EVERY_STEP = {
    "data.max_shapes": 1,
    "train.steps": 4,
    "train.evaluate_every": 2,
    "train.checkpoint_every": 2,
    "train.log_every": 1,
    "optimizer.cooldown_steps": 0,
    "mesh.data": 1,
}
TINY = {
    "csan": {
        "data.examples": 300,
        "data.holdout_size": 12,
        "data.vocab_size": 400,
        "model.dim": 16,
        "model.mlp_dim": 16,
        "model.num_heads": 2,
        "model.encoder_layers": 1,
        "model.decoder_layers": 1,
        "decode.beam_size": 2,
        "decode.extra_length": 2,
    },
    "qanet": {
        "data.batch_size": 4,
        "model.dim": 8,
        "model.num_heads": 2,
        "model.char_dim": 4,
        "model.embedding_convs": 1,
        "model.model_convs": 1,
        "model.model_blocks": 1,
        "words.dim": 6,
    },
    "attconv": {"data.batch_size": 4, "model.dim": 8, "words.dim": 6},
}
TIMES = {"steps_per_second", "tokens_per_second", "examples_per_second", "wall_seconds"}
TIMES |= {"tflop_per_second", "goodput", "step_seconds", "compiling_seconds", "resumed_from"}
TIMES |= {"data_seconds", "validating_seconds", "saving_seconds"}


def start(config, overrides, run, devices, log, flags=(), folder=None, environment=(), within=()):
    """Starts a process that trains on a number of CPU devices, with its messages in `log`.

    Args:
      folder: of the compilation cache; compiling takes most of a start's time.
      within: a command that starts the process.
    """
    command = [*within, sys.executable, "-m", "launch.train", "--config", str(config)]
    command += [f"--config.{key}={value}" for key, value in overrides.items()]
    command += ["--workdir", str(run), *map(str, flags)]
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", **dict(environment)}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "0"  # the programs that users have
    if folder is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    environment["PYTHONPATH"] = str(ROOT)  # for the tests' own task
    with log.open("wb") as errors:
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=errors, cwd=ROOT
        )


def lines(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def numbers(text):
    """The lines of a log, or of a run's, without times and restarts."""
    logged = map(json.loads, text.splitlines()) if isinstance(text, str) else lines(text)
    comparable = [{k: v for k, v in line.items() if k not in TIMES} for line in logged]
    return [line for line in comparable if len(line) > 1]


def result(run):
    return json.loads((run / "result.json").read_text())


def evaluated(run):
    """The contents of the files in eval/, by name."""
    files = (run / "eval").iterdir() if (run / "eval").exists() else ()
    return {path.name: path.read_bytes() for path in files}
