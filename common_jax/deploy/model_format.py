"""Formats of exports that the models of one family have, computed by another library."""

import abc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from common_jax.deploy.predictor import CompiledFunctions


class ModelFormat(abc.ABC):
    """A format that a predictor lists (`Predictor.formats`). Instances have no state.

    Attributes:
      dtypes: in which the weights can be stored, the default first.
      form: a sentence about it for a card.
    """

    dtypes: ClassVar[Sequence[str]] = ("float32",)
    form: ClassVar[str]

    @abc.abstractmethod
    def require(self, service: Any) -> None:
        """Raises UserError if the library cannot compute the model of a
        `common_jax.deploy.service.Service` with its options of decoding."""

    @abc.abstractmethod
    def write(self, service: Any, params: Any, folder: Path, dtype: str) -> None:
        """Writes a model; the service has its vocabulary.

        Args:
          folder: a new one.
          dtype: of the weights, one of `dtypes`.

        Raises:
          UserError: if the library is not installed.
        """

    @abc.abstractmethod
    def read(self, folder: Path, vocabulary: Any, settings: Any) -> CompiledFunctions:
        """The programs of a model that `write` wrote.

        Raises:
          UserError: if the library is not installed, or cannot read it.
        """
