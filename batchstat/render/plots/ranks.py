"""The plot of ranks: the cost of each step on the slowest rank, the mean rank, and every rank."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from batchstat.errors import counted
from batchstat.lengths.arrays import Ints
from batchstat.render.plots import style
from batchstat.render.screens.layout import sample_words
from batchstat.render.text import corpus_name, one_line, percent
from batchstat.simulation.comparison import Comparison

_MOST_COLUMNS, _MOST_ROWS = 400, 200


def rank_plots(comparison: Comparison) -> dict[str, bytes]:
    """Draw `ranks.png`, if there are several ranks."""
    steps = comparison.best.steps
    if steps is None:
        return {}
    return {"ranks.png": style.png(lambda figure: _ranks(figure, comparison, steps), 6.4)}


def _ranks(figure: Figure, comparison: Comparison, steps: Ints) -> None:
    """Draw `steps` (n_steps, world_size); with more steps than columns, the maximum of each bin."""
    row, basis = comparison.best, comparison.basis
    paths = [source.path for source in comparison.corpus.sources] if comparison.corpus else []
    idle = percent(row.counts.rank_idle)
    style.title(
        figure,
        f"{one_line(row.label, 60)} on {counted(basis.world_size, 'rank')}: {idle} idle",
        f"{corpus_name(paths)} · {sample_words(comparison)} · distribute {row.distribute} · "
        f"{counted(len(steps), 'step')}",
    )
    lines, heat = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1))
    edges, many = _bins(len(steps), _MOST_COLUMNS, "step")
    middles = (edges[:-1] + edges[1:] - 1) / 2
    slowest = np.maximum.reduceat(steps.max(axis=1), edges[:-1])
    mean = np.add.reduceat(steps.mean(axis=1), edges[:-1]) / np.diff(edges)
    most, average = (f", maximum of {many}", f", mean of {many}") if many else ("", "")
    marker = "o" if len(middles) == 1 else None
    for numbers, colour, line, label in (
        (slowest, style.VERMILION, "-", f"slowest rank{most}"),
        (mean, style.BLUE, "--", f"mean rank{average}"),
    ):
        lines.plot(middles, numbers, line, color=colour, label=label, marker=marker, linewidth=1.2)
    worst = row.counts.ranks.worst
    lines.plot(
        worst.step,
        worst.tokens,
        "v",
        color="black",
        label=f"longest wait: step {worst.step:,}, {worst.tokens:,} tokens",
    )
    lines.set_ylim(0, float(slowest.max()) * 1.4)
    style.count_axis(lines.yaxis, style.short)
    lines.set_ylabel("tokens per step")
    lines.legend(frameon=False, loc="upper right", ncols=3, fontsize=8)
    style.open_frame(lines)
    rows, together = _bins(steps.shape[1], _MOST_ROWS, "rank")
    shown = heat.pcolormesh(
        edges - 0.5,
        rows - 0.5,
        np.maximum.reduceat(np.maximum.reduceat(steps, edges[:-1]), rows[:-1], axis=1).T,
        cmap="cividis",
        vmin=0,
        rasterized=True,
    )
    heat.set_ylim(rows[-1] - 0.5, -0.5)
    heat.set_xlabel("step")
    heat.set_ylabel("rank")
    style.count_axis(heat.xaxis)
    style.count_axis(heat.yaxis)
    of = " and ".join(filter(None, (many, together)))
    figure.colorbar(
        shown,
        ax=heat,
        label=f"tokens, maximum of {of}" if of else "tokens",
        format=FuncFormatter(style.short),
        ticks=style.whole_numbers(),
    )


def _bins(number: int, most: int, word: str) -> tuple[Ints, str]:
    """Return the edges of at most `most` bins, and the number of items per bin in words, empty if
    it is one.
    """
    size = -(-number // most)
    edges = np.append(np.arange(0, number, size), number)
    return edges, counted(size, word) if size > 1 else ""
