"""The record of why a training has ended early, which the next start deletes."""

import json
import signal

import pytest

from common_jax.errors import Interrupted, UserError
from common_jax.training.run_writer import RunWriter
from tests.toy import ToyConfig


@pytest.mark.parametrize(
    "error,expected",
    [
        (UserError("step 3:\nnot finite"), {"state": "failed", "message": "step 3: not finite"}),
        (ZeroDivisionError(), {"state": "failed", "message": "ZeroDivisionError"}),
        (Interrupted(signal.SIGTERM, "at step 3"), {"state": "stopped", "message": "at step 3"}),
        (KeyboardInterrupt(), {"state": "stopped", "message": "KeyboardInterrupt"}),
    ],
)
def test_an_end_is_recorded_and_raised(error, expected, tmp_path):
    writer = RunWriter(tmp_path / "run")
    writer.claim(ToyConfig())
    with pytest.raises(type(error)), writer.recording_end():
        raise error
    assert json.loads(writer.end_file.read_text()) == expected
    writer.claim(ToyConfig())
    assert not writer.end_file.exists()
    with writer.recording_end():
        pass
    assert not writer.end_file.exists()
    writer.release()


def test_the_error_is_that_of_the_training_if_nothing_can_be_written(tmp_path):
    writer = RunWriter(tmp_path / "missing" / "run")
    with pytest.raises(UserError, match="disk full"), writer.recording_end():
        raise UserError("disk full")
