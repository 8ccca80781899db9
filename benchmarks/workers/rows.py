"""Worker of this suite's rows, timed as they are asked for; runs in the suite's environment."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import first_batches, write_batches
from benchmarks.workers.timing import serve


def main(job: dict[str, Any]) -> None:
    """Serves rounds of `job["rows"]`, each a config and its overrides.

    With "batches", writes those of the first row to this file for another side.
    """
    import jax

    from common_jax.deploy.configs import parse, task_of
    from launch.measure.rows import TimedRows
    from launch.measure.timing import machine

    busy = os.getloadavg()[0]
    start = time.perf_counter()
    configs = {name: parse(file, overrides) for name, (file, overrides) in job["rows"].items()}
    if "batches" in job:
        task = task_of(next(iter(configs.values())))
        task.prepare()
        write_batches(Path(job["batches"]), first_batches(task, job["steps"]))
    rows = TimedRows(configs, job["steps"], job["inference"])
    params = {name: row.state.params for name, row in rows.rows.items()}
    sizes = {name: sum(a.size for a in jax.tree.leaves(tree)) for name, tree in params.items()}
    del params  # which the first step donates
    seconds = time.perf_counter() - start
    about = {"first_pass_seconds": seconds, "parameters": sizes, **machine(busy)}
    serve(about, rows.round, kernels)


def kernels(call: Callable[[], object], folder: str) -> dict[str, float]:
    """The seconds of each of the device's kernels in a call, by name; on a CPU, of each operation,
    with those inside it. Writes the trace to the folder."""
    import jax

    with jax.profiler.trace(folder):
        call()
    newest = max(Path(folder).rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime)
    planes = [*jax.profiler.ProfileData.from_file(str(newest)).planes]
    on_device = [plane for plane in planes if plane.name.startswith("/device:")]
    seconds: dict[str, float] = {}
    for line in (line for plane in on_device or planes for line in plane.lines):
        for event in line.events:
            is_kernel = line.name.startswith("Stream") or any(k == "hlo_op" for k, _ in event.stats)
            if is_kernel:
                seconds[event.name] = seconds.get(event.name, 0.0) + event.duration_ns / 1e9
    return seconds


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text("utf-8")))
