"""The plots of a comparison: padding per strategy, batches to scale, the trade-off, read_ahead."""

import re
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from batchstat.render.plots import style, subtitles
from batchstat.render.plots.batches import batches_picture
from batchstat.render.plots.style import Picture
from batchstat.render.plots.tradeoff import draw_tradeoff, read_ahead_plots
from batchstat.render.text import one_line, percent
from batchstat.simulation.compare.changes import MOST_LOST
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult

_LABEL_WIDTH = 40  # characters of a line of the name of a strategy


def comparison_plots(comparison: Comparison) -> dict[str, Picture]:
    """Return the plots of a comparison, strategies with the most compute first."""
    rows = sorted(comparison.strategies, key=lambda row: -row.counts.compute)
    extra_lines = max(_wrapped(row.label).count("\n") for row in rows)
    height = 1.7 + len(rows) * (0.4 + 0.13 * extra_lines)  # in inches
    return {
        "padding": Picture(lambda figure: _padding(figure, comparison, rows), height),
        "batches": batches_picture(comparison),
        "tradeoff": Picture(lambda figure: draw_tradeoff(figure, comparison), 4.9),
        **read_ahead_plots(comparison),
    }


def _padding(figure: Figure, comparison: Comparison, rows: list[StrategyResult]) -> None:
    """Draw a bar per row: real tokens, padding and losses, with a band behind the best."""
    # Without any strategy that fits the budget, `comparison.best` is the current setup.
    current, best = comparison.current, comparison.best
    title = f"{one_line(current.label, 44)} spends {percent(current.counts.padding_ratio)} of its "
    if comparison.changes.best is None:
        title += "compute on padding; no strategy fits the budget"
    elif best is current:
        title += "compute on padding, and is the best here"
    else:
        best_padding = f"{one_line(best.label, 44)} {percent(best.counts.padding_ratio)}"
        title += f"compute on padding; {best_padding}"
    style.titled(figure, title, subtitles.of_comparison(comparison))
    axes = figure.subplots()
    bar_lengths = [_bar_length(row) for row in rows]
    # A far longer bar is cut off, but never that of the current setup, nor the shortest.
    longest_needed = max(_bar_length(comparison.current), min(bar_lengths))
    axis_end = style.end_of_axis(bar_lengths, least=longest_needed)
    for place, row in enumerate(rows):
        _bar(axes, place, row, axis_end, strong=row in (comparison.current, comparison.best))
        _write_beside_bar(axes, place, row, comparison)
    if comparison.changes.best is not None:
        place = rows.index(comparison.changes.best)
        # From -1 to 2 of its width: also behind the names and the numbers beside it.
        band = axes.axhspan(place - 0.46, place + 0.46, -1, 2, color=style.BAND, clip_on=False)
        band.set_zorder(-1)
        # It reaches beyond the axes, and the layout would make room for it.
        band.set_in_layout(False)
    axes.set_ylim(len(rows) - 0.5, -0.5)  # the first row at the top
    axes.set_xlim(0, axis_end * 1.02)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    style.count_axis(axes.xaxis, style.short)
    # With several ranks, speed-ups do not follow from the bars, which have the tokens of all ranks.
    quantity = subtitles.compared_quantity(comparison)  # time or compute
    of_ranks = f"; {quantity} counts the slowest rank of each {comparison.basis.wait}"
    remark = of_ranks if comparison.basis.world_size > 1 else ""
    axes.set_xlabel(f"tokens per epoch{remark}", loc="left")
    parts = {"real tokens": style.BLUE, "padding": style.ORANGE, "lost": style.VERMILION}
    if not any(row.counts.padding_tokens for row in rows):
        del parts["padding"]
    if not any(_shows_loss(row) for row in rows):
        del parts["lost"]
    style.key(axes, handles=[Patch(color=colour, label=label) for label, colour in parts.items()])


def _shows_loss(row: StrategyResult) -> bool:
    return row.counts.lost_ratio >= MOST_LOST


def _bar_length(row: StrategyResult) -> int:
    return row.counts.total_tokens + (row.counts.lost_tokens if _shows_loss(row) else 0)


def _bar(axes: Axes, y: int, row: StrategyResult, axis_end: float, *, strong: bool) -> None:
    """Draw a row as a bar of up to three parts: real tokens, padding, lost tokens."""
    counts = row.counts
    colours = (style.PALE_BLUE, style.PALE_ORANGE, style.PALE_VERMILION)
    if strong:
        colours = (style.BLUE, style.ORANGE, style.VERMILION)
    left = 0  # where the next part begins; at last, the length of the bar
    parts = counts.real_tokens, counts.padding_tokens, counts.lost_tokens if _shows_loss(row) else 0
    for tokens, colour in zip(parts, colours, strict=True):
        if tokens:
            # Legends leave out a label that begins with an underscore.
            axes.barh(y, tokens, left=left, height=0.56, color=colour, label="_")
        left += tokens
    if left > axis_end:
        # Two white strokes mark a bar that is cut off; its tokens are written beside them.
        for share in (0.955, 0.97):  # their places, as shares of the axis
            ends = [axis_end * (share - 0.004), axis_end * (share + 0.004)]
            axes.plot(ends, [y + 0.36, y - 0.36], color="white", linewidth=2.5)
        look: dict[str, Any] = {"ha": "right", "fontsize": 8.5, "color": style.INK}
        style.note(axes, 0.94 * axis_end, y, f"{style.short(left)} tokens ", **look)


def _write_beside_bar(axes: Axes, place: int, row: StrategyResult, comparison: Comparison) -> None:
    """Write a row's name to the left of its bar, its padding and speed-up to the right."""
    is_best, is_current = row is comparison.changes.best, row is comparison.current
    notes = subtitles.marks(comparison, row)
    notes += ["needs varlen attention"] if row.packs_rows else []
    if row.counts.reducible_peak > comparison.basis.tokens_per_batch:
        notes.append("over budget")
    # A loss is written for the current row, and for rows that lose another share than it does.
    loses_as_current = row.counts.lost_ratio == comparison.current.counts.lost_ratio
    if _shows_loss(row) and (is_current or not loses_as_current):
        notes.append(f"{percent(row.counts.lost_ratio)} lost")
    weight = "bold" if is_best or is_current else "normal"
    name = _wrapped(row.label)
    look: dict[str, Any] = {"ha": "right", "fontweight": weight}
    font_size = 8 if "\n" in name else 9
    up = 5 if notes else 0  # points by which the name makes room for notes below it
    style.beside_row(axes, place, name, (-6, up), fontsize=font_size, **look)
    if notes:
        down, colour = -6 - 5.5 * name.count("\n"), style.BLUE if is_best else style.GREY
        text = ", ".join(notes)
        style.beside_row(axes, place, text, (-6, down), ha="right", fontsize=7.5, color=colour)
    # To the right of the chart, the padding ends at 90 points and the speed-up begins at 100.
    padding = f"{percent(row.counts.padding_ratio)} padding"
    style.beside_row(axes, place, padding, (90, 0), end=1, **look)
    if not is_current:
        speed_up = comparison.speed_up(row)
        word, factor = ("faster", speed_up) if speed_up > 1 else ("slower", 1 / speed_up)
        text = f"{factor:.2f}x {word}{subtitles.estimate_note(comparison)}"
        if 0.995 <= speed_up < 1.005:  # in two decimals 1.00x
            text = f"same {subtitles.compared_quantity(comparison)}"
        style.beside_row(axes, place, text, (100, 0), end=1, ha="left", fontweight=weight)


def _wrapped(spec: str) -> str:
    """Return a strategy in lines of `_LABEL_WIDTH`, broken between its parameters."""
    lines = [""]
    for part in re.split(r"(?<=[:,])", one_line(spec, 160)):
        if len(lines[-1]) + len(part) > _LABEL_WIDTH and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
