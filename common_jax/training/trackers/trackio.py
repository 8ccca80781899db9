"""Trackio; its environment variables (TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL) apply."""

import os
import warnings
from collections.abc import Mapping

from common_jax.training.trackers import TrackedRun, Tracker


class Trackio(Tracker):
    """A run of Trackio, in its database on this machine or on a server.

    Without the server, Trackio stores the numbers here and sends them with the next run.
    """

    package = "trackio"

    def __init__(self, run: TrackedRun):
        import trackio

        # it never raises: an outage is a warning
        warnings.showwarning = lambda message, *_: run.warn(str(message))
        project = os.environ.get("TRACKIO_PROJECT", "conv-attention")
        self._run = trackio.init(
            project, name=run.name, resume="allow", config=dict(run.config), embed=False
        )
        self.location = f"`trackio show --project {project}`, {run.name}"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()
