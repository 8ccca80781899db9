"""A run in a bucket equals one on a disk; tests/nightly/bucket has kills, refusals and failures."""

import json

from launch.train import __main__ as train
from tests.bucket.emulator import BUCKET, running
from tests.launch.commands import arguments, toy_config


def test_a_resumed_run_in_a_bucket_equals_one_on_a_disk(tmp_path, monkeypatch):
    url = f"gs://{BUCKET}/runs/toy"
    rhythm = {"train.evaluate_every": 4, "train.checkpoint_every": 4, "train.log_every": 4}
    argv = arguments(toy_config(tmp_path), tmp_path, **rhythm)
    with running() as service:
        for name, value in service.environment.items():
            monkeypatch.setenv(name, value)
        for steps, run in ((4, url), (8, url), (8, tmp_path / "run")):
            train.main([*argv, f"--config.train.steps={steps}", "--workdir", str(run)])
        files = service.objects("runs/toy/")
    result = json.loads(files["runs/toy/result.json"])
    wanted = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["resumed_from"] == [4] and wanted["resumed_from"] == []
    for name in ("parameters_sha256", "metrics"):
        assert result[name] == wanted[name]
    for file in (tmp_path / "run" / "eval").iterdir():
        assert files[f"runs/toy/eval/{file.name}"] == file.read_bytes()
    assert "runs/toy/lock" not in files
