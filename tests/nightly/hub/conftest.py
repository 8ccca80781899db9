"""The fixtures of models on a hub."""

from tests.nightly.hub.pushed import folder, hub, pushed  # noqa: F401
