"""Runs killed fifty times with SIGKILL and resumed equal uninterrupted runs, bit for bit.

Tiny runs of the three families are killed at random moments (from a seed): while the corpus is
prepared, while a start restores, between steps, inside saves, inside validations, and inside the
final evaluation until its last files. The phase that a kill has hit is read from the folder
afterwards. It takes 20 to 30 minutes on two cores; the environment variable KILLS=4 reduces the
kills of each run:

  uv run --group dev pytest -m '' tests/nightly/launch/test_kill.py -n 0 -s

tests/common_jax/training/test_loop.py tests every kind of stop in one process.
"""

import collections
import contextlib
import itertools
import json
import os
import random
import signal
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.launch.tiny_runs import (
    EVALUATE_EVERY,
    RHYTHM,
    SMALL,
    STEPS,
    evaluated,
    numbers,
    result,
    start,
)

KILLS = {("csan", 1): 14, ("csan", 8): 4, ("qanet", 1): 14, ("attconv", 1): 18}
AIMS = ("saving", "validating", "scoring", "stepping", "preparing")
AIMS += ("saving", "validating", "scoring", "starting")


def begin(folder, name, family, devices):
    """A process of a run, the run's folder, the file of the process's messages, and its start time:
    older files in the folder are of earlier processes."""
    overrides = {**RHYTHM, **SMALL[family], "mesh.data": devices}
    overrides["data.cache_dir"] = folder / f"{name}.corpus"
    config = f"configs/{family}/quickstart.py"
    errors = folder / f"{name}.stderr"
    run = folder / name
    began = time.time()
    process = start(config, overrides, run, devices, errors, folder=folder / "compiled")
    return SimpleNamespace(process=process, run=run, errors=errors, began=began)


def wrote(start, path):
    """Whether the file exists and was written by this process."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime >= start.began
    return False


def logged(start):
    """The lines of metrics.jsonl, once this process has written to it."""
    path = start.run / "metrics.jsonl"
    text = path.read_text() if wrote(start, path) else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def saved(start):
    """The steps that Orbax has renamed into place."""
    names = [path.name for path in (start.run / "checkpoints").glob("[1-9]*")]
    return [int(name) for name in names if name.isdigit()]


def saving(start):
    """Whether this process is writing a step; files of killed processes are older."""
    return any(
        wrote(start, Path(folder, name))
        for unfinished in (start.run / "checkpoints").glob("*.orbax-checkpoint-tmp*")
        for folder, _, names in os.walk(unfinished)
        for name in names
    )


def validating(lines):
    """Whether a validation runs: its step has a line of train, but none of dev yet."""
    at = {line["step"] for line in lines if "loss" in line and "split" not in line}
    at = {step for step in at if step % EVALUATE_EVERY == 0}
    return not at <= {line["step"] for line in lines if line.get("split") == "dev"}


def scoring(start):
    """Whether the final evaluation has begun."""
    return b"scoring the checkpoint of step" in start.errors.read_bytes()


def moment(start):
    """The phase of the process, or its last one; "ending" is after its last file."""
    if wrote(start, start.run / "result.json"):
        return "ending"
    if scoring(start):
        return "scoring"
    lines = logged(start)
    if not lines:
        begun = wrote(start, start.run / "config.json")
        return "preparing" if begun and not (start.run / "vocabulary").exists() else "starting"
    if validating(lines):  # also while the step is saved
        return "validating"
    return "saving" if saving(start) else "stepping"


def watch(start):
    """Waits for the end of the process; returns the median seconds of each phase."""
    seconds, now, since = collections.defaultdict(list), "starting", time.monotonic()
    while start.process.poll() is None:
        time.sleep(0.01)
        if (then := moment(start)) != now:
            seconds[now].append(time.monotonic() - since)
            now, since = then, time.monotonic()
    assert start.process.returncode == 0, start.errors.read_text()
    return {name: statistics.median(spans) for name, spans in seconds.items()}


def aims(kills, chance):
    """The phases to kill, in an order that is possible in a run."""
    chosen = list(itertools.islice(itertools.cycle(AIMS), kills))
    first, last = ([aim for aim in chosen if aim == name] for name in ("preparing", "scoring"))
    between = [aim for aim in chosen if aim not in ("preparing", "scoring")]
    chance.shuffle(between)
    return first + between + last


def kill(start, reached, pause):
    """Kills the process `pause` seconds after `reached`, if still true, before it finishes."""
    while start.process.poll() is None:
        if reached(start):
            time.sleep(pause)
            if reached(start):
                break
            pause /= 2  # the phase was too short: try the next one
        time.sleep(0.003)
    start.process.send_signal(signal.SIGKILL)
    assert start.process.wait() == -signal.SIGKILL, f"over too early: {start.errors.read_text()}"


def reaching(aim, at, remaining):
    """The condition for a kill: a phase at a step or later, or a file of the final evaluation.

    Args:
      remaining: number of kills that follow.
    """
    if aim == "starting":
        return lambda start: True
    if aim == "scoring" and remaining < 2:  # between dev and test, then at the very end
        pattern = "test*" if remaining == 0 else "dev.json"
        files = lambda start: (start.run / "eval").glob(pattern)
        return lambda start: any(wrote(start, path) for path in files(start))

    def reached(start):
        now = moment(start)
        step = max((line["step"] for line in logged(start)), default=0)
        return now == "scoring" or (now == aim and (step >= at or aim == "preparing"))

    return reached


@pytest.mark.parametrize("family,devices", KILLS)
def test_killed_and_started_again_is_bit_identical(tmp_path, family, devices):
    kills = min(KILLS[family, devices], int(os.environ.get("KILLS") or 50))
    chance = random.Random(f"{family} {devices}")
    undisturbed, run = tmp_path / "uninterrupted", tmp_path / "killed"
    lasts = watch(begin(tmp_path, "uninterrupted", family, devices))
    files, aimed, hit = evaluated(undisturbed), aims(kills, chance), collections.Counter()
    newest = restarts = 0
    before_scoring = kills - aimed.count("scoring")
    for number, aim in enumerate(aimed):
        remaining = kills - number - 1
        at = max(newest, (STEPS - 8) * number // before_scoring + chance.randrange(4)) + 1
        # those compiled in the uninterrupted run
        share = 0.3 if aim in ("starting", "scoring") else 0.7
        pause = chance.uniform(0, share * lasts.get(aim, 0))
        if aim == "scoring" and remaining < 2:
            pause = chance.uniform(0, 0.02 * remaining)
        killed = begin(tmp_path, "killed", family, devices)
        kill(killed, reaching(aim, at, remaining), pause)
        now, had = moment(killed), newest
        newest = max(saved(killed), default=0)
        assert newest >= had, "a kill has cost a checkpoint"
        complete = {k: v for k, v in evaluated(run).items() if not k.endswith(".partial")}
        assert complete.items() <= files.items(), "half a file"
        hit[now] += 1
        restarts += had > 0 and now not in ("preparing", "starting")
    last = begin(tmp_path, "killed", family, devices)
    assert last.process.wait() == 0, last.errors.read_text()
    results = [result(folder) for folder in (undisturbed, run)]
    for name in ("parameters_sha256", "metrics", "best_step", "steps", "stopped_early"):
        assert results[0][name] == results[1][name], name
    assert numbers(undisturbed) == numbers(run)
    assert evaluated(run) == files
    assert not (run / "damaged").exists(), "a kill is no damage"
    assert len(results[1]["resumed_from"]) >= restarts
    print(f"\n{family}, {devices} devices: killed {hit.total()} times: {dict(hit)}")
    for name in ("saving", "validating", "scoring"):
        aimed_at = aimed.count(name)
        assert hit[name] + hit["ending"] * (name == "scoring") >= aimed_at - aimed_at // 3, name
