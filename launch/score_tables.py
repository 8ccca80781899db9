"""The notes of a classifier's scores as text: a table of its labels, and one of lengths."""

from collections.abc import Mapping
from typing import Any

from launch.text_table import Row, table


def score_tables(notes: Mapping[str, Any]) -> str:
    """Tables of the notes "confusion" and "by_length" (`attconv_jax.score`), in percent; "" if
    there are none."""
    tables = []
    if confusion := notes.get("confusion"):
        tables.append(table(_labels(confusion)))
    if lengths := notes.get("by_length"):
        rows = [
            {"words": f"{low} to {high}", "accuracy": float(rate)} for low, high, rate in lengths
        ]
        tables.append(table(rows))
    return "\n\n".join(tables)


def _labels(confusion: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """A row for each label: precision, recall and F1, None without examples or predictions; and the
    numbers of examples and of predictions.

    Args:
      confusion: counts by gold label, then by predicted label.
    """

    def percent(count: float, total: float) -> float | None:
        return 100 * count / total if total else None

    rows = []
    for label, predictions in confusion.items():
        right = predictions[label]
        gold = sum(predictions.values())
        predicted = sum(row[label] for row in confusion.values())
        rows.append(
            {
                "label": label,
                "precision": percent(right, predicted),
                "recall": percent(right, gold),
                "F1": percent(2 * right, gold + predicted),
                "examples": gold,
                "predicted": predicted,
            }
        )
    return rows
