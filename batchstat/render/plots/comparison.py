"""The plots of a comparison: padding per strategy, batches to scale, the trade-off, read_ahead."""

import re
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from batchstat.render.plots import style
from batchstat.render.plots.batches import batches_picture
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import compared, estimated, marks, measure
from batchstat.render.plots.tradeoff import draw_tradeoff, read_ahead_plots
from batchstat.render.text import one_line, percent
from batchstat.simulation.compare.changes import MOST_LOST
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult

_LABEL_WIDTH = 40


def comparison_plots(comparison: Comparison) -> dict[str, Picture]:
    """Return `padding`, `batches`, `tradeoff` and `read_ahead`."""
    rows = sorted(comparison.strategies, key=lambda row: -row.counts.compute)
    most_lines = max(_wrapped(row.label).count("\n") for row in rows)
    height = 1.7 + len(rows) * (0.4 + 0.13 * most_lines)
    return {
        "padding": Picture(lambda figure: _padding(figure, comparison, rows), height),
        "batches": batches_picture(comparison),
        "tradeoff": Picture(lambda figure: draw_tradeoff(figure, comparison), 4.9),
        **read_ahead_plots(comparison),
    }


def spends(comparison: Comparison) -> str:
    """Return the result of a comparison: what the current setup and the best one pad."""
    current, best = comparison.current, comparison.best
    mine = f"{one_line(current.label, 44)} spends {percent(current.counts.padding_ratio)} of its "
    if comparison.changes.best is None:
        return f"{mine}compute on padding; no strategy fits the budget"
    if best is current:
        return f"{mine}compute on padding, and is the best here"
    theirs = f"{one_line(best.label, 44)} {percent(best.counts.padding_ratio)}"
    return f"{mine}compute on padding; {theirs}"


def saving(comparison: Comparison, row: StrategyResult) -> str:
    """Return how much faster, or slower, a row is than the current setup, in the page's words."""
    speed_up = comparison.speed_up(row)
    if 0.995 <= speed_up < 1.005:
        return f"same {measure(comparison)}"
    word, factor = ("faster", speed_up) if speed_up > 1 else ("slower", 1 / speed_up)
    # Not a ratio of the bars, which are tokens: of ranks, the slowest of each step counts.
    return f"{factor:.2f}x {word}{estimated(comparison)}"


def _padding(figure: Figure, comparison: Comparison, rows: list[StrategyResult]) -> None:
    style.titled(figure, spends(comparison), compared(comparison))
    axes = figure.subplots()
    lengths = [_length(row) for row in rows]
    limit = style.end_of_axis(lengths, max(_length(comparison.current), min(lengths)))
    for place, row in enumerate(rows):
        _bar(axes, place, row, limit, strong=row in (comparison.current, comparison.best))
        _words(axes, place, row, comparison)
    if comparison.changes.best is not None:
        place = rows.index(comparison.changes.best)
        band = axes.axhspan(place - 0.46, place + 0.46, -1, 2, color=style.BAND, clip_on=False)
        band.set_zorder(-1)
        # It reaches beyond the axes, and the layout would make room for it.
        band.set_in_layout(False)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, limit * 1.02)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    style.count_axis(axes.xaxis, style.short)
    slowest = f"; {measure(comparison)} counts the slowest rank of each step"
    ranks = slowest if comparison.basis.world_size > 1 else ""
    axes.set_xlabel(f"tokens per epoch{ranks}", loc="left")
    parts = {"real tokens": style.BLUE, "padding": style.ORANGE, "lost": style.VERMILION}
    if not any(row.counts.padding_tokens for row in rows):
        del parts["padding"]
    if not any(_loses(row) for row in rows):
        del parts["lost"]
    style.key(axes, handles=[Patch(color=colour, label=label) for label, colour in parts.items()])


def _loses(row: StrategyResult) -> bool:
    """Return whether a row loses enough of the corpus to be seen."""
    return row.counts.lost_ratio >= MOST_LOST


def _length(row: StrategyResult) -> int:
    return row.counts.total_tokens + (row.counts.lost_tokens if _loses(row) else 0)


def _bar(axes: Axes, place: int, row: StrategyResult, limit: float, *, strong: bool) -> None:
    counts = row.counts
    colours = (style.PALE_BLUE, style.PALE_ORANGE, style.PALE_VERMILION)
    if strong:
        colours = (style.BLUE, style.ORANGE, style.VERMILION)
    start = 0
    parts = counts.real_tokens, counts.padding_tokens, counts.lost_tokens if _loses(row) else 0
    for tokens, colour in zip(parts, colours, strict=True):
        if tokens:
            axes.barh(place, tokens, left=start, height=0.56, color=colour, label="_")
        start += tokens
    if start > limit:
        for at in (0.955, 0.97):
            xs = [limit * (at - 0.004), limit * (at + 0.004)]
            axes.plot(xs, [place + 0.36, place - 0.36], color="white", linewidth=2.5)
        look: dict[str, Any] = {"ha": "right", "fontsize": 8.5, "color": style.INK}
        style.note(axes, 0.94 * limit, place, f"{style.short(start)} tokens ", **look)


def _words(axes: Axes, place: int, row: StrategyResult, comparison: Comparison) -> None:
    """Write a row's name to the left of its bar, and its numbers to the right."""
    is_best, is_current = row is comparison.changes.best, row is comparison.current
    beside = marks(comparison, row)
    beside += ["needs varlen attention"] if row.packs_rows else []
    if row.counts.reducible_peak > comparison.basis.tokens_per_batch:
        beside.append("over budget")
    as_current = row.counts.lost_ratio == comparison.current.counts.lost_ratio
    if _loses(row) and (is_current or not as_current):
        beside.append(f"{percent(row.counts.lost_ratio)} lost")
    weight = "bold" if is_best or is_current else "normal"
    name = _wrapped(row.label)
    look: dict[str, Any] = {"ha": "right", "fontweight": weight}
    size = 8 if "\n" in name else 9
    style.beside_row(axes, place, name, (-6, 5 if beside else 0), fontsize=size, **look)
    if beside:
        below, colour = -6 - 5.5 * name.count("\n"), style.BLUE if is_best else style.GREY
        words = ", ".join(beside)
        style.beside_row(axes, place, words, (-6, below), ha="right", fontsize=7.5, color=colour)
    padding = f"{percent(row.counts.padding_ratio)} padding"
    style.beside_row(axes, place, padding, (90, 0), end=1, **look)
    if not is_current:
        words = saving(comparison, row)
        style.beside_row(axes, place, words, (100, 0), end=1, ha="left", fontweight=weight)


def _wrapped(spec: str) -> str:
    """Return a strategy in lines, broken after its name and between its parameters."""
    lines = [""]
    for part in re.split(r"(?<=[:,])", one_line(spec, 160)):
        if len(lines[-1]) + len(part) > _LABEL_WIDTH and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
