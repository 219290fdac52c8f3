"""The plot of ranks: tokens of the slowest and of the mean rank in each step."""

from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchstat.render.plots import style, subtitles
from batchstat.render.plots.style import Picture
from batchstat.render.screens.simulated import rank_idle
from batchstat.render.text import one_line, percent
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult, Timeline
from batchstat.words import counted

_MOST_POINTS = 160  # of a chart of steps; where there are more, a point stands for several


def rank_plots(comparison: Comparison) -> dict[str, Picture]:
    """Return the plot `ranks`; a run on one rank has none."""
    if comparison.basis.world_size == 1:
        return {}
    return {"ranks": Picture(lambda figure: _ranks(figure, comparison), 3.9)}


def _ranks(figure: Figure, comparison: Comparison) -> None:
    """Draw the slowest and the mean rank in each step: between them is what ranks wait."""
    current, best = comparison.current, comparison.best
    rows = [current] if best is current else [current, best]
    first, *second = (f"{one_line(row.label, 32)} {percent(rank_idle(row))}" for row in rows)
    # "of the time" is said once, after the first share.
    title = ", ".join([f"Ranks wait for the slowest: {first} of the time", *second])
    timelines = [row.timeline_of(_MOST_POINTS) for row in rows]
    has_merged_steps = any(line is not None and line.steps_per_point > 1 for line in timelines)
    of_slowest = ", largest of each point" if has_merged_steps else ""
    of_mean = ", mean of each point" if has_merged_steps else ""
    style.titled(figure, title, subtitles.of_comparison(comparison))
    all_axes = figure.subplots(1, len(rows), sharey=True, squeeze=False)[0]
    highest = 1  # tokens of the slowest rank in any step of both charts
    for axes, row, timeline in zip(all_axes, rows, timelines, strict=True):
        assert timeline is not None  # a run on several ranks has one
        _steps(axes, row, timeline)
        name = subtitles.name_with_marks(comparison, row, 34)
        idle = f"{percent(rank_idle(row))} idle, distribute {row.distribute}"
        axes.set_title(f"{name}\n{idle}", fontsize=9)
        highest = max(highest, int(timeline.slowest.max()))
    all_axes[0].set_ylim(0, 1.05 * highest)
    all_axes[0].set_ylabel("tokens per rank and step")
    style.count_axis(all_axes[0].yaxis, style.short)
    handles: list[Artist] = [
        Patch(color=style.VERMILION, label=f"slowest rank{of_slowest}"),
        Patch(color=style.PALE_BLUE, label=f"mean rank{of_mean}"),
        Patch(color=style.PALE_ORANGE, label="what the others wait for"),
        Line2D([], [], color=style.INK, marker="v", linestyle="none", label="longest wait"),
    ]
    style.key_below(figure, handles, columns=4)


def _steps(axes: Axes, row: StrategyResult, timeline: Timeline) -> None:
    """Draw one row's steps: the mean rank as an area, the slowest as a line above it."""
    # `edges` are the first steps of points: a step begins half a step before its number.
    slowest, mean, borders = timeline.slowest, timeline.mean, timeline.edges - 0.5
    axes.stairs(slowest, borders, baseline=mean, fill=True, color=style.PALE_ORANGE, linewidth=0)
    axes.stairs(mean, borders, fill=True, color=style.PALE_BLUE, linewidth=0, label="mean rank")
    look: dict[str, Any] = {"color": style.VERMILION, "linewidth": 1.2, "label": "slowest rank"}
    # Without a baseline, the line does not go down to 0 at its ends.
    axes.stairs(slowest, borders, baseline=None, **look)
    worst = row.counts.ranks.worst
    point = worst.step // timeline.steps_per_point
    look = {"color": style.INK, "markersize": 5, "clip_on": False, "label": "worst"}
    axes.plot(worst.step, slowest[point], "v", **look)
    axes.set_xlim(-0.5, timeline.edges[-1] - 0.5)
    style.count_axis(axes.xaxis)
    size = timeline.steps_per_point
    axes.set_xlabel("step" if size == 1 else f"step; each point: {counted(size, 'step')}")
