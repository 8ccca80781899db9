"""The fixtures of runs in a bucket."""

from tests.nightly.bucket.machines import emulator, machine, on_disk, service  # noqa: F401
