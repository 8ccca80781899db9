"""Questions about passages: sources, preparation and batches. This module has the splits."""

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from qanet_jax.config import DataConfig

Split = Literal["train", "dev", "test", "dev_oracle"]
Golds = list[dict[str, Any]]  # questions of TriviaQA as `qanet_jax.triviaqa_metrics` scores them


def splits_of(config: "DataConfig") -> tuple[Split, ...]:
    """The splits of a config; the last is the one to report."""
    oracle: list[Split] = [] if config.format == "squad" else ["dev_oracle"]
    test: list[Split] = ["test"] if config.source == "generated" or config.test else []
    return ("train", *oracle, "dev", *test)
