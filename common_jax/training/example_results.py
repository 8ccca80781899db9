"""Results of each example of a scored split: the table eval/<split>.examples.tsv."""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Shaped

from common_jax.errors import UserError
from common_jax.io.files import read_lines
from common_jax.io.paths import AnyPath

INDEX = "index"
LENGTH = "length"

Results = dict[str, Float[np.ndarray, "n"]]  # by column


def to_tsv(results: Mapping[str, Shaped[np.ndarray, "n"]]) -> str:
    """The table: a header, then a row for each example, which begins with its index.

    Args:
      results: numbers by column, among them `LENGTH`; see `common_jax.training.task.Scores`.
    """
    other_columns = [name for name in results if name != LENGTH]
    lines = ["\t".join((INDEX, LENGTH, *other_columns))]
    columns = (np.asarray(results[name], float).tolist() for name in (LENGTH, *other_columns))
    for index, row in enumerate(zip(*columns, strict=True)):
        lines.append("\t".join((str(index), *(f"{value:.9g}" for value in row))))
    return "\n".join(lines) + "\n"


def read_tsv(path: AnyPath) -> Results:
    """Reads the table of `to_tsv`: `LENGTH` and the results.

    Raises:
      UserError: if it cannot be read, or a line has a wrong index or number of columns.
    """
    # the names of the columns
    lines = read_lines(path)
    head = next(lines, "").split("\t")
    if head[:2] != [INDEX, LENGTH] or len(head) < 3 or len({*head}) < len(head):
        raise UserError(f"{path}:1: needs the columns {INDEX}, {LENGTH} and results")

    # a line for each example, in the order of the index
    rows = []
    for index, line in enumerate(lines):
        try:
            row = [float(field) for field in line.split("\t")]
        except ValueError:
            row = []
        if len(row) != len(head) or row[0] != index or not all(map(math.isfinite, row)):
            raise UserError(f"{path}:{index + 2}: needs {index} and {len(head) - 1} numbers")
        rows.append(row)
    if not rows:
        raise UserError(f"{path}: no examples")

    # an array for each result
    columns = np.array(rows).T
    return dict(zip(head[1:], columns[1:], strict=True))
