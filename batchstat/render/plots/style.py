"""Common style of plots. Colours are Okabe and Ito's; colour is never the only cue."""

import io
import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

BLUE, ORANGE, VERMILION, SKY, GREY = "#0072B2", "#E69F00", "#D55E00", "#56B4E9", "#8a8a8a"

WIDTH = 9.0
"""Width of every figure, in inches."""


def png(draw: Callable[[Figure], None], height: float) -> bytes:
    """Return the PNG that `draw` makes of an empty figure, `height` inches high."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    draw(figure)
    file = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes, which the user cannot fix.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(file, format="png", dpi=150, metadata={"Software": None})
    return file.getvalue()


def title(figure: Figure, what: str, whose: str) -> None:
    """Set the title of a figure, and below it the corpus."""
    figure.suptitle(f"{what}\n{whose}", fontsize=11, parse_math=False)


def plain(value: float, _: object = None) -> str:
    """Return an axis label in full."""
    return f"{value:,.0f}"


def short(value: float, _: object = None) -> str:
    """Return an axis label with k, M or G."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:,.2f}".rstrip("0").rstrip(".") + unit
    return f"{value:,.0f}"


def whole_numbers() -> MaxNLocator:
    """Return a locator of ticks at whole numbers, so that labels without decimals are exact."""
    return MaxNLocator(integer=True, min_n_ticks=1)


def count_axis(axis: Axis, label: Callable[[float, object], str] = plain) -> None:
    """Format an axis of counts."""
    axis.set_major_locator(whole_numbers())
    axis.set_major_formatter(FuncFormatter(label))


def on_log_scale(lengths: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return positions of lengths on a log scale, which has no 0: 0 is drawn, and labelled, at a
    half.
    """
    return np.maximum(np.asarray(lengths, dtype=np.float64), 0.5)


def open_frame(axes: Axes) -> None:
    """Remove the frame's top and right lines."""
    axes.spines[["top", "right"]].set_visible(False)


def length_axis(axes: Axes, low: float, high: float, label: str) -> None:
    """Format an x axis of tokens, in powers of two."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(*on_log_scale([low, high]))
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=16))
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"{label} (log scale)")
