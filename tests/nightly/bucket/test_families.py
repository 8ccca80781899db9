"""The quickstart of each family in a bucket, killed three times, scored, exported and asked."""

import json

import pytest

from tests.bucket.emulator import BUCKET
from tests.launch.tiny_runs import RHYTHM, ROOT, SMALL
from tests.nightly.bucket.machines import Machine, kill, reach, require_equal

READING = {"context": "Ada lives in Rome. Ben is a painter in Turin.", "question": "Who lives?"}
REQUESTS = {
    "csan": "A man rides a horse.\n",
    "qanet": json.dumps(READING) + "\n",
    "attconv": "The seven plates are blue.\tThe plates are blue.\n",
}


@pytest.mark.parametrize("family", SMALL)
def test_a_run_in_a_bucket(tmp_path, service, family):
    machine, run = Machine(tmp_path / "machine", service), f"runs/{family}"
    url, disk = f"gs://{BUCKET}/{run}", tmp_path / "run"
    values = {"config": f"configs/{family}/quickstart.py", **RHYTHM, **SMALL[family]}
    assert machine.train(disk, **values).wait(600) == 0
    for step in (4, 16, 40):
        process = machine.train(url, **values)
        reach(service, run, step, process)
        kill(process)
    assert machine.train(url, **values).wait(600) == 0, machine.log()
    require_equal(service, run, disk, resumed=3)
    files = [name for name in machine.files() if not name.startswith(".cache/conv-attention-jax/")]
    assert files == [] and not (ROOT / "gs:").exists()

    scores = machine.run("evaluate", "--workdir", url, "--split", "dev")
    assert scores.stdout == machine.run("evaluate", "--workdir", disk, "--split", "dev").stdout
    assert scores.returncode == 0, scores.stderr
    answer = machine.run("predict", "--workdir", disk, stdin=REQUESTS[family]).stdout
    assert machine.run("predict", "--workdir", url, stdin=REQUESTS[family]).stdout == answer != ""
    out = f"gs://{BUCKET}/exports/{family}"
    export = ("export", "--workdir", url, "--out", out, "--format", "safetensors")
    assert machine.run(*export).returncode == 0
    again = machine.run(*export)
    assert again.stderr == f"error: {out}: already exists; choose another --out\n"
    answered = machine.run("predict", "--model", out, stdin=REQUESTS[family])
    assert answered.stdout == answer, answered.stderr
    report = f"gs://{BUCKET}/report.html"
    assert machine.run("report", url, "--out", report).returncode == 0
    assert service.objects("report.html")["report.html"].startswith(b"<!doctype html>")

    prefix = f"exports/{family}/parameters.safetensors"
    content = service.objects(prefix)[prefix]
    service.put(prefix, bytes([content[0] ^ 1]) + content[1:])
    damaged = machine.run("predict", "--model", out)
    assert damaged.returncode == 2 and "a damaged export" in damaged.stderr
