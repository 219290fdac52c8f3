"""The picture of padding itself: the first batches of a few strategies, drawn to scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from batchstat.lengths.exact import sums
from batchstat.planning.plan import BatchPlan
from batchstat.render.plots import style
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import compared, marked
from batchstat.render.text import one_line, percent
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult

_MOST_PANELS = 4
_USUAL_BATCHES = 30
"""Batches of the current setup that are drawn, where they are small."""
_FEWEST_ROWS, _MOST_ROWS = 120, 480
_GAP = 0.006
"""Space between batches, as a share of the width."""
_DISTINCT = 360
"""With more rows than this, the lines between samples would cover them."""


@dataclass(frozen=True)
class Panel:
    """The batches of one strategy.

    Attributes:
        title: what is written above them.
        plan: the batches.
    """

    title: str
    plan: BatchPlan


def batches_picture(comparison: Comparison) -> Picture:
    """Return the first batches of the current setup and of the rows to compare it to."""
    panels = [
        Panel(
            f"{marked(comparison, row, 60)}: {percent(row.counts.padding_ratio)} padding",
            row.first_batches,
        )
        for row in _drawn(comparison)
        if row.first_batches is not None
    ]
    title, height = _result(comparison), 1.15 + 1.35 * len(panels)
    return Picture(lambda figure: draw_batches(figure, panels, title, compared(comparison)), height)


def _result(comparison: Comparison) -> str:
    current, best = comparison.current, comparison.best
    if current.counts.padding_tokens == 0:
        return f"The batches of {one_line(current.label, 40)} have no padding"
    padding = percent(current.counts.padding_ratio)
    words = f"Orange is padding: {padding} of {one_line(current.label, 40)}"
    if best is current:
        return words
    return f"{words}, {percent(best.counts.padding_ratio)} of {one_line(best.label, 40)}"


def _drawn(comparison: Comparison) -> list[StrategyResult]:
    """Return the rows to draw: the current setup, the recommended ones, one that packs; if these
    are the same, also others.
    """
    changes = comparison.changes
    advised = [each.row for each in (changes.fastest, changes.packed) if each is not None]
    packing = [row for row in comparison.strategies if row.packs_rows]
    others = [row for row in comparison.strategies if row.name != "fixed" and not row.packs_rows]
    wanted = (comparison.current, comparison.best, *advised, *packing[:1], *others)
    rows: list[StrategyResult] = []
    for row in wanted:
        if row not in rows and _fits(row, comparison.current):
            rows.append(row)
    return sorted(rows[:_MOST_PANELS], key=lambda row: row is not rows[0] and row.packs_rows)


def _fits(row: StrategyResult, current: StrategyResult) -> bool:
    """Return whether a row's batches can be drawn on the scale of the current setup's: a row of
    padding-free holds a whole batch.
    """
    if row.first_batches is None or current.first_batches is None:
        return False
    limit = current.request.settings.max_length
    return row is current or int(row.first_batches.widths.max(initial=0)) <= limit


def draw_batches(figure: Figure, panels: Sequence[Panel], title: str, subtitle: str) -> None:
    """Draw the batches of strategies below each other on the same scale."""
    style.titled(figure, title, subtitle)
    every = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    rows = _extent([panel.plan for panel in panels])
    top = 1
    for axes, panel in zip(every, panels, strict=True):
        top = max(top, _draw(axes, panel.plan, rows))
        axes.set_title(panel.title, pad=4)
        axes.set_xlim(0, rows)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.set_ylabel("tokens per row")
    every[0].set_ylim(0, top)
    every[0].yaxis.set_major_locator(MaxNLocator(4, integer=True))
    every[0].yaxis.set_major_formatter(FuncFormatter(style.plain))
    handles: list[Artist] = [
        Patch(color=style.BLUE, label="real tokens"),
        Patch(color=style.ORANGE, label="padding"),
        Patch(color="none", label=_EXPLANATION),
    ]
    style.key_below(figure, handles, columns=3)


_EXPLANATION = "Each block is a batch, each column one of its rows, padded to the longest."


def _extent(plans: Sequence[BatchPlan]) -> int:
    """Return how many rows fit side by side: some batches of every strategy."""
    sizes = [max(1, len(plan.row_offsets) - 1) / max(1, len(plan)) for plan in plans]
    usual = np.clip(_USUAL_BATCHES * sizes[0], _FEWEST_ROWS, _MOST_ROWS)
    several = max(3 * size for size in sizes)
    available = max(len(plan.row_offsets) - 1 for plan in plans)
    return int(max(1, min(max(usual, several, 6 * sizes[0]), available)))


def _draw(axes: Axes, plan: BatchPlan, extent: int) -> int:
    """Draw a plan's batches up to `extent` rows; return the width of the widest."""
    real = sums(plan.lengths, plan.row_offsets)
    edges, tokens, whole, widest, x = [0.0], [0], [0], 1, 0.0
    for i, width in enumerate(plan.widths.tolist()):
        first, last = int(plan.batch_offsets[i]), int(plan.batch_offsets[i + 1])
        if x >= extent:
            break
        widest = max(widest, width)
        edges += [x, *(x + np.arange(1, last - first + 1)).tolist()]
        tokens += [*real[first:last].tolist(), 0]
        whole += [*[width] * (last - first), 0]
        x = edges[-1] + _GAP * extent
        if extent <= _DISTINCT:
            _separate(axes, plan, range(first, last), edges[-1] - (last - first))
    edges.append(x)
    for values, colour in ((whole, style.ORANGE), (tokens, style.BLUE)):
        axes.stairs(values, edges, fill=True, color=colour, linewidth=0)
    return widest


_MOST_LINES = 40
"""Lines between the samples of a row: more would hide the samples."""


def _separate(axes: Axes, plan: BatchPlan, rows: range, x: float) -> None:
    """Draw thin lines between the rows of a batch, and between the samples of a row."""
    width = int(plan.widths[np.searchsorted(plan.batch_offsets, rows.start, side="right") - 1])
    if len(rows) > 1:
        between = x + np.arange(1, len(rows))
        axes.vlines(between, 0, width, color="white", linewidth=0.4, zorder=3)
    for i, row in enumerate(rows):
        held = plan.lengths[plan.row_offsets[row] : plan.row_offsets[row + 1]]
        ends = np.cumsum(held)[:-1][held[:-1] >= width / _MOST_LINES]
        if len(ends):
            axes.hlines(ends, x + i, x + i + 1, color="white", linewidth=0.5, zorder=3)
