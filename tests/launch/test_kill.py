"""SIGKILL at an arbitrary moment, then the same command again: bit for bit what it would have been.

The in-process twin, for every kind of stop, is tests/common_jax/training/test_loop.py.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

STEPS = 60
SMALL = {
    "data.examples": 3000,
    "data.heldout": 30,
    "data.vocab_size": 400,
    "data.batch_tokens": 512,
    "model.dim": 32,
    "model.mlp_dim": 64,
    "train.steps": STEPS,
    "train.evaluate_every": 20,
    "train.checkpoint_every": 7,
    "train.log_every": 3,
    "optimizer.cooldown_steps": 0,
    "decode.extra_length": 10,
}
TIMES = {"steps_per_second", "tokens_per_second", "wall_seconds", "resumed_from"}


def start(folder, name, devices):
    overrides = {**SMALL, "data.cache_dir": folder / "cache", "mesh.data": devices}
    command = [sys.executable, "-m", "launch.train", "--config", "configs/csan/quickstart.py"]
    command += [f"--config.{key}={value}" for key, value in overrides.items()]
    command += ["--workdir", str(folder / name)]
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def steps_logged(run):
    path = run / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line)["step"] for line in text.splitlines() if line.endswith("}")]


def numbers(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = [{k: v for k, v in line.items() if k not in TIMES} for line in lines]
    return [line for line in kept if len(line) > 1]


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 8])
def test_killed_and_started_again_is_bit_identical(tmp_path, devices):
    assert start(tmp_path, "whole", devices).wait() == 0
    chance, kills = random.Random(devices), []
    for at in (12, chance.randrange(20, 50)):
        process = start(tmp_path, "killed", devices)
        while process.poll() is None and max(steps_logged(tmp_path / "killed"), default=0) < at:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        kills.append(max(steps_logged(tmp_path / "killed")))
    assert start(tmp_path, "killed", devices).wait() == 0
    whole, killed = (
        json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "killed")
    )
    print(f"{devices} devices, killed after steps {kills}, resumed from {killed['resumed_from']}:")
    print(f"  {whole['parameters_sha256']}\n  {killed['parameters_sha256']}")
    # at least one restart above step 0: a kill may come before the first save is on disk
    assert killed["resumed_from"]
    assert killed["parameters_sha256"] == whole["parameters_sha256"]
    assert killed["metrics"] == whole["metrics"]
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "whole")
    for path in (tmp_path / "whole" / "eval").iterdir():
        assert path.read_bytes() == (tmp_path / "killed" / "eval" / path.name).read_bytes()
