"""Files that are appended to: unbuffered on a disk, rewritten from time to time in a bucket."""

import io
import time

from common_jax.io.paths import AnyPath, in_bucket

_SECONDS = 10  # between two writes of an object, which grows


def open_to_append(path: AnyPath) -> "io.FileIO | AppendedObject":
    """Opens a file; on a disk each write reaches the system, and fails at once if it is full."""
    return AppendedObject(path) if in_bucket(path) else path.open("ab", buffering=0)


class AppendedObject:
    """An object in a bucket, rewritten whole: every `_SECONDS` at most, by `flush` and `close`."""

    def __init__(self, path: AnyPath):
        self._path = path
        self._content = bytearray(path.read_bytes() if path.exists() else b"")
        self._written, self._at = len(self._content), time.monotonic()

    def write(self, content: bytes) -> int:
        """Appends bytes; returns their number."""
        self._content += content
        if time.monotonic() - self._at > _SECONDS:
            self.flush()
        return len(content)

    def flush(self) -> None:
        """Writes all that was appended."""
        if len(self._content) > self._written:
            self._path.write_bytes(bytes(self._content))
            self._written, self._at = len(self._content), time.monotonic()

    close = flush
