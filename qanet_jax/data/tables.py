"""Tables with a question in each row, as a source of examples; SQuAD's own files are none."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common_jax.bad_examples import BadExamples
from common_jax.data.questions import QuestionTable, QuestionTables, read_tables
from qanet_jax.data.sources import Content

if TYPE_CHECKING:
    from qanet_jax.config import DataConfig


@dataclasses.dataclass(frozen=True)
class Tables(QuestionTables):
    """The shards of a table, with a question in each row.

    Attributes:
      unnamed: as of `read_tables`.
    """

    unnamed: str = ""

    def read(self, bad_examples: BadExamples) -> Content:
        return Content(read_tables(self.shards, bad_examples, self.unnamed))


def tables_of(config: "DataConfig", paths: Sequence[Path], unnamed: str) -> Tables:
    """The shards of a table; `unnamed` as of `read_tables`."""
    columns = config.columns_by_field
    shards = (QuestionTable(path, columns=columns, quotes=config.quotes) for path in paths)
    return Tables(tuple(shards), unnamed)
