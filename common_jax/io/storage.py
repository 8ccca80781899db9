"""The folder of a path, on a disk or in a bucket."""

import os

from common_jax.fields import named_class
from common_jax.io.folder import Folder
from common_jax.io.paths import as_path, in_bucket

_BUCKET_FOLDER = "common_jax.io.bucket_folder:BucketFolder"


def folder_of(path: str | os.PathLike[str]) -> Folder:
    """The folder at a path.

    Raises:
      UserError: for a URL that is not in a bucket of Google Cloud Storage.
    """
    located = as_path(path)
    if in_bucket(located):
        bucket_folder = named_class(_BUCKET_FOLDER, Folder, "bucket")  # imported only when needed
        return bucket_folder(located)
    return Folder(located)
