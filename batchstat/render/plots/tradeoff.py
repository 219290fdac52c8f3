"""What a strategy saves against how far its batches are from random ones: of all strategies, and of
one by its `read_ahead`.
"""

import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from batchstat.documents.grouping import Sweep
from batchstat.render.plots import style
from batchstat.render.plots.labels import apart, label_dots
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import compared, estimated, marked, marks, measure
from batchstat.render.text import one_line, percent
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult

HOMOGENEITY = "length homogeneity: 0 if batches are random, 1 if every batch holds one length"

_ABOUT_AS_RANDOM = 0.2


def _title(comparison: Comparison) -> str:
    current, best = comparison.current, comparison.best
    names = one_line(current.label, 36), one_line(best.label, 36)
    if comparison.changes.best is None:
        return f"No strategy fits {comparison.basis.tokens_per_batch:,} tokens per batch"
    if best is current:
        return f"No strategy here is much faster than {names[0]}{estimated(comparison)}"
    factor = f"{comparison.speed_up(best):.2f}x faster"
    words = f"{names[1]} is {factor} than {names[0]}{estimated(comparison)}"
    apart = _homogeneity(best) - _homogeneity(current)
    if apart <= _ABOUT_AS_RANDOM:
        return f"{words}, with batches about as random"
    return f"{words}, in batches of similar lengths"


def _homogeneity(row: StrategyResult) -> float:
    """Return the length homogeneity; of a single batch, 0."""
    return row.counts.grouping.length_homogeneity or 0.0


def draw_tradeoff(figure: Figure, comparison: Comparison) -> None:
    """Draw a dot for each strategy: its compute, against how alike its batches' lengths are."""
    style.titled(figure, _title(comparison), compared(comparison))
    axes = figure.subplots()
    current, best = comparison.current, comparison.best
    # Labels of the first dots choose their places first.
    rows = sorted(comparison.strategies, key=lambda row: (row is not best, row is not current))
    relative = [1 / comparison.speed_up(row) for row in rows]
    low = min(relative)
    top = style.end_of_axis(relative, max(1.0, low))
    space = max(top - low, 0.2)
    shown = [min(each, top + 0.1 * space) for each in relative]
    texts = []
    for row, compute, y in zip(rows, relative, shown, strict=True):
        is_best, is_marked = row is comparison.changes.best, bool(marks(comparison, row))
        axes.plot(
            *(_homogeneity(row), y),
            "^" if compute > top else "s" if row.packs_rows else "o",
            markersize=9 if is_marked else 7,
            color=style.BLUE if is_best else style.ORANGE if is_marked else style.GREY,
            clip_on=False,
            zorder=4 if is_marked else 3,
            # Legends leave out labels that begin with an underscore.
            label=f"_{row.label}",
        )
        name = marked(comparison, row, 36)
        texts.append(f"{name}: {style.times(compute)}" if compute > top else name)
    axes.axhline(1, color=style.PALE_GREY, linewidth=0.8, zorder=0)
    axes.set_ylim(max(0, low - 0.2 * space), top + 0.16 * space)
    across = [_homogeneity(row) for row in rows]
    axes.set_xlim(min(-0.05, min(across) - 0.05), 1.05)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}x"))
    axes.grid(axis="y")
    axes.set_ylabel(f"{measure(comparison)}, relative to {one_line(comparison.current.label, 30)}")
    axes.set_xlabel(HOMOGENEITY)
    if any(row.packs_rows for row in rows):
        look: dict[str, Any] = {"linestyle": "none", "color": style.GREY}
        axes.plot([], [], marker="o", label="one sample per row", **look)
        axes.plot([], [], marker="s", label="several: needs varlen attention", **look)
        style.key(axes)
    label_dots(figure, axes, *_named_together(list(zip(across, shown, strict=True)), texts, space))


def _named_together(
    dots: list[tuple[float, float]], texts: list[str], space: float
) -> tuple[list[tuple[float, float]], list[str]]:
    """Return the dots that can be told apart, and the names of all that stand there."""
    names_at: dict[tuple[float, float], list[str]] = {}
    for (x, y), text in zip(dots, texts, strict=True):
        near = (at for at in names_at if abs(at[0] - x) < 0.012 and abs(at[1] - y) < 0.03 * space)
        names_at.setdefault(next(near, (x, y)), []).append(text)
    return list(names_at), [
        textwrap.fill(", ".join(names), 44, break_on_hyphens=False) for names in names_at.values()
    ]


_TICK_WIDTH = 0.06
"""Space for the label of a tick, as a share of the axis."""


def read_ahead_plots(comparison: Comparison) -> dict[str, Picture]:
    """Return `read_ahead`; nothing where none leaves a batch."""
    if (sweep := comparison.sweep) is None:
        return {}
    return {"read_ahead": Picture(lambda figure: _read_ahead(figure, comparison, sweep), 4.9)}


def _sweep_title(sweep: Sweep) -> str:
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
    style.titled(figure, _sweep_title(sweep), compared(comparison))
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
