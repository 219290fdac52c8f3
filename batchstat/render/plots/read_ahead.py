"""The plot of `read_ahead`: padding, and how far batches are from random ones."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from batchstat.documents.grouping import Sweep
from batchstat.render.plots import style
from batchstat.render.plots.labels import apart
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import compared
from batchstat.render.plots.tradeoff import HOMOGENEITY
from batchstat.render.text import one_line, percent
from batchstat.simulation.compare.comparison import Comparison

_TICK_WIDTH = 0.06
"""Space for the label of a tick, as a share of the axis."""


def read_ahead_plots(comparison: Comparison) -> dict[str, Picture]:
    """Return `read_ahead`; nothing where none leaves a batch."""
    if (sweep := comparison.sweep) is None:
        return {}
    return {"read_ahead": Picture(lambda figure: _read_ahead(figure, comparison, sweep), 4.9)}


def _title(sweep: Sweep) -> str:
    chosen, best, name = sweep.recommended, sweep.best, one_line(sweep.spec, 40)
    if len({point.padding_ratio for point in sweep.points}) == 1:
        return f"{name} pads {percent(best.padding_ratio)} with any read_ahead"
    if chosen is sweep.points[-1]:
        together = f"all {chosen.read_ahead:,} samples sorted together"
        return f"{name} pads least, {percent(chosen.padding_ratio)}, with {together}"
    words = f"read_ahead {chosen.read_ahead:,} is enough: {name} pads "
    words += percent(chosen.padding_ratio)
    if chosen.padding_ratio > best.padding_ratio:
        words += f", at best {percent(best.padding_ratio)}"
    return words


def _read_ahead(figure: Figure, comparison: Comparison, sweep: Sweep) -> None:
    style.titled(figure, _title(sweep), compared(comparison))
    sizes = [point.read_ahead for point in sweep.points]
    similar = [
        (point.read_ahead, point.grouping.length_homogeneity)
        for point in sweep.points
        if point.grouping.length_homogeneity is not None
    ]
    ratios = [point.padding_ratio for point in sweep.points]
    panels = [("padding", style.ORANGE, sizes, ratios)]
    if similar:
        known, homogeneity = map(list, zip(*similar, strict=True))
        panels.append((HOMOGENEITY, style.BLUE, known, homogeneity))
    every = figure.subplots(
        len(panels), 1, sharex=True, squeeze=False, height_ratios=(3, 2)[: len(panels)]
    )[:, 0]
    for axes, (title, colour, across, values) in zip(every, panels, strict=True):
        axes.plot(across, values, "o-", color=colour, markersize=5, clip_on=False, zorder=3)
        axes.axvline(sweep.recommended.read_ahead, color=style.INK, linewidth=0.9, zorder=0)
        axes.set_title(title, color=style.GREY)
        axes.grid(axis="y")
    every[0].set_ylim(0, max(*ratios, 0.01) * 1.12)
    style.percent_axis(every[0].yaxis)
    if similar:
        every[1].set_ylim(min(0.0, *(each for _, each in similar)), 1.05)
    _size_axis(every[-1], sizes)
    every[-1].set_xlabel("read_ahead: samples that are sorted together (log scale)")
    _mark(every[0], sweep)


def _mark(axes: Axes, sweep: Sweep) -> None:
    """Mark the recommended value, with its label on the side that has room."""
    chosen = sweep.recommended
    axes.plot(
        *(chosen.read_ahead, chosen.padding_ratio),
        "D",
        color=style.INK,
        markersize=7,
        clip_on=False,
        zorder=4,
    )
    is_right = chosen.read_ahead > sweep.points[len(sweep.points) // 2].read_ahead
    axes.annotate(
        f"recommended: {chosen.read_ahead:,}",
        (chosen.read_ahead, axes.get_ylim()[1]),
        xytext=(-5 if is_right else 5, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="top",
        fontweight="bold",
    )


def _size_axis(axes: Axes, sizes: list[int]) -> None:
    """Label the last value, and of the others those with room."""
    if len(sizes) == 1:  # else matplotlib warns that it has to widen the axis itself
        axes.set_xlim(sizes[0] / 2, sizes[0] * 2)
    axes.set_xscale("log")
    from_last = sizes[::-1]
    has_room = apart(style.shares_of_axis(axes, from_last), _TICK_WIDTH)
    ticks = [size for size, is_kept in zip(from_last, has_room, strict=True) if is_kept]
    axes.xaxis.set_major_locator(FixedLocator(sorted(ticks)))
    axes.xaxis.set_major_formatter(FuncFormatter(_size))
    axes.xaxis.set_minor_locator(NullLocator())


def _size(value: float, _: object = None) -> str:
    """Return a tick's label: short if that is exact."""
    is_round = len(f"{value:.0f}".rstrip("0")) < 3
    return style.short(value) if is_round else style.plain(value)
