"""Renders charts with matplotlib, as SVG and PNG."""

import contextlib
import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from common_jax.document import Chart, Forest, Heatmap
from common_jax.io.paths import AnyPath
from launch.pages.chart_style import ROW, SIZE, STYLE, escaped
from launch.pages.curves import draw_chart
from launch.pages.forest import forest
from launch.pages.heatmap import heatmap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BELOW = 0.45  # of an axis with its label, for which `SIZE` has room, inches
_LETTERS = 74  # of a caption, in the width of a chart

Drawing = Sequence[Chart] | Heatmap | Forest


def draw(charts: Drawing, caption: str = "") -> "Figure":
    """The charts side by side above a caption, a heatmap or a forest plot, without their notes.

    Raises:
      ValueError: for no charts, or one without a point.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if isinstance(charts, Heatmap | Forest):
        with matplotlib.rc_context(STYLE):
            return heatmap(charts) if isinstance(charts, Heatmap) else forest(charts)
    if not charts or not all(chart.series and all(s.x for s in chart.series) for chart in charts):
        raise ValueError("nothing to draw")
    lines = textwrap.wrap(caption, round(_LETTERS * len(charts)))
    rows = max(sum(bool(s.name) for s in chart.series) for chart in charts) + len(lines)
    with matplotlib.rc_context(STYLE):
        size = (SIZE[0] * len(charts), SIZE[1] + ROW * rows)
        figure = Figure(size, layout="constrained")
        share_y = len({chart.y_label for chart in charts}) == 1
        panels = figure.subplots(1, len(charts), squeeze=False, sharey=share_y)[0]
        below = [draw_chart(axes, chart) for axes, chart in zip(panels, charts, strict=True)]
        figure.set_figheight(size[1] + max(0.0, max(below) - _BELOW))
        if lines:
            figure.supxlabel(escaped("\n".join(lines)), x=0.01, ha="left", fontsize=8)
        return figure


def svg(
    charts: Sequence[Chart] | Heatmap | Forest,
    name: str,
    caption: str = "",
    *,
    inherits: bool = False,
) -> str:
    """The charts as a self-contained `<svg>` element of its container's width; deterministic.

    Its text is text, its background transparent, and black is white where a dark page is preferred.

    Args:
      name: makes the ids inside the element unique in a page.
      inherits: whether black is instead the colour of the text around the element.
    """
    import matplotlib

    text = io.StringIO()
    figure = draw(charts, caption)
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}), _ignore_missing_glyphs():
        metadata: Any = {"Date": None, "Creator": None}
        figure.savefig(text, format="svg", metadata=metadata, transparent=True)
    element = text.getvalue()[text.getvalue().index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>\s*", "", element, flags=re.DOTALL)
    element = element.replace("stroke: #000000", "stroke: currentColor")
    element = re.sub(r' d="[^"]*"', _shortened, element)

    # ids that are the same in all pictures, such as "axes_1", are not referenced
    opening = _INHERITING if inherits else _OPENING
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, element, count=1)


def _shortened(path: re.Match[str]) -> str:
    """A path in hundredths of a point."""
    return re.sub(r"(\.\d\d)\d+", r"\1", path[0]).replace("\n", "")


def save(charts: Sequence[Chart], stem: AnyPath, caption: str = "") -> None:
    """Writes STEM.png and STEM.svg."""
    with _ignore_missing_glyphs():
        image = io.BytesIO()
        draw(charts, caption).savefig(image, format="png")
        stem.with_suffix(".png").write_bytes(image.getvalue())
    stem.with_suffix(".svg").write_text(svg(charts, stem.name, caption), encoding="utf-8")


@contextlib.contextmanager
def _ignore_missing_glyphs() -> Iterator[None]:
    """Suppresses matplotlib's warnings about characters that the font lacks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


_INHERITING = (
    r'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    r'viewBox="\1" style="fill: currentColor">'
)
_OPENING = (
    r'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    r'viewBox="\1"><style>svg { color: #1a1a1a; fill: currentColor } '
    r"@media (prefers-color-scheme: dark) { svg { color: #e6e6e6 } }</style>"
)
