"""Colours, sizes and fonts of all charts, and texts as matplotlib takes them."""

from typing import Any

# Okabe and Ito's palette for colour-blind readers; markers and dashes distinguish lines as well
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vP*X"
DASHES = ("-", "--", "-.", ":")
GREY = "#808080"
SIZE = (4.6, 3.2)  # inches, for text at least 10 pixels high on a phone
ROW = 0.17  # of a legend or a caption, inches
_LONGEST = 56  # letters of a name
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "svg.fonttype": "none",  # text instead of paths: small, sharp, searchable
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial"],
    "figure.dpi": 160,
}


def shown(text: str) -> str:
    """Shortens a name and escapes it for matplotlib: no mathtext, and no leading underscore, with
    which the legend would omit it."""
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
    return escaped(f" {short}" if short.startswith("_") else short)


def escaped(text: str) -> str:
    """Escapes a text for matplotlib: no mathtext."""
    return text.replace("$", r"\$")
