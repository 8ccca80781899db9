"""The fixtures of the checks of pages."""

from tests.docs.test_docs import config_keys, parsers  # noqa: F401
from tests.docs.test_results import root, tables  # noqa: F401
