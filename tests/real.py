"""Real data, in the folder that the environment variable REAL_DATA names."""

import os
from pathlib import Path

import pytest

needs_real_data = pytest.mark.skipif(
    not os.environ.get("REAL_DATA"), reason="REAL_DATA names no folder of real data"
)


def real_data(name: str) -> Path:
    """A file or folder of the real data; for tests marked `needs_real_data`."""
    return Path(os.environ["REAL_DATA"]) / name
