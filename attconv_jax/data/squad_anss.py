"""SQuAD-AnSS (section 4.2) as a dataset of TensorFlow Datasets, from files of SQuAD's format.

  python -c "from attconv_jax.data.squad_anss import build; \\
    build('train-v1.1.json', 'dev-v1.1.json', 'data/tfds')"

builds it, without a network or TensorFlow, and a run reads it with

  --config configs/attconv/squad_anss.py \\
  --config.data.source=tfds --config.data.tfds=squad_anss --config.data.dir=data/tfds \\
  --config.data.train=train --config.data.dev=dev --config.data.test=test

The files themselves (data.source=files) give the same sentences.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from attconv_jax.data import LABELS
from attconv_jax.data.passages import Selection
from attconv_jax.data.sources import Example
from common_jax.bad_examples import BadExamples, summary
from common_jax.data.holdout import ShuffledGroups
from common_jax.data.sources import require_some
from common_jax.data.tfds import write
from common_jax.errors import UserError
from common_jax.io.files import find_file
from common_jax.io.paths import expand_user

NAME = "squad_anss"
HELDOUT = 48_307  # pairs in the paper's dev
_log = logging.getLogger(__name__)


def build(
    train: str | Path,
    test: str | Path,
    folder: str | Path,
    *,
    holdout_size: int = HELDOUT,
    seed: int = 0,
    on_bad_example: Literal["error", "skip"] = "error",
) -> Path:
    """Writes the dataset `NAME` with the splits train, dev and test, in array_record files.

    An example is a question with a sentence of its passage, in order: the question's `id`, the
    title of the `article`, `question`, `sentence` and the `label`, whether an answer starts in it.

    Args:
      train: a file of SQuAD's format, plain or .gz, some articles of which become dev.
      test: another such file.
      folder: TensorFlow Datasets' `data_dir`.
      holdout_size: smallest number of pairs of dev.
      seed: of the choice of held-out articles.

    Returns:
      The folder of the dataset's files.

    Raises:
      UserError: for a missing or broken file, a bad example (`on_bad_example`), too few examples,
        or a folder that cannot be written or already has the dataset.
    """
    splits: dict[str, list[Example]] = {}
    files = {"train": train, "test": test}
    for split, file in files.items():
        bad_examples = BadExamples(on_bad_example, "on_bad_example")
        source = Selection(find_file(Path(expand_user(file))))
        splits[split] = list(source.read(bad_examples))
        require_some(len(splits[split]), "pairs", split, source.place, bad_examples.counts)
        if dropped := summary(bad_examples.counts):
            _log.warning("%s: %d pairs, skipped %s", split, len(splits[split]), dropped)

    # some articles of train are dev
    held_out = ShuffledGroups(["dev"], holdout_size, seed, "pairs")
    for example in splits["train"]:
        held_out.add(example.group)
    rows = held_out.rows(str(train))
    splits |= {
        split: [splits["train"][row] for row in split_rows] for split, split_rows in rows.items()
    }

    # files
    builder = _builder(splits, Path(expand_user(folder)))
    if builder.is_prepared():
        raise UserError(f"{builder.data_path}: already exists; delete it, or name another folder")
    try:
        write(builder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return Path(builder.data_path)


def _builder(splits: Mapping[str, Sequence[Example]], folder: Path) -> Any:
    import tensorflow_datasets as tfds  # takes seconds

    # Not registered: the dataset is read from its files.
    class SquadAnss(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
        """Sentences of SQuAD's passages by whether they answer a question."""

        name = NAME
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            texts = ("id", "article", "question", "sentence")
            features = {text: tfds.features.Text() for text in texts}
            features["label"] = tfds.features.ClassLabel(names=LABELS)
            return tfds.core.DatasetInfo(
                builder=self,
                description=self.__doc__,
                features=tfds.features.FeaturesDict(features),
                disable_shuffling=True,
            )

        def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
            return {split: self._generate_examples(rows) for split, rows in splits.items()}

        def _generate_examples(
            self, rows: Sequence[Example]
        ) -> Iterator[tuple[int, dict[str, Any]]]:
            for number, row in enumerate(rows):
                texts = {"question": row.texts[0], "sentence": row.texts[1]}
                names = {"id": row.question, "article": row.group, "label": row.label}
                yield number, texts | names

    return SquadAnss(data_dir=str(folder))
