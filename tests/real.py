"""Real data, which is there only where `REAL_DATA` names its folder and is not empty."""

import os
from pathlib import Path

import pytest

needs_real_data = pytest.mark.skipif(
    not os.environ.get("REAL_DATA"), reason="REAL_DATA names no folder of real data"
)


def real_data(name: str) -> Path:
    """A file or folder of it; for tests that are marked as above."""
    return Path(os.environ["REAL_DATA"]) / name
