"""Small datasets for TensorFlow Datasets: with SNLI's features and another order of labels, with a
review's features, and with unsuitable ones.
"""

from tests.common_jax.data import tfds_builder

PAIRS = [(f"Two men number {n}.", f"A man number {n}.") for n in range(20)]
LABELS = ("contradiction", "neutral", "entailment")  # not the order of `data.labels`
UNLABELLED = (3, 11)


def label(number: int) -> str:
    """The label of an example; "-" for none."""
    return "-" if number in UNLABELLED else LABELS[number % 3]


def register() -> None:
    """Registers the configs pairs, texts, unlabelled and bytes of "entailments"."""
    configs = ("pairs", "texts", "unlabelled", "bytes")
    tfds_builder.register("entailments", configs, _features, _splits)


def _features(types, config):
    names = ("text",) if config == "texts" else ("premise", "hypothesis")
    features = {name: types.Text() for name in names}
    if config != "unlabelled":
        features["label"] = types.ClassLabel(names=LABELS)
    return types.FeaturesDict(features)


def _splits(config):
    splits = {"train": range(14), "validation": range(14, 20)}
    return {split: _examples(config, numbers) for split, numbers in splits.items()}


def _examples(config, numbers):
    for number in numbers:
        premise, hypothesis = PAIRS[number]
        row = {"premise": premise, "hypothesis": hypothesis}
        if config == "texts":
            row = {"text": premise}
        if config == "bytes" and number == 5:
            row["premise"] = b"\xff"
        if config != "unlabelled":
            row["label"] = -1 if label(number) == "-" else label(number)
        yield number, row
