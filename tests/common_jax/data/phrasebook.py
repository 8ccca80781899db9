"""A small dataset for TensorFlow Datasets, with the features of its translation datasets."""

PAIRS = [(f"der Satz Nummer {n} ist übersetzt", f"sentence {n} is translated") for n in range(120)]
COUNTS = {"train": 80, "validation": 15, "test": 25}
generated = 0  # examples that this process made


def register() -> None:
    """Registers `tfds.builder("phrasebook/...")`; a function, since the import is slow."""
    import tensorflow_datasets as tfds

    if "phrasebook" in tfds.list_builders(with_community_datasets=False):
        return

    class Phrasebook(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        SUPPORTED_VERSIONS = [tfds.core.Version("2.0.0")]  # noqa: RUF012
        BUILDER_CONFIGS = [  # noqa: RUF012
            tfds.core.BuilderConfig(name=name)
            for name in ("de-en", "en-de", "broken", "needs-tensorflow", "needs-beam")
        ]

        def _info(self):
            features = tfds.features.Translation(languages=("de", "en"))
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager):
            if self.builder_config.name == "needs-tensorflow":
                raise ModuleNotFoundError("No module named 'tensorflow'")
            if self.builder_config.name == "needs-beam":
                import no_such_package  # noqa: F401
            start, splits = 0, {}
            for split, count in COUNTS.items():
                splits[split] = self._generate_examples(start, count)
                start += count
            return splits

        def _generate_examples(self, start, count):
            global generated
            for number in range(start, start + count):
                german, english = PAIRS[number]
                if self.builder_config.name == "broken":
                    german, english = BROKEN.get(number, (german, english))
                generated += 1
                yield number, {"de": german, "en": english}


BROKEN = {
    3: (b"f\xfcr", "for"),
    5: ("", "for"),
    7: ("zwei\nZeilen", "two\nlines"),
    9: ("\u00a0", "for"),
    100: ("nichts", "\t"),
}
