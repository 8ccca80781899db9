"""Files that other processes write, read only as far as they have changed."""

import contextlib
from typing import Any, cast

from common_jax.io.paths import AnyPath, in_bucket


class ChangingFile:
    """A file that is read again only if it has changed: on a disk by inode, size and modification
    time, in a bucket by generation.

    Attributes:
      modified: the time of the last reading's content, in seconds since 1970; 0 for a missing file,
        and in a bucket.
    """

    def __init__(self, path: AnyPath):
        self._path, self._stamp, self.modified = path, cast(Any, None), 0.0

    def read(self, start: int = 0) -> tuple[bool, bytes | None]:
        """Whether it has changed since the last call, and if so its content; None if it is missing.

        Args:
          start: the first byte to read on a disk; in a bucket all are read.

        Raises:
          UserError: by a bucket.
        """
        return self._read_object() if in_bucket(self._path) else self._read_file(start)

    def _read_file(self, start: int) -> tuple[bool, bytes | None]:
        stamp: tuple[int, ...] = ()
        content, self.modified = None, 0.0
        with contextlib.suppress(OSError):
            stat = self._path.stat()
            stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            self.modified = stat.st_mtime
            if stamp == self._stamp:
                return False, None
            with self._path.open("rb") as file:
                file.seek(start)
                content = file.read()
        changed = stamp != self._stamp
        self._stamp = stamp
        return changed, content

    def _read_object(self) -> tuple[bool, bytes | None]:
        result = cast(Any, self._path).key.read(self._stamp or None)
        if result.state == "unspecified":
            return False, None
        stamp = result.stamp.generation if result.state == "value" else b""
        changed = stamp != self._stamp
        self._stamp = stamp
        return changed, result.value if stamp else None


class GrowingLines:
    """The lines of a file to which lines are appended, or which is replaced."""

    def __init__(self, path: AnyPath):
        self._path, self._file = path, ChangingFile(path)
        self._end, self._last = 0, b""

    @property
    def modified(self) -> float:
        """`ChangingFile.modified`."""
        return self._file.modified

    def read(self) -> tuple[bool, list[bytes]]:
        """Whether the file has been replaced since the last call (the last line read is not at its
        place), and its new complete lines.

        Raises:
          UserError: by a bucket.
        """
        start = self._end - len(self._last)
        changed, content = self._file.read(start)
        if not changed:
            return False, []
        if content is None:
            replaced, self._end, self._last = self._end > 0, 0, b""
            return replaced, []
        known = content[start:] if in_bucket(self._path) else content
        replaced = not known.startswith(self._last)
        if replaced:
            self._file, self._end, self._last = ChangingFile(self._path), 0, b""
            known = self._file.read()[1] or b""
        else:
            known = known[len(self._last) :]
        complete = known[: known.rfind(b"\n") + 1]
        lines = complete.splitlines(keepends=True)
        self._end, self._last = self._end + len(complete), (lines or [self._last])[-1]
        return replaced, lines
