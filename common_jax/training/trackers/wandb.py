"""Weights & Biases; its environment variables (WANDB_PROJECT, WANDB_MODE) apply."""

import os
from collections.abc import Mapping
from typing import Any

from common_jax.training.trackers import TrackedRun, Tracker


class WandB(Tracker):
    """A run of Weights & Biases; without its server an offline one, to be uploaded later.

    A resumed run has the same id. Without the server each process writes a folder of its own, whose
    steps go on; `wandb sync` puts them together.
    """

    package = "wandb"

    def __init__(self, run: TrackedRun):
        import wandb

        settings = wandb.Settings(console="off", init_timeout=10)  # then offline
        project = os.environ.get("WANDB_PROJECT", "conv-attention")
        fields: dict[str, Any] = {"project": project, "name": run.name, "id": run.id}
        fields |= {"resume": "allow", "dir": str(run.folder), "settings": settings}
        try:
            self._run = wandb.init(**fields)
        except wandb.errors.Error as error:  # no server, or no account on this machine
            run.warn(f"{error}; it is recorded offline")
            wandb.teardown(exit_code=1)  # else the id is in use
            self._run = wandb.init(**fields, mode="offline")
        self._run.config.update(dict(run.config), allow_val_change=True)
        self.location = self._run.url or f"offline; `wandb sync {self._run.settings.sync_dir}`"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()
