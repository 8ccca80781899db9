"""A small dataset for TensorFlow Datasets, with the features of its translation datasets."""

from tests.common_jax.data import tfds_builder

PAIRS = [(f"der Satz Nummer {n} ist übersetzt", f"sentence {n} is translated") for n in range(120)]
COUNTS = {"train": 80, "validation": 15, "test": 25}
CONFIGS = ("de-en", "en-de", "broken", "needs-tensorflow", "needs-beam")
BROKEN = {
    3: (b"f\xfcr", "for"),
    5: ("", "for"),
    7: ("zwei\nZeilen", "two\nlines"),
    9: ("\u00a0", "for"),
    100: ("nichts", "\t"),
}
generated = 0  # examples that this process made


def register() -> None:
    features = lambda types, config: types.Translation(languages=("de", "en"))
    tfds_builder.register("phrasebook", CONFIGS, features, _splits)


def _splits(config):
    if config == "needs-tensorflow":
        raise ModuleNotFoundError("No module named 'tensorflow'")
    if config == "needs-beam":
        import no_such_package  # noqa: F401
    start, splits = 0, {}
    for split, count in COUNTS.items():
        splits[split] = _examples(range(start, start + count), BROKEN if config == "broken" else {})
        start += count
    return splits


def _examples(numbers, others):
    global generated
    for number in numbers:
        german, english = others.get(number, PAIRS[number])
        generated += 1
        yield number, {"de": german, "en": english}
