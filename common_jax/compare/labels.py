"""Short names of runs that are shown together."""

from collections.abc import Sequence


def shortened(labels: Sequence[str]) -> list[str]:
    """Labels of a sweep's trials, "model.a=1,model.b=2,train.seed=0", without common settings."""
    settings = [label.split(",") for label in labels]
    trials = [fields for fields in settings if all("=" in field for field in fields)]
    common = set.intersection(*map(set, trials)) if len(trials) > 1 else set()
    shortened = []
    for fields, label in zip(settings, labels, strict=True):
        different = ", ".join(_without_section(field) for field in fields if field not in common)
        shortened.append(different if fields in trials else label)
    return shortened if len({*shortened}) == len(shortened) and all(shortened) else list(labels)


def _without_section(setting: str) -> str:
    """model.dim=100 -> dim=100."""
    key, _, value = setting.rpartition("=")
    return f"{key.rpartition('.')[2]}={value}"
