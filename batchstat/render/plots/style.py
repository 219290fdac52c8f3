"""Common style of plots; colours are Okabe and Ito's, which differ in lightness too."""

import io
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib.style
import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter

BLUE, ORANGE, VERMILION, SKY = "#0072B2", "#E69F00", "#D55E00", "#56B4E9"
PALE_BLUE, PALE_ORANGE, PALE_VERMILION = "#9CC4DE", "#F5D79B", "#EEBE99"
BAND = "#E8F1F8"  # background of what is recommended
INK, GREY, PALE_GREY = "#222222", "#6E6E6E", "#C8C8C8"

SERIES = (BLUE, VERMILION, "#009E73", "#CC79A7", ORANGE, SKY, INK, GREY)  # lines and dots
WIDTH = 9.0  # width of a plot, in inches
NARROW = 16  # a linear axis shows lengths whose longest is less than this times the shortest

_MOST_ROWS, LARGEST, _SMALLEST = 24, 15, 5
"""The most rows of a chart. Where there are more, it shows the 15 largest and the 5 smallest."""

_FAR_ABOVE = 2  # times the next lower value: above that, a value is drawn at the end of the axis

_STYLE = {
    "font.size": 9,
    # A $ in a name begins no formula.
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": PALE_GREY,
    "axes.labelcolor": GREY,
    "axes.labelsize": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": PALE_GREY,
    "ytick.color": PALE_GREY,
    "xtick.labelcolor": GREY,
    "ytick.labelcolor": GREY,
    "grid.color": "#EBEBEB",
    "legend.frameon": False,
    # Without a salt, ids in an SVG are random, and equal plots are unequal files.
    "svg.hashsalt": "batchstat",
}

# None leaves a key out: dates and versions would make equal plots unequal files.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Creator": None, "Date": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
}

_TITLE_SIZE, _SUBTITLE_SIZE = 12.5, 8.5  # font sizes, in points
_LINE = 1.35 / 72  # height of a line of text, in inches, per point of its font size


@dataclass(frozen=True)
class Picture:
    """A plot that can be drawn."""

    draw: Callable[[Figure], None]  # draws it on an empty figure
    height: float
    width: float = WIDTH

    def figure(self) -> Figure:
        """Return the figure."""
        # From matplotlib's defaults, whatever the user's matplotlibrc says.
        with matplotlib.style.context(_STYLE, after_reset=True):
            figure = Figure(figsize=(self.width, self.height), layout="constrained")
            self.draw(figure)
        return figure

    def _repr_png_(self) -> bytes:
        return self.encoded("png")

    def encoded(self, plot_format: str) -> bytes:
        """Return the bytes of a `png`, `svg` or `pdf`: always the same, without a date."""
        file = io.BytesIO()
        with warnings.catch_warnings(), matplotlib.style.context(_STYLE, after_reset=True):
            # A name that the font lacks is drawn as boxes, with a warning nobody can act on.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            self.figure().savefig(
                file, format=plot_format, dpi=150, metadata=_METADATA[plot_format]
            )
        return file.getvalue()


def titled(figure: Figure, title: str, subtitle: str) -> None:
    """Write the result as `title` at the top left, `subtitle` below it in grey, both wrapped."""
    width, height = figure.get_size_inches()
    top = 0.09  # from the upper edge to the next of the two texts, in inches
    for text, size, weight, colour in (
        (title, _TITLE_SIZE, "bold", INK),
        (subtitle, _SUBTITLE_SIZE, "normal", GREY),
    ):
        # Width of an average character, as a share of the font size.
        character_width = 0.63 if weight == "bold" else 0.56
        # There are 72 points in an inch, and 0.1 inches are left free at either side.
        characters_per_line = int((width - 0.2) * 72 / size / character_width)
        wrapped = textwrap.fill(text, characters_per_line)
        figure.text(
            *(0.1 / width, 1 - top / height, wrapped),
            va="top",
            fontsize=size,
            fontweight=weight,
            color=colour,
        ).set_in_layout(False)
        top += (wrapped.count("\n") + 1) * size * _LINE + 0.04
    # The layout ignores texts: left, bottom, width and height keep the charts below them.
    figure.set_layout_engine("constrained", rect=(0.005, 0, 0.99, 1 - (top + 0.06) / height))


def key(axes: Axes, columns: int = 5, **more: Any) -> None:
    """Put the legend above the chart, at its left end, with `more` arguments of `legend`."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        fontsize=8.5,
        labelcolor=GREY,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.4,
        handletextpad=0.5,
        **more,
    )


def key_below(figure: Figure, handles: list[Artist], columns: int) -> None:
    """Put one legend of these handles below all charts of a figure."""
    figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=columns,
        fontsize=8.5,
        labelcolor=GREY,
        handlelength=1.2,
    )


def row_places(number: int) -> dict[float, int]:
    """Return which of `number` rows, the largest first, a chart shows, by their place on the y
    axis. Up to 24 rows are all shown: {0: 0, 1: 1, …}. Of 100 rows, the 15 largest are at places 0
    to 14, place 15 is left for a note, and the 5 smallest follow: {…, 14: 14, 16: 95, …, 20: 99}.
    """
    if number <= _MOST_ROWS:
        return dict(enumerate(range(number)))
    smallest = range(number - _SMALLEST, number)
    return {**dict(enumerate(range(LARGEST))), **dict(enumerate(smallest, start=LARGEST + 1))}


def row_axis(axes: Axes, names: Mapping[float, str]) -> None:
    """Label the y axis with the names of rows, by their places; place 0 is at the top."""
    axes.set_yticks(list(names), list(names.values()))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_ylim(max(names) + 0.6, -0.6)
    axes.grid(axis="x")


def note(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """Write small grey text at a place of a chart."""
    axes.text(x, y, text, **{"va": "center", "fontsize": 8, "color": GREY, **look})


def beside_row(
    axes: Axes, place: float, text: str, offset: tuple[float, float], end: int = 0, **look: Any
) -> None:
    """Write text beside the row at `place` of the y axis, outside the chart."""
    axes.annotate(
        text,
        (end, place),
        xytext=offset,
        # x from 0 to 1 across the chart, y in its data.
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        annotation_clip=False,
        **look,
    )


def plain(value: float, _: object = None) -> str:
    """Return an axis label in full."""
    return f"{value:,.0f}"


def short(value: float, _: object = None) -> str:
    """Return an axis label with k, M or G, such as 16.38k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:,.2f}".rstrip("0").rstrip(".") + unit
    return f"{value:,.0f}"


def times(value: float, _: object = None) -> str:
    """Return a factor, such as 0.58x, 3.7x or 300x: in two digits below 10, else whole."""
    if 0 < value < 1:
        return f"{value:.2g}x"
    text = f"{value:,.{1 if value < 10 else 0}f}"
    return text.removesuffix(".0") + "x"


def count_axis(axis: Axis, label: Callable[[float, object], str] = plain) -> None:
    """Format an axis of counts: ticks are whole numbers, so labels without decimals are exact."""
    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(label))


def percent_axis(axis: Axis) -> None:
    """Format an axis of ratios."""
    axis.set_major_formatter(PercentFormatter(1))


def on_log_scale(lengths: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the positions of lengths on a log scale. It has no 0: a length of 0 is at 0.5."""
    return np.maximum(np.asarray(lengths, dtype=np.float64), 0.5)


def shares_of_axis(axes: Axes, positions: Iterable[float]) -> list[float]:
    """Return where positions are on the x axis, linear or logarithmic, as shares of its length."""
    # The scale's transform makes a log axis linear, so that shares are of what is seen.
    transformed = axes.xaxis.get_transform().transform(np.array([*axes.get_xlim(), *positions]))
    low, high, *places = transformed.tolist()
    return [(place - low) / (high - low) for place in places]


def end_of_axis(values: Iterable[float], least: float) -> float:
    """Return where an axis should end so that outliers, which are more than `_FAR_ABOVE` times the
    next lower value, do not squeeze all other values: at the largest value below them, or at
    `least`. With a `least` of 1, [1, 1.5, 2, 40] end at 2.
    """
    end = least
    for value in sorted(values):
        if value > _FAR_ABOVE * end:
            break
        end = max(end, value)
    return end


def is_narrow(low: float, high: float) -> bool:
    """Return whether a linear axis shows these lengths well."""
    return high < NARROW * max(low, 1)


def length_axis(axes: Axes, low: float, high: float) -> Callable[[npt.ArrayLike], Any]:
    """Format an x axis of lengths from `low` to `high`: linear if narrow, else logarithmic with
    ticks at powers of two, and 0 at 0.5. Return a function from lengths to their positions on it.
    """
    # A single length would be an axis without width, which matplotlib warns of.
    if low == high:
        low, high = low / 2, max(1.5 * high, 1)
    if is_narrow(low, high):
        axes.set_xlim(low, high)
        axes.xaxis.set_major_locator(MaxNLocator(9, integer=True, min_n_ticks=1))
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        axes.set_xlabel("tokens per sample")
        return np.asarray
    axes.set_xscale("log", base=2)
    axes.set_xlim(*on_log_scale([low, high]))
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=16))
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("tokens per sample (log scale)")
    return on_log_scale
