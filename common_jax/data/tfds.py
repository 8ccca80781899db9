"""TensorFlow Datasets without TensorFlow: array_record files, read by number or as a stream."""

import contextlib
import difflib
import importlib
import io
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common_jax.errors import UserError, missing_extra
from common_jax.io import lock
from common_jax.io.paths import expand_user
from common_jax.io.storage import local_copy

_FORMAT = "array_record"  # can be read, and written, without TensorFlow
_GROUPS = ("translate", "text", "question_answering")  # their builders register on import
_CHUNK = 4096  # records read at once
_LONGEST = 300  # characters of an external message
_log = logging.getLogger(__name__)


class Dataset:
    """A dataset of TensorFlow Datasets, prepared on disk.

    Attributes:
      name: as in "wmt14_translate/de-en", or with a version, ":1.0.0".
      texts: names of the features that are one string each.
      labels: the features that are one label each, and the names of their labels by number.
    """

    def __init__(self, name: str, folder: str = ""):
        """Opens the prepared files, or downloads and prepares them, once for all processes.

        Args:
          folder: TensorFlow Datasets' `data_dir`; empty is its own default.

        Raises:
          UserError: for an unknown dataset, another file format, or if it cannot be prepared
            without a network, disk space or a package.
        """
        import tensorflow_datasets as tfds

        path = local_copy(expand_user(folder, "data.dir"), "data.dir") if folder else ""
        self.name = name
        self._folder = str(path)
        builder = self._open()
        if not builder.is_prepared():
            self._prepare(Path(builder.data_dir_root))
        self._builder = self._open()  # a builder does not see files written after it was opened
        self._info = self._builder.info
        formats = {file_format.value for file_format in self._info.available_file_formats()}
        if _FORMAT not in formats:
            raise UserError(
                f"data.tfds={name}: {self._info.data_dir} has {', '.join(sorted(formats))} files, "
                f"and {_FORMAT} is needed; use another data.dir to prepare it again"
            )
        features = self._info.features
        self.texts = tuple(n for n, feature in features.items() if _is_text(feature))
        self.labels = {
            n: tuple(feature.names)
            for n, feature in features.items()
            if isinstance(feature, tfds.features.ClassLabel) and feature.num_classes
        }

    def source(self, split: str, key: str, **options: Any) -> Sequence[Any]:
        """The examples by index: mappings of decoded features; strings are bytes.

        Args:
          split: a split or a part of it, as in "train[:1000]".
          key: its config key, for error messages.
          **options: of `as_data_source`.

        Raises:
          UserError: if there is no such split.
        """
        try:
            return self._builder.as_data_source(split, file_format=_FORMAT, **options)
        except (ValueError, AssertionError) as error:
            names = ", ".join(map(str, self._info.splits))
            raise UserError(
                f"{key}={split!r}: {self.name} has the splits {names}, or parts of them such as "
                f"'{next(iter(self._info.splits), 'train')}[:1000]' ({_one_line(error)[:_LONGEST]})"
            ) from error

    def stream(self, split: str, key: str, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Streams the named `texts`, as bytes, and `labels`, as numbers (-1 is none), of all
        examples, about six times as fast as `source`."""
        from tensorflow_datasets.core.decode import DeserializeMethod
        from tensorflow_datasets.proto import tf_example_pb2

        records: Any = self.source(split, key, deserialize_method=DeserializeMethod.RAW_BYTES)
        for start in range(0, len(records), _CHUNK):
            for record in records.__getitems__(range(start, min(start + _CHUNK, len(records)))):
                feature = tf_example_pb2.Example.FromString(record).features.feature
                yield tuple(_value(feature[name]) for name in names)

    def identity(self, split: str) -> Any:
        """Identifies a split's content, as JSON: name and version, shards and their sizes."""
        splits = self._info.splits
        sizes = {str(name): [splits[name].num_bytes, splits[name].shard_lengths] for name in splits}
        return {"dataset": self._info.full_name, "split": split, "sizes": sizes}

    def _open(self) -> Any:
        import tensorflow_datasets as tfds

        def builders():
            return tfds.list_builders(with_community_datasets=False)

        name = re.split("[/:]", self.name)[0]
        if name not in builders():
            for group in _GROUPS:
                importlib.import_module(f"tensorflow_datasets.{group}")
        folder = {"data_dir": self._folder} if self._folder else {}
        try:
            return tfds.builder(self.name, **folder)
        except tfds.core.DatasetNotFoundError as error:
            close = difflib.get_close_matches(name, builders(), n=1)
            raise UserError(
                f"data.tfds={self.name}: TensorFlow Datasets has no {name!r}, and data.dir no "
                "files of it" + (f"; did you mean {close[0]!r}?" if close else "")
            ) from error
        except (ValueError, AssertionError) as error:
            reason = re.sub('^Failed to construct .*?}": ', "", _one_line(error))
            configs = list(tfds.builder_cls(name).builder_configs) if name in builders() else []
            known = f"; {name} has {', '.join(configs)}"[:_LONGEST] if configs else ""
            reason = reason.partition(" Here are ")[0][:_LONGEST].rstrip(".")
            raise UserError(f"data.tfds={self.name}: {reason}{known}") from error

    def _prepare(self, root: Path) -> None:
        """Downloads and prepares the dataset, under a lock."""
        from tensorflow_datasets.core.download import downloader

        logging.getLogger("urllib3").setLevel(logging.ERROR)  # else a line for each retry
        downloader.MAX_RETRIES = 5  # six seconds of waiting; the default of ten waits 200
        _log.info("preparing %s in %s, from the network", self.name, root)
        try:
            root.mkdir(parents=True, exist_ok=True)
            with lock.held(root / f".{re.sub('[^a-zA-Z0-9_.-]', '-', self.name)}.lock"):
                write(self._open())
        except Exception as error:  # a builder can raise anything
            raise UserError(f"data.tfds={self.name}: {_explain(error, root)}") from error


def _explain(error: Exception, root: Path) -> str:
    """The reason why a dataset cannot be prepared, and the fix."""
    missing = re.search(r"No module named '(\w+)", str(error))
    if missing and missing[1] == "tensorflow":
        end = "; or set data.dir to where it is prepared"
        return str(missing_extra("to be prepared, though not to be read, it", "tf", end))
    if missing:
        return f"the package {missing[1]} is needed to prepare it; install it"
    return (
        f"cannot be prepared in {root}: {type(error).__name__}: {_one_line(error)[:_LONGEST]}; "
        "fix that (is there a network?), or set data.dir to where it is prepared"
    )


def write(builder: Any) -> None:
    """Writes the files of a builder of TensorFlow Datasets, in the format that is read here."""
    import tensorflow_datasets as tfds

    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    with contextlib.redirect_stdout(io.StringIO()):  # banners
        builder.download_and_prepare(file_format=_FORMAT)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _value(feature: Any) -> bytes | int:
    return (feature.bytes_list.value or feature.int64_list.value)[0]


def _is_text(feature: Any) -> bool:
    """Whether a feature is a scalar string; nested features have no single shape."""
    return getattr(feature, "shape", None) == () and np.dtype(feature.np_dtype).kind in "OSU"
