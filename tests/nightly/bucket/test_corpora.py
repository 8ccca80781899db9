"""Corpora in a bucket: copied once, uploaded and fetched; and the page of runs in a bucket."""

import re
import time
from types import SimpleNamespace

from common_jax.io import checksums
from common_jax.io.paths import as_path
from common_jax.io.storage import local_copy
from launch.api.live import LivePage
from tests.bucket.emulator import BUCKET
from tests.families.runs import FAMILIES
from tests.launch.test_live import append, result, table, write
from tests.nightly.bucket.machines import Machine


def prepare(machine, data, cache):
    """The finished `launch.train --prepare` of tables."""
    places = {"data.dir": data, "data.cache_dir": cache}
    argv = FAMILIES["attconv"].arguments(machine.folder, **places)
    return machine.run("train", *argv, "--prepare")


def prepared(machine):
    """The only prepared folder in a machine's cache: its name, and the checksums of its files."""
    (file,) = (machine.folder / "home").glob(f".cache/conv-attention-jax/*/{checksums.NAME}")
    return file.parent.name, checksums.digests(file.parent)


def test_a_prepared_corpus_reaches_machines_without_the_raw_files(tmp_path, service):
    cache, data = f"gs://{BUCKET}/corpora", tmp_path / "data"
    FAMILIES["attconv"].written(data)
    first, second, third = (Machine(tmp_path / name, service) for name in ("a", "b", "c"))
    done = prepare(first, data, cache)
    assert done.returncode == 0 and "prepared 84" in done.stderr, done.stderr
    data.rename(tmp_path / "gone")
    done = prepare(second, data, cache)
    assert done.returncode == 0 and "fetching the prepared corpus" in done.stderr, done.stderr
    assert prepared(second) == prepared(first)
    contents = service.objects("corpora/")
    name = max(contents, key=lambda name: len(contents[name]))
    service.put(name, b"x" + contents[name][1:])
    done = prepare(third, data, cache)
    assert done.returncode == 2
    assert re.search(rf"error: {cache}/\w+: a damaged corpus \(.*\); delete it", done.stderr)


def test_raw_files_in_a_bucket(tmp_path, service):
    local = tmp_path / "data"
    FAMILIES["attconv"].written(local)
    for folder in ("data/", "data/empty/"):  # as the console and gcsfuse make folders
        service.put(folder, b" ")  # the emulator has no empty objects
    for file in local.iterdir():
        service.put(f"data/{file.name}", file.read_bytes())
    on_disk, machine = Machine(tmp_path / "a", service), Machine(tmp_path / "b", service)
    cache = "~/.cache/conv-attention-jax"
    assert prepare(on_disk, local, cache).returncode == 0
    done = prepare(machine, f"gs://{BUCKET}/data", cache)
    assert done.returncode == 0, done.stderr
    assert prepared(machine) == prepared(on_disk)
    missing = prepare(machine, f"gs://{BUCKET}/none", cache)
    assert missing.returncode == 2
    assert missing.stderr == f"error: data.dir=gs://{BUCKET}/none: nothing there\n"


def test_a_copy_is_read_again_only_if_it_has_changed(tmp_path, service, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    service.put("data/a", b"1")
    service.put("data/b/c", b"2")
    url = f"gs://{BUCKET}/data"
    contents = lambda: {f.name: f.read_bytes() for f in checksums.files_in(local_copy(url))}
    assert contents() == {"a": b"1", "c": b"2"}
    service.requests.clear()
    assert contents() == {"a": b"1", "c": b"2"}
    assert service.requests["GET 304"] == 2
    service.put("data/a", b"3")
    (local_copy(url) / "b" / "c").write_bytes(b"damaged")
    service.objects()
    assert contents() == {"a": b"3", "c": b"2"}
    service._storage.delete_file(BUCKET, "data/b/c")
    assert contents() == {"a": b"3"}
    assert local_copy(f"{url}/a").read_bytes() == b"3"


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
