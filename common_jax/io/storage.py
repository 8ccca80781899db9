"""The folder and the files of a path, on a disk or in a bucket.

What only buckets need is imported by its name, when a path is in one.
"""

import os
import pkgutil
import sys
from pathlib import Path
from typing import Any

from common_jax.fields import named_class
from common_jax.io.folder import Folder
from common_jax.io.paths import GS, AnyPath, as_path, in_bucket

_BUCKET_FOLDER = "common_jax.io.bucket_folder:BucketFolder"
_BUCKET_COPY = "common_jax.io.bucket_copies:copy_of"
_BUCKET_STATE = "common_jax.io.bucket_state"


def folder_of(path: str | os.PathLike[str]) -> Folder:
    """The folder at a path.

    Raises:
      UserError: for a URL that is not in a bucket of Google Cloud Storage.
    """
    located = as_path(path)
    if in_bucket(located):
        bucket_folder = named_class(_BUCKET_FOLDER, Folder, "bucket")
        return bucket_folder(located)
    return Folder(located)


def local_copy(path: str | AnyPath, key: str = "") -> Path:
    """A path on a disk unchanged; for a file or folder in a bucket, a copy in this machine's cache.

    An object is copied again only if its generation, or its copy's checksum, has changed.

    Args:
      key: the config key or flag with the path, for messages.

    Raises:
      UserError: if there is nothing at the path, or the bucket cannot be read.
    """
    if not in_bucket(path):
        return Path(as_path(path))
    return pkgutil.resolve_name(_BUCKET_COPY)(path, key)


def bucket_state() -> Any:
    """The module `common_jax.io.bucket_state`; None if this process has used no bucket."""
    return sys.modules.get(_BUCKET_STATE)


def silence_of(path: AnyPath) -> str:
    """For how long the bucket of a path did not answer before it was given up; "" if it was not."""
    bucket = os.fspath(path).removeprefix(GS).partition("/")[0]
    buckets = bucket_state() if in_bucket(path) else None
    return buckets.silence_of(bucket) if buckets else ""
