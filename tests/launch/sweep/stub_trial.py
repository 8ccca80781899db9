"""A stub of `launch.train` for tests of a sweep's executor, without JAX: a lock, a log, a result.

Environment variables: STUB_FAILS, an override with which it fails; STUB_TOGETHER, the number of the
folder's trials that must have started before any of them continues.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from common_jax.errors import UserError
from common_jax.io.atomic import write_json
from common_jax.io.storage import folder_of
from launch import cli

STEP_SECONDS = 0.02


def main(argv: list[str]) -> None:
    run = Path(argv[argv.index("--workdir") + 1])
    values = dict(text.removeprefix("--config.").split("=", 1) for text in argv if "=" in text)
    run.mkdir(parents=True, exist_ok=True)
    if holder := folder_of(run).lock("lock"):
        raise UserError(f"{run} is being trained by {holder}")
    if (run / "result.json").exists():
        return
    with (run / "starts").open("a") as starts:
        starts.write("trained\n")
    if os.environ.get("STUB_FAILS", "none") in (f"{k}={v}" for k, v in values.items()):
        raise UserError("as requested")
    deadline = time.monotonic() + 60
    while len([*run.parent.glob("*/starts")]) < int(os.environ.get("STUB_TOGETHER", 1)):
        time.sleep(STEP_SECONDS)
        if time.monotonic() > deadline:
            raise UserError("the other trials have not started")
    train(run, int(values.get("train.steps", 200)))


def train(run: Path, steps: int) -> None:
    """Continues after the log's last step, until the last step or a request to stop."""
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    path, began = run / "metrics.jsonl", time.time()
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    if lines:
        start = lines[-1]["step"]
        lines.append({"step": start, "resumed_from": start})
    for step in range(lines[-1]["step"] + 1 if lines else 1, steps + 1, 10):
        lines.append({"step": step, "loss": 1.0})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        time.sleep(STEP_SECONDS)
        if signals:
            sys.exit(128 + signals[0])
    result = {
        "steps": steps,
        "parameters": 1,
        "wall_seconds": 1.0,
        "devices": ["cpu"],
        "began": began,
        "metrics": {"dev": {"loss": 1.0}},
        "versions": {},
        "resumed_from": [line["resumed_from"] for line in lines if "resumed_from" in line],
    }
    write_json(run / "result.json", result)


if __name__ == "__main__":
    cli.run(main)
