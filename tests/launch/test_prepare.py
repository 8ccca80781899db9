"""`launch.train --prepare` and `--workers`."""

from launch import train

SIZES = {"examples": 200, "holdout_size": 10, "vocab_size": 400}


def arguments(folder, *extra):
    overrides = [f"--config.data.{key}={value}" for key, value in SIZES.items()]
    overrides += [f"--config.data.cache_dir={folder / 'cache'}", "--workdir", str(folder / "run")]
    return ["--config", "configs/csan/quickstart.py", *overrides, *extra]


def test_prepare_makes_the_corpus_and_no_run(tmp_path, capsys):
    train.main(arguments(tmp_path, "--prepare", "--workers", "2"))
    assert "prepared 220 pairs in " in capsys.readouterr().err
    assert len(list((tmp_path / "cache").glob("*/train/meta.json"))) == 1
    assert not (tmp_path / "run").exists()
    train.main(arguments(tmp_path, "--prepare"))
    assert "found 220 prepared pairs" in capsys.readouterr().err
