"""The config section with the paper's results."""

import dataclasses
import re

from common_jax.fields import require


@dataclasses.dataclass(frozen=True)
class PaperConfig:
    """The paper's results, for comparison with a run's.

    Attributes:
      results: each "SYSTEM: SPLIT METRIC VALUE ...", with the run's names of splits and metrics:
        "2D-CSAN: test tokenized_bleu 28.18".
      source: the table or section of the paper, and its data if they differ from the run's.
      system: the name by which tables and reports group runs.
    """

    results: tuple[str, ...] = ()
    source: str = ""
    system: str = ""

    def __post_init__(self):
        _ = self.parsed

    @property
    def parsed(self) -> list[tuple[str, str, str, float]]:
        """System, split, metric and value of each number."""
        results = []
        for line in self.results:
            system, _, numbers = line.rpartition(": ")
            split, *rest = numbers.split() or [""]
            pairs = list(zip(rest[::2], rest[1::2], strict=False))
            good = system and rest and len(rest) % 2 == 0
            require(
                bool(good) and all(re.fullmatch(r"-?\d+(\.\d+)?", value) for _, value in pairs),
                f"paper.results={line!r}: write SYSTEM: SPLIT METRIC VALUE",
            )
            results += [(system, split, metric, float(value)) for metric, value in pairs]
        return results
