"""Limits of a server."""

import dataclasses

from common_jax.fields import require


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a server accepts.

    Attributes:
      body: bytes of a request.
      inputs: of a request.
      length: of a text, in words or pieces (`ParsedLine.lengths`).
      batch: inputs computed at once.
      queue: inputs of a model that wait.
      timeout: seconds for a body to arrive, and for its answer.
    """

    body: int = 2**20
    inputs: int = 64
    length: int = 512
    batch: int = 16
    queue: int = 256
    timeout: float = 30.0

    def __post_init__(self):
        for name, value in dataclasses.asdict(self).items():
            flag = name if name == "timeout" else f"max_{name}"
            low = 0.01 if name == "timeout" else 1
            require(low <= value <= 2**31, f"--{flag} {value}: from {low} to 2^31")
        require(
            self.inputs <= self.queue,
            f"--max_queue {self.queue}: less than --max_inputs {self.inputs}",
        )

    @property
    def characters(self) -> int:
        """Of a text, checked before it is split into words."""
        return 32 * self.length
