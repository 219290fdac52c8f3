"""The plot of `read_ahead`: padding, and how far batches are from random ones."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from batchstat.render.plots import style
from batchstat.render.plots.labels import apart
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import compared
from batchstat.render.plots.tradeoff import HOMOGENEITY
from batchstat.render.text import one_line, percent
from batchstat.simulation.comparison import Comparison
from batchstat.simulation.sweep import Sweep

_TICK_WIDTH = 0.06
"""Space for the label of a tick, as a share of the axis."""


def read_ahead_plots(comparison: Comparison) -> dict[str, Picture]:
    """Return `read_ahead`."""
    return {"read_ahead": Picture(lambda figure: _read_ahead(figure, comparison), 4.9)}


def _title(sweep: Sweep) -> str:
    chosen, best, name = sweep.recommended, sweep.best, one_line(sweep.spec, 40)
    if chosen is sweep.points[-1]:
        together = f"all {chosen.read_ahead:,} samples sorted together"
        return f"{name} pads least, {percent(chosen.padding_ratio)}, with {together}"
    words = f"read_ahead {chosen.read_ahead:,} is enough: {name} pads "
    words += percent(chosen.padding_ratio)
    if chosen.padding_ratio > best.padding_ratio:
        words += f", at best {percent(best.padding_ratio)}"
    return words


def _read_ahead(figure: Figure, comparison: Comparison) -> None:
    sweep = comparison.sweep
    chosen = sweep.recommended
    style.titled(figure, _title(sweep), compared(comparison))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    sizes = [point.read_ahead for point in sweep.points]
    ratios = [point.padding_ratio for point in sweep.points]
    above.plot(sizes, ratios, "o-", color=style.ORANGE, markersize=5, clip_on=False)
    above.set_ylim(0, max(*ratios, 0.01) * 1.12)
    above.set_title("padding", color=style.GREY)
    similar = [point.grouping.length_homogeneity for point in sweep.points]
    known = [(size, each) for size, each in zip(sizes, similar, strict=True) if each is not None]
    below.plot([x for x, _ in known], [y for _, y in known], "o-", color=style.BLUE, markersize=5)
    below.set_ylim(min([0.0, *(each for _, each in known)]), 1.05)
    below.set_title(
        HOMOGENEITY,
        color=style.GREY,
    )
    style.percent_axis(above.yaxis)
    for axes in (above, below):
        axes.axvline(chosen.read_ahead, color=style.INK, linewidth=0.9, zorder=0)
        axes.grid(axis="y")
    above.plot(
        chosen.read_ahead, chosen.padding_ratio, "D", color=style.INK, markersize=7, clip_on=False
    )
    above.annotate(
        f"recommended: {chosen.read_ahead:,}",
        (chosen.read_ahead, above.get_ylim()[1]),
        xytext=(-5, 0) if chosen.read_ahead > sizes[len(sizes) // 2] else (5, 0),
        textcoords="offset points",
        ha="right" if chosen.read_ahead > sizes[len(sizes) // 2] else "left",
        va="top",
        fontweight="bold",
    )
    _size_axis(below, sizes)
    below.set_xlabel("read_ahead: samples that are sorted together (log scale)")


def _size_axis(axes: Axes, sizes: list[int]) -> None:
    """Label the last value, and of the others those with room."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    span = [axes.transScale.transform((size, 1))[0] for size in (low, high)]
    places = [
        (axes.transScale.transform((size, 1))[0] - span[0]) / (span[1] - span[0])
        for size in reversed(sizes)
    ]
    kept = apart(places, [_TICK_WIDTH] * len(sizes))
    ticks = [size for size, keep in zip(reversed(sizes), kept, strict=True) if keep]
    axes.xaxis.set_major_locator(FixedLocator(sorted(ticks)))
    axes.xaxis.set_major_formatter(FuncFormatter(_size))
    axes.xaxis.set_minor_locator(NullLocator())


def _size(value: float, _: object = None) -> str:
    """Return a tick's label: short if that is exact."""
    is_round = len(f"{value:.0f}".rstrip("0")) < 3
    return style.short(value) if is_round else style.plain(value)
