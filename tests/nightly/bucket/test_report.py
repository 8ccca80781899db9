"""The page of `launch.report --every` of runs in a bucket: found, finished, growing, silent."""

import time
from types import SimpleNamespace

from common_jax.io.paths import as_path
from launch.api.live import LivePage
from tests.bucket.emulator import BUCKET
from tests.launch.test_live import append, result, table, write


def test_runs_in_a_bucket_are_on_the_page(tmp_path, service, monkeypatch):
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    write(tmp_path / "done", 10, files=result())
    local = write(tmp_path / "run", 2)
    live = LivePage([as_path(f"gs://{BUCKET}/live")])

    def looked(later=0.0):
        """The step and state of each run, so many seconds later."""
        for file in (*(tmp_path / "done").iterdir(), *local.iterdir()):
            service.put(f"live/{file.parent.name}/{file.name}", file.read_bytes())
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later)
        monkeypatch.setattr("launch.api.live.time", clock)
        rows = table(live.report()).values()
        return [(row["step"].partition(" ")[0], row["state"]) for row in rows]

    assert looked() == [("100", "finished"), ("20", "running")]
    append(local, 2, 3)
    assert looked(600) == [("100", "finished"), ("30", "running")]
    assert looked(780) == [("100", "finished"), ("30", "no sign of life for 3 minutes")]
