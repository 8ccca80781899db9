"""Small datasets for TensorFlow Datasets: with SNLI's features and another order of labels, with a
review's features, and with unsuitable ones.
"""

PAIRS = [(f"Two men number {n}.", f"A man number {n}.") for n in range(20)]
LABELS = ("contradiction", "neutral", "entailment")  # not the order of `data.labels`
UNLABELLED = (3, 11)


def label(number: int) -> str:
    """The label of an example; "-" for none."""
    return "-" if number in UNLABELLED else LABELS[number % 3]


def register() -> None:
    """Registers `tfds.builder("entailments/...")`; a function, as the import is slow."""
    import tensorflow_datasets as tfds

    if "entailments" in tfds.list_builders(with_community_datasets=False):
        return

    class Entailments(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        BUILDER_CONFIGS = [  # noqa: RUF012
            tfds.core.BuilderConfig(name=name) for name in ("pairs", "texts", "unlabelled", "bytes")
        ]

        def _info(self):
            names = ("text",) if self.builder_config.name == "texts" else ("premise", "hypothesis")
            features = {name: tfds.features.Text() for name in names}
            if self.builder_config.name != "unlabelled":
                features["label"] = tfds.features.ClassLabel(names=LABELS)
            features = tfds.features.FeaturesDict(features)
            return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

        def _split_generators(self, dl_manager):
            return {
                "train": self._generate_examples(range(14)),
                "validation": self._generate_examples(range(14, 20)),
            }

        def _generate_examples(self, numbers):
            for number in numbers:
                premise, hypothesis = PAIRS[number]
                row = {"premise": premise, "hypothesis": hypothesis}
                if self.builder_config.name == "texts":
                    row = {"text": premise}
                if self.builder_config.name == "bytes" and number == 5:
                    row["premise"] = b"\xff"
                if self.builder_config.name != "unlabelled":
                    row["label"] = -1 if label(number) == "-" else label(number)
                yield number, row
