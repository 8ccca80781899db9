"""Folders of runs as training leaves them, written by hand."""

import json

STEPS = 100


def write(folder, lines=0, result=None, end=None, holder="", **fields):
    """Writes the files of a run.

    Args:
      lines: of the log: of training every ten steps, which take a second each, and a validation
        after each.
      fields: of the config, "__" for ".".
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {"task": "csan_jax.task:ToyTranslation", "model": {"dim": 16}}
    config["train"] = {"steps": STEPS, "best_metric": "accuracy", "seed": 0, "patience": 0}
    for name, value in fields.items():
        section, key = name.split("__")
        config[section][key] = value
    (folder / "config.json").write_text(json.dumps({"version": 1, "config": config}))
    append(folder, 0, lines)
    for name, content in (("result.json", result), ("end.json", end)):
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    if holder:
        (folder / "lock").write_text(f"{holder}\n")
    return folder


def append(folder, first, last):
    """Appends lines to the log of a run."""
    with (folder / "metrics.jsonl").open("a") as log:
        for number in range(first + 1, last + 1):
            at = {"step": 10 * number, "wall_seconds": 5.0 + 10.0 * number}
            values = {"loss": 3.0 / number, "steps_per_second": 1.0}
            log.write(json.dumps(at | values) + "\n")
            log.write(json.dumps(at | {"split": "dev", "accuracy": 50.0 + number}) + "\n")


def result(steps=STEPS, **further):
    metrics = {"dev": {"accuracy": 60.0}, "test": {"accuracy": 58.25}}
    return {"steps": steps, "wall_seconds": 105.0, "metrics": metrics, **further}
