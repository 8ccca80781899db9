"""Small datasets for TensorFlow Datasets."""


def register(dataset, configs, features, splits) -> None:
    """Registers `tfds.builder("DATASET/CONFIG")`; a function, as the import is slow.

    Args:
      features: of tfds.features and a config's name.
      splits: the keys and rows of each split, of a config's name.
    """
    import tensorflow_datasets as tfds

    if dataset in tfds.list_builders(with_community_datasets=False):
        return

    class Builder(tfds.core.GeneratorBasedBuilder):
        name = dataset
        VERSION = tfds.core.Version("1.0.0")
        SUPPORTED_VERSIONS = [tfds.core.Version("2.0.0")]  # noqa: RUF012
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=each) for each in configs]  # noqa: RUF012

        def _info(self):
            described = features(tfds.features, self.builder_config.name)
            return tfds.core.DatasetInfo(builder=self, features=described, disable_shuffling=True)

        def _split_generators(self, dl_manager):
            return splits(self.builder_config.name)

        def _generate_examples(self):
            raise NotImplementedError
