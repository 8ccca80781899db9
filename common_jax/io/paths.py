"""Paths that arguments name: on a disk, or in a bucket of Google Cloud Storage, gs://BUCKET/FOLDER.

A path in a bucket (`common_jax.io.bucket.BucketPath`) has pathlib's methods. Nothing in a bucket is
renamed, and a file there is written as a whole.
"""

import hashlib
import os
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from common_jax.errors import UserError

if TYPE_CHECKING:
    AnyPath = Path  # whose methods `BucketPath` has
if not TYPE_CHECKING:
    AnyPath = PurePath

CACHE = "~/.cache/conv-attention-jax"
_COPIES = "bucket"  # in the cache
GS = "gs://"
# of names of models (`common_jax.deploy.named`)
HF = "hf://"
DEMO = "demo:"
NAMES = f"models also by name: {HF}OWNER/NAME@REVISION, {DEMO}NAME"
_BUCKET_PATH = "common_jax.io.bucket:BucketPath"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_BUCKET = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/|$)")


def as_path(path: str | os.PathLike[str]) -> AnyPath:
    """The path of a text.

    Raises:
      UserError: for a URL that is not in a bucket of Google Cloud Storage.
    """
    text = os.fspath(path)
    if (match := _SCHEME.match(text)) is None:
        return Path(text)
    if _BUCKET.match(text):
        from common_jax.fields import named_class

        bucket_path = named_class(_BUCKET_PATH, PurePath, "bucket")  # imported only when needed
        return bucket_path(text.rstrip("/"))
    scheme = match[1].lower()
    if scheme == "gs":
        raise UserError(f"{text}: write {GS}BUCKET/FOLDER")
    if scheme == "file":
        raise UserError(f"{text}: write the path alone, without file://")
    raise UserError(
        f"{text}: of URLs, only {GS} is supported: Orbax, which writes checkpoints, would take "
        f"{scheme}:// for a local folder; use {GS}BUCKET/FOLDER, or a mounted folder; {NAMES}"
    )


def disk_path(text: str) -> Path:
    """The path of a text; raises UserError if it is not on a disk."""
    path = as_path(text)
    if in_bucket(path):
        raise UserError(f"{text}: must be on a disk, not in a bucket")
    return path


def expand_user(path: str | os.PathLike[str], key: str = "") -> str:
    """A path with the home folder for "~".

    Args:
      key: the config key or flag with the path, for the message.

    Raises:
      UserError: if there is no home folder.
    """
    text = os.path.expanduser(path)
    if text.startswith("~") and text.split("/")[0] == "~":
        name = f"{key}={os.fspath(path)}" if key else os.fspath(path)
        raise UserError(
            f"{name}: this user has no home folder: set the variable HOME, or write the path"
        )
    return text


def in_bucket(path: str | os.PathLike[str]) -> bool:
    """Whether a path is in a bucket."""
    return os.fspath(path).startswith(GS)


def cache_of(path: AnyPath) -> Path:
    """The folder of this machine for copies of a path in a bucket."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:20]
    folder = Path(expand_user(CACHE)) / _COPIES / digest
    folder.mkdir(parents=True, exist_ok=True)
    return folder
