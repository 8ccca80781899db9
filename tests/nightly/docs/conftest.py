"""The fixtures of the checks of pages."""

from tests.docs.test_results import root  # noqa: F401
