"""Errors of one line."""

import pytest

from common_jax.errors import UserError


def refusal(call, *args, **options) -> str:
    """The line of the error that the call raises."""
    with pytest.raises(UserError) as error:
        call(*args, **options)
    assert "\n" not in str(error.value)
    return str(error.value)
