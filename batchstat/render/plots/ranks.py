"""The plot of ranks: the slowest rank and the mean rank of each step, current setup and best."""

from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchstat.errors import counted
from batchstat.lengths.arrays import Ints
from batchstat.render.plots import style
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import compared, marked
from batchstat.render.screens.layout import rank_idle
from batchstat.render.text import one_line, percent
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult, Timeline

_MOST_POINTS = 160


def rank_plots(comparison: Comparison) -> dict[str, Picture]:
    """Return `ranks`, if there are several ranks."""
    if comparison.basis.world_size == 1:
        return {}
    return {"ranks": Picture(lambda figure: _ranks(figure, comparison), 3.9)}


def _ranks(figure: Figure, comparison: Comparison) -> None:
    current, best = comparison.current, comparison.best
    rows = [current] if best is current else [current, best]
    idle = [f"{one_line(row.label, 32)} {percent(rank_idle(row))}" for row in rows]
    title = f"Ranks wait for the slowest: {' of the time, '.join(idle)}"
    title += "" if len(rows) > 1 else " of the time"
    several = any(len(row.steps) > _MOST_POINTS for row in rows if row.steps is not None)
    of_each = [", largest of each point", ", mean of each point"] if several else ["", ""]
    style.titled(figure, title, compared(comparison))
    every = figure.subplots(1, len(rows), sharey=True, squeeze=False)[0]
    highest = 1
    for axes, row in zip(every, rows, strict=True):
        assert row.steps is not None
        _steps(axes, row, row.steps)
        axes.set_title(
            f"{marked(comparison, row, 34)}\n{percent(rank_idle(row))} idle, distribute "
            f"{row.distribute}",
            fontsize=9,
        )
        highest = max(highest, int(row.steps.max()))
    every[0].set_ylim(0, 1.05 * highest)
    every[0].set_ylabel("tokens per rank and step")
    style.count_axis(every[0].yaxis, style.short)
    handles: list[Artist] = [
        Patch(color=style.VERMILION, label=f"slowest rank{of_each[0]}"),
        Patch(color=style.PALE_BLUE, label=f"mean rank{of_each[1]}"),
        Patch(color=style.PALE_ORANGE, label="what the others wait for"),
        Line2D([], [], color=style.INK, marker="v", linestyle="none", label="longest wait"),
    ]
    style.key_below(figure, handles, columns=4)


def _steps(axes: Axes, row: StrategyResult, steps: Ints) -> None:
    """Draw `steps` (n_steps, world_size); with many, a point has the maximum of several."""
    line = Timeline.of(steps, _MOST_POINTS)
    slowest, mean, ends = line.slowest, line.mean, line.edges - 0.5
    axes.stairs(slowest, ends, baseline=mean, fill=True, color=style.PALE_ORANGE, linewidth=0)
    axes.stairs(mean, ends, fill=True, color=style.PALE_BLUE, linewidth=0, label="mean rank")
    look: dict[str, Any] = {"color": style.VERMILION, "linewidth": 1.2, "label": "slowest rank"}
    axes.stairs(slowest, ends, baseline=None, **look)
    worst = row.counts.ranks.worst
    look = {"color": style.INK, "markersize": 5, "clip_on": False, "label": "worst"}
    axes.plot(worst.step, worst.tokens, "v", **look)
    axes.set_xlim(-0.5, len(steps) - 0.5)
    style.count_axis(axes.xaxis)
    size = line.steps_per_point
    axes.set_xlabel("step" if size == 1 else f"step; each point: {counted(size, 'step')}")
