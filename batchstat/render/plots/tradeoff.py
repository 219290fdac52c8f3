"""Two plots of what padding costs in randomness: one of all strategies, one of `read_ahead`."""

import textwrap
from itertools import compress
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from batchstat.documents.grouping import Sweep
from batchstat.render.plots import style, subtitles
from batchstat.render.plots.labels import label_dots, which_have_room
from batchstat.render.plots.style import Picture
from batchstat.render.text import one_line, percent
from batchstat.simulation.compare.comparison import Comparison

HOMOGENEITY = "length homogeneity: 0 if batches are random, 1 if every batch holds one length"

_ABOUT_AS_RANDOM = 0.2  # length homogeneity: a title warns of no rise up to this


def _title(comparison: Comparison) -> str:
    """Return how much faster the best strategy is, and whether its batches are as random."""
    if comparison.changes.best is None:
        return f"No strategy fits {comparison.basis.tokens_per_batch:,} tokens per batch"
    current, best = comparison.current, comparison.best
    current_name, best_name = one_line(current.label, 36), one_line(best.label, 36)
    note = subtitles.estimate_note(comparison)
    if best is current:
        return f"No strategy here is much faster than {current_name}{note}"
    speed_up = f"{comparison.speed_up(best):.2f}x"
    words = f"{best_name} is {speed_up} faster than {current_name}{note}"
    if best.sortedness - current.sortedness <= _ABOUT_AS_RANDOM:
        what = "steps" if best.name == "regrouped" else "batches"
        return f"{words}, with {what} about as random"
    return f"{words}, in batches of similar lengths"


def draw_tradeoff(figure: Figure, comparison: Comparison) -> None:
    """Draw a dot per strategy, relative compute by length homogeneity; far more is a triangle."""
    style.titled(figure, _title(comparison), subtitles.of_comparison(comparison))
    axes = figure.subplots()
    current, best = comparison.current, comparison.best
    # The labels of the best and of the current row come first, so they choose their places first.
    rows = sorted(comparison.strategies, key=lambda row: (row is not best, row is not current))
    relative_compute = [1 / comparison.speed_up(row) for row in rows]
    lowest = min(relative_compute)
    # The largest below outliers, which are drawn as triangles.
    highest = style.end_of_axis(relative_compute, least=max(1.0, lowest))
    space = max(highest - lowest, 0.2)  # the height that dots need; more where all are alike
    # Triangles stand a little above all other dots, however much compute they stand for.
    ys = [min(compute, highest + 0.1 * space) for compute in relative_compute]
    labels = []
    for row, compute, y in zip(rows, relative_compute, ys, strict=True):
        # The best row and the current one are marked. If nothing fits the budget, none is the best.
        is_best, is_marked = row is comparison.changes.best, bool(subtitles.marks(comparison, row))
        shape = "s" if row.packs_rows else "o"
        colour = style.ORANGE if is_marked else style.GREY
        axes.plot(
            *(row.sortedness, y),  # x and y
            "^" if compute > highest else shape,
            markersize=9 if is_marked else 7,
            color=style.BLUE if is_best else colour,
            clip_on=False,
            zorder=4 if is_marked else 3,
            # Legends leave out labels that begin with an underscore.
            label=f"_{row.label}",
        )
        name = subtitles.name_with_marks(comparison, row, 36)
        labels.append(f"{name}: {style.times(compute)}" if compute > highest else name)
    axes.axhline(1, color=style.PALE_GREY, linewidth=0.8, zorder=0)  # the current setup
    axes.set_ylim(max(0, lowest - 0.2 * space), highest + 0.16 * space)
    homogeneities = [row.sortedness for row in rows]
    axes.set_xlim(min(-0.05, min(homogeneities) - 0.05), 1.05)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}x"))
    axes.grid(axis="y")
    quantity = subtitles.compared_quantity(comparison)  # time or compute
    axes.set_ylabel(f"{quantity}, relative to {one_line(current.label, 30)}")
    axes.set_xlabel(HOMOGENEITY)
    if any(row.packs_rows for row in rows):
        look: dict[str, Any] = {"linestyle": "none", "color": style.GREY}
        axes.plot([], [], marker="o", label="one sample per row", **look)
        axes.plot([], [], marker="s", label="several: needs varlen attention", **look)
        style.key(axes)
    dots = list(zip(homogeneities, ys, strict=True))
    label_dots(figure, axes, *_merged_dots(dots, labels, space))


def _merged_dots(
    dots: list[tuple[float, float]], texts: list[str], space: float
) -> tuple[list[tuple[float, float]], list[str]]:
    """Merge dots that are too close to be told apart under one label."""
    # Dots that are closer than both distances are merged: 1 % and 3 % of the axes.
    across, up = 0.012, 0.03 * space
    # By the position of a dot that stays: the labels of the dots that are near it.
    names_at: dict[tuple[float, float], list[str]] = {}
    for dot, text in zip(dots, texts, strict=True):
        near = [(x, y) for x, y in names_at if abs(x - dot[0]) < across and abs(y - dot[1]) < up]
        names_at.setdefault(near[0] if near else dot, []).append(text)
    return list(names_at), [
        textwrap.fill(", ".join(names), 44, break_on_hyphens=False) for names in names_at.values()
    ]


_TICK_WIDTH = 0.06  # space for the label of a tick, as a share of the axis


def read_ahead_plots(comparison: Comparison) -> dict[str, Picture]:
    """Return the plot `read_ahead` of padding; none if no value leaves a batch."""
    if (sweep := comparison.sweep) is None:
        return {}
    return {"read_ahead": Picture(lambda figure: _read_ahead(figure, comparison, sweep), 4.9)}


def _sweep_title(sweep: Sweep) -> str:
    """Return the recommended `read_ahead` and its padding, with the least of any."""
    # `recommended` is enough; `best` pads least, which may need a much larger `read_ahead`.
    chosen, best, name = sweep.recommended, sweep.best, one_line(sweep.spec, 40)
    if len({point.padding_ratio for point in sweep.points}) == 1:
        return f"{name} pads {percent(best.padding_ratio)} with any read_ahead"
    # The last point sorts all samples of the epoch together.
    if chosen is sweep.points[-1]:
        together = f"all {chosen.read_ahead:,} samples sorted together"
        return f"{name} pads least, {percent(chosen.padding_ratio)}, with {together}"
    words = f"read_ahead {chosen.read_ahead:,} is enough: {name} pads "
    words += percent(chosen.padding_ratio)
    if chosen.padding_ratio > best.padding_ratio:
        words += f", at best {percent(best.padding_ratio)}"
    return words


def _read_ahead(figure: Figure, comparison: Comparison, sweep: Sweep) -> None:
    """Draw padding by `read_ahead`, and below it the length homogeneity if known."""
    style.titled(figure, _sweep_title(sweep), subtitles.of_comparison(comparison))
    read_aheads = [point.read_ahead for point in sweep.points]
    padding = [point.padding_ratio for point in sweep.points]
    homogeneity = {  # by read_ahead
        point.read_ahead: point.grouping.length_homogeneity
        for point in sweep.points
        # A single batch has no length homogeneity.
        if point.grouping.length_homogeneity is not None
    }
    panels = [("padding", style.ORANGE, read_aheads, padding)]
    if homogeneity:
        panels.append((HOMOGENEITY, style.BLUE, list(homogeneity), list(homogeneity.values())))
    all_axes = figure.subplots(
        len(panels), 1, sharex=True, squeeze=False, height_ratios=(3, 2)[: len(panels)]
    )[:, 0]
    for axes, (title, colour, xs, ys) in zip(all_axes, panels, strict=True):
        axes.plot(xs, ys, "o-", color=colour, markersize=5, clip_on=False, zorder=3)
        axes.axvline(sweep.recommended.read_ahead, color=style.INK, linewidth=0.9, zorder=0)
        axes.set_title(title, color=style.GREY)
        axes.grid(axis="y")
    # An axis needs a height where nothing is padded, too.
    all_axes[0].set_ylim(0, max(*padding, 0.01) * 1.12)
    style.percent_axis(all_axes[0].yaxis)
    if homogeneity:  # below 0 where lengths in a batch differ more than in a random one
        all_axes[1].set_ylim(min(0.0, *homogeneity.values()), 1.05)
    axes = all_axes[-1]
    # A single value would be an axis without width, which matplotlib warns of.
    if len(read_aheads) == 1:
        axes.set_xlim(read_aheads[0] / 2, read_aheads[0] * 2)
    axes.set_xscale("log")
    # `which_have_room` keeps a value that comes before the others, so the largest comes first.
    largest_first = read_aheads[::-1]
    has_room = which_have_room(style.shares_of_axis(axes, largest_first), _TICK_WIDTH)
    axes.xaxis.set_major_locator(FixedLocator(sorted(compress(largest_first, has_room))))
    axes.xaxis.set_major_formatter(FuncFormatter(_size))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("read_ahead: samples that are sorted together (log scale)")
    _mark(all_axes[0], sweep)


def _mark(axes: Axes, sweep: Sweep) -> None:
    """Mark the recommended `read_ahead`, with a label on the side that has room."""
    x, y = sweep.recommended.read_ahead, sweep.recommended.padding_ratio
    axes.plot(x, y, "D", color=style.INK, markersize=7, clip_on=False, zorder=4)
    # In the right half of the tried values, there is more room on the left.
    is_right = x > sweep.points[len(sweep.points) // 2].read_ahead
    axes.annotate(
        f"recommended: {x:,}",
        (x, axes.get_ylim()[1]),
        xytext=(-5 if is_right else 5, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="top",
        fontweight="bold",
    )


def _size(value: float, _: object = None) -> str:
    is_round = len(f"{value:.0f}".rstrip("0")) < 3
    return style.short(value) if is_round else style.plain(value)
