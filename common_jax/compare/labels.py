"""Short names of runs that are shown together."""

from collections.abc import Sequence


def shortened(labels: Sequence[str]) -> list[str]:
    """Labels of a sweep's trials, "model.a=1,model.b=2,train.seed=0", without common settings."""
    settings = [label.split(",") for label in labels]
    trials = [fields for fields in settings if all("=" in field for field in fields)]
    common = set.intersection(*map(set, trials)) if len(trials) > 1 else set()
    shortened = [
        ", ".join(field.rpartition("=")[0].rpartition(".")[2] + "=" + field.rpartition("=")[2]
                  for field in fields if field not in common) if fields in trials else label
        for fields, label in zip(settings, labels, strict=True)
    ]  # fmt: skip
    return shortened if len({*shortened}) == len(shortened) and all(shortened) else list(labels)
