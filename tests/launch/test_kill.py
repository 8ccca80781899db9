"""SIGKILL at ten moments of one run, then the same command again: bit for bit the undisturbed run.

The in-process twin, for every kind of stop, is tests/common_jax/training/test_loop.py. KILLS=2 in
the environment makes it shorter.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

STEPS = 90
SMALL = {
    "data.examples": 3000,
    "data.heldout": 30,
    "data.vocab_size": 400,
    "data.batch_tokens": 512,
    "data.max_shapes": 1,
    "model.dim": 32,
    "model.mlp_dim": 64,
    "model.num_heads": 4,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "train.steps": STEPS,
    "train.evaluate_every": 30,
    "train.checkpoint_every": 3,
    "train.log_every": 2,
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
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    environment["JAX_COMPILATION_CACHE_DIR"] = str(folder / "compiled")  # most of a start's time
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    with (folder / f"{name}.stderr").open("ab") as errors:
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors)


def steps_logged(run):
    path = run / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line)["step"] for line in text.splitlines() if line.endswith("}")]


def saved(run):
    """The steps that Orbax has renamed into place."""
    names = [path.name for path in (run / "checkpoints").glob("[1-9]*")]
    return [int(name) for name in names if name.isdigit()]


def saving(run):
    """The step that is being written, if one is."""
    names = [path.name for path in (run / "checkpoints").glob("*.orbax-checkpoint-tmp*")]
    return max((int(name.partition(".")[0]) for name in names), default=0)


def numbers(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = [{k: v for k, v in line.items() if k not in TIMES} for line in lines]
    return [line for line in kept if len(line) > 1]


def kill(process, reached):
    """Kills it at once when `reached` says so; False if it was over before."""
    while process.poll() is None and not reached():
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("devices,kills", [(1, 10), (8, 3)])
def test_killed_and_started_again_is_bit_identical(tmp_path, devices, kills):
    kills = min(kills, int(os.environ.get("KILLS", kills)))
    assert start(tmp_path, "whole", devices).wait() == 0
    chance, run = random.Random(devices), tmp_path / "killed"
    said, inside, restarts = [], 0, 0
    for number in range(kills):
        seen = max([*saved(run), *steps_logged(run), saving(run)], default=0)  # by those before
        at = max(seen, (STEPS - 20) * number // kills + chance.randrange(4)) + 1
        pause = chance.uniform(0, 0.03)  # a save of this model takes some 0.1 s
        in_save = lambda at=at, pause=pause: saving(run) >= at and not time.sleep(pause)
        after_step = lambda at=at: max(steps_logged(run), default=0) >= at
        before = max(saved(run), default=0)
        process = start(tmp_path, "killed", devices)
        assert kill(process, in_save if number % 2 else after_step), f"over too early: {said}"
        said.append(f"saving {saving(run)}" if saving(run) else f"at {max(steps_logged(run))}")
        assert max(saved(run), default=0) >= before, "a kill has cost a checkpoint"
        inside += bool(saving(run))
        restarts += bool(saved(run))
    assert start(tmp_path, "killed", devices).wait() == 0
    whole, killed = (
        json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "killed")
    )
    print(f"\n{devices} devices, killed {', '.join(said)}; resumed from {killed['resumed_from']}")
    print(f"  {whole['parameters_sha256']}\n  {killed['parameters_sha256']}")
    assert inside >= kills * 3 // 10
    assert len(killed["resumed_from"]) == restarts >= kills - 1
    assert not (run / "damaged").exists(), "a kill is no damage"
    assert killed["parameters_sha256"] == whole["parameters_sha256"]
    assert killed["metrics"] == whole["metrics"]
    assert numbers(run) == numbers(tmp_path / "whole")
    for path in (tmp_path / "whole" / "eval").iterdir():
        assert path.read_bytes() == (run / "eval" / path.name).read_bytes()
