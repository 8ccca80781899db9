"""The live page of runs in a bucket: what a look finds, and what it requests."""

import json
import os
import subprocess
import sys

from tests.bucket.emulator import BUCKET
from tests.launch.commands import ROOT
from tests.launch.watch.folders import append, result, write
from tests.nightly.bucket.machines import Machine

LOOK = """
import json, sys, time
from common_jax.io.lock import LEASE_SECONDS
from common_jax.io.paths import as_path
from launch.watch import folder
folder._PAUSE_FACTOR = 0
watched = folder.WatchedFolder(as_path(sys.argv[1]), 0.0)

def show():
    print(json.dumps({n: [r.status.state, r.step, r.version] for n, r in watched.runs.items()}))
    sys.stdout.flush()

show()
watched.look()
show()
input()
watched.look()
show()
time.sleep(1.2 * LEASE_SECONDS)
watched.look()
show()
"""


def test_runs_in_a_bucket_are_watched(tmp_path, service):
    write(tmp_path / "done", lines=10, result=result())
    local = write(tmp_path / "run", lines=2)
    (local / "lock").write_text("process 3 on elsewhere\nkey\n")

    def upload():
        for name in ("done", "run"):
            for file in (tmp_path / name).iterdir():
                service.put(f"watched/{name}/{file.name}", file.read_bytes())

    upload()
    machine = Machine(tmp_path / "machine", service)
    environment = {**os.environ, **machine.environment, "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-c", LOOK, f"gs://{BUCKET}/watched"],
        **{"cwd": ROOT, "env": environment, "text": True},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    first, again = (json.loads(process.stdout.readline()) for _ in range(2))
    assert first == {"done": ["finished", 100, 1], "run": ["running", 20, 1]}
    assert again == first  # nothing was new
    append(local, 2, 3)
    upload()
    out, _ = process.communicate("\n", timeout=120)
    grown, expired = map(json.loads, out.splitlines())
    assert grown["run"][:2] == ["running", 30]
    assert expired["run"][0] == "failed"  # its lease was not renewed
