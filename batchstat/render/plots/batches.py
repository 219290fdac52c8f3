"""The plot of batches: the first ones of a few strategies, to scale, so that padding is seen."""

from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from batchstat.lengths.exact import sums
from batchstat.planning.plan import BatchPlan
from batchstat.render.plots import style, subtitles
from batchstat.render.plots.style import Picture
from batchstat.render.text import one_line, percent
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult

_MOST_PANELS = 4  # the most strategies that are drawn
_USUAL_BATCHES = 30  # batches of the current setup that are drawn, where they are small
_FEWEST_ROWS, _MOST_ROWS = 120, 480  # so many stand side by side where batches are small
Line = tuple[tuple[float, float], tuple[float, float]]  # both ends of a line: x and y

_GAP = 0.006  # space between batches, as a share of the width
_DISTINCT = 360  # with more rows than this, the lines between samples would cover them


def batches_picture(comparison: Comparison) -> Picture:
    """Return the plot of the first batches of a few strategies, the current setup first."""
    panels = []
    for row in _rows_to_draw(comparison):
        if row.first_batches is not None:  # the current setup may have none to draw
            name = subtitles.name_with_marks(comparison, row, 60)
            panel_title = f"{name}: {percent(row.counts.padding_ratio)} padding"
            panels.append((panel_title, row.first_batches))
    title, subtitle = _title(comparison), subtitles.of_comparison(comparison)
    height = 1.15 + 1.35 * len(panels)  # in inches: title and legend, and each panel
    return Picture(lambda figure: draw_batches(figure, panels, title, subtitle), height)


def _title(comparison: Comparison) -> str:
    """Return the title of the plot: the padding of the current setup and of the best strategy."""
    current, best = comparison.current, comparison.best
    if current.counts.padding_tokens == 0:
        return f"The batches of {one_line(current.label, 40)} have no padding"
    padding = percent(current.counts.padding_ratio)
    words = f"Orange is padding: {padding} of {one_line(current.label, 40)}"
    if best is current:
        return words
    return f"{words}, {percent(best.counts.padding_ratio)} of {one_line(best.label, 40)}"


def _rows_to_draw(comparison: Comparison) -> list[StrategyResult]:
    """Choose the current setup, the recommended ones, one that packs, then others."""
    changes = comparison.changes
    advised = [change.row for change in (changes.fastest, changes.packed) if change is not None]
    packing = [row for row in comparison.strategies if row.packs_rows]
    # `fixed` pads every row to max_length: only as the current or the best setup.
    others = [row for row in comparison.strategies if row.name != "fixed" and not row.packs_rows]
    candidates = (comparison.current, comparison.best, *advised, *packing[:1], *others)
    longest = comparison.current.request.settings.max_length
    rows: list[StrategyResult] = []
    for row in candidates:
        if row in rows or row.first_batches is None or comparison.current.first_batches is None:
            continue
        # Batches of padding-free are far wider. Without batches the width is 0.
        if row is comparison.current or int(row.first_batches.widths.max(initial=0)) <= longest:
            rows.append(row)
    # The current setup stays first, also where it packs; other strategies that pack come last.
    return rows[:1] + sorted(rows[1:_MOST_PANELS], key=lambda row: row.packs_rows)


def draw_batches(
    figure: Figure, panels: Sequence[tuple[str, BatchPlan]], title: str, subtitle: str
) -> None:
    """Draw the batches of the panels below each other, on the same scale."""
    style.titled(figure, title, subtitle)
    all_axes = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    # Rows in each panel, so that several batches of every plan are seen; 1 without batches.
    rows_of_plans = [len(plan.row_offsets) - 1 for _, plan in panels]
    rows_per_batch = [
        max(1, n) / max(1, len(plan)) for n, (_, plan) in zip(rows_of_plans, panels, strict=True)
    ]
    # Where batches are small: many of the current setup, within limits.
    rows_wanted = float(np.clip(_USUAL_BATCHES * rows_per_batch[0], _FEWEST_ROWS, _MOST_ROWS))
    # Where batches are large: at least 6 of the current setup, and 3 of every strategy.
    rows_wanted = max(rows_wanted, 6 * rows_per_batch[0], 3 * max(rows_per_batch))
    rows_shown = int(max(1, min(rows_wanted, max(rows_of_plans))))
    tallest = 1  # tokens of the widest row in any panel
    for axes, (panel_title, plan) in zip(all_axes, panels, strict=True):
        tallest = max(tallest, _draw_plan(axes, plan, rows_shown))
        axes.set_title(panel_title, pad=4)
        # All panels show equally many rows, so an area stands for as many tokens in each of them.
        axes.set_xlim(0, rows_shown)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.set_ylabel("tokens per row")
    all_axes[0].set_ylim(0, tallest)
    all_axes[0].yaxis.set_major_locator(MaxNLocator(4, integer=True))
    all_axes[0].yaxis.set_major_formatter(FuncFormatter(style.plain))
    handles: list[Artist] = [
        Patch(color=style.BLUE, label="real tokens"),
        Patch(color=style.ORANGE, label="padding"),
        Patch(
            color="none",
            label="Each block is a batch, each column one of its rows, padded to the longest.",
        ),
    ]
    style.key_below(figure, handles, columns=3)


def _draw_plan(axes: Axes, plan: BatchPlan, rows_shown: int) -> int:
    """Draw the first batches, a column per row; return the tallest column's height in tokens."""
    real_per_row = sums(plan.lengths, plan.row_offsets)
    # Heights i stand between edges i and i + 1. A height of 0 is the gap before or after a batch.
    edges, real_heights, padded_heights = [0.0], [0], [0]
    between_rows, between_samples = list[Line](), list[Line]()
    tallest, left = 1, 0.0  # `left` is where the next batch begins
    for batch, width in enumerate(plan.widths.tolist()):
        if left >= rows_shown:  # the panel is full
            break
        first, end = plan.batch_offsets[batch : batch + 2].tolist()
        edges += [left + column for column in range(end - first + 1)]
        real_heights += [*real_per_row[first:end].tolist(), 0]
        padded_heights += [*[width] * (end - first), 0]
        if rows_shown <= _DISTINCT:
            of_rows, of_samples = _borders(plan, batch, left)
            between_rows += of_rows
            between_samples += of_samples
        tallest = max(tallest, width)
        left = edges[-1] + _GAP * rows_shown
    edges.append(left)  # the end of the last gap
    # Orange first, so that blue covers it up to the real tokens.
    for heights, colour in ((padded_heights, style.ORANGE), (real_heights, style.BLUE)):
        axes.stairs(heights, edges, fill=True, color=colour, linewidth=0)
    # All lines of a width at once: one by one, they take most of the time of the plot.
    for lines, width in ((between_rows, 0.4), (between_samples, 0.5)):
        drawn = LineCollection(lines, colors="white", linewidths=width, zorder=3)
        axes.add_collection(drawn, autolim=False)
    return tallest


_MOST_LINES = 40  # lines between the samples of a row: more would hide the samples


def _borders(plan: BatchPlan, batch: int, left: float) -> tuple[list[Line], list[Line]]:
    """Return thin lines between the rows of one batch, and between the samples of each row."""
    rows = range(*plan.batch_offsets[batch : batch + 2].tolist())
    width = int(plan.widths[batch])
    between_rows = [((left + i, 0.0), (left + i, float(width))) for i in range(1, len(rows))]
    between_samples: list[Line] = []
    for i, row in enumerate(rows):
        row_lengths = plan.lengths[plan.row_offsets[row] : plan.row_offsets[row + 1]]
        # A line ends each sample but the last, unless the sample is so short that lines hide it.
        is_drawn = row_lengths[:-1] >= width / _MOST_LINES
        sample_ends = np.cumsum(row_lengths)[:-1][is_drawn].tolist()
        between_samples += [((left + i, end), (left + i + 1, end)) for end in sample_ends]
    return between_rows, between_samples
