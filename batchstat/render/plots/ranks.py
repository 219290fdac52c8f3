"""The plot of ranks: what each step costs the slowest and the mean rank, and every rank."""

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from batchstat.render.layout import sample_words
from batchstat.render.plots import style
from batchstat.render.words import corpus_name, counted, one_line, percent
from batchstat.report import Comparison

_MOST_COLUMNS = 400

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]


def rank_plots(comparison: Comparison) -> dict[str, bytes]:
    """`ranks.png`, where there are several."""
    steps = comparison.best.steps
    if steps is None:
        return {}
    return {"ranks.png": style.png(lambda figure: _ranks(figure, comparison, steps), 6.4)}


def _ranks(figure: Figure, comparison: Comparison, steps: Ints) -> None:
    row, basis = comparison.best, comparison.basis
    paths = [source.path for source in comparison.corpus.sources] if comparison.corpus else []
    idle = percent(row.counts.rank_idle)
    style.title(
        figure,
        f"{one_line(row.label, 60)} on {counted(basis.world_size, 'rank')}: {idle} idle",
        f"{corpus_name(paths)} · {sample_words(comparison)} · {row.deal} dealt · "
        f"{counted(len(steps), 'step')}",
    )
    lines, heat = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1))
    edges = np.linspace(0, len(steps), min(len(steps), _MOST_COLUMNS) + 1).astype(np.int64)
    middles = (edges[:-1] + edges[1:] - 1) / 2
    slowest, mean = _binned(steps.max(axis=1), edges), _binned(steps.mean(axis=1), edges)
    lines.plot(middles, slowest, color=style.VERMILION, label="slowest rank", linewidth=1.2)
    lines.plot(middles, mean, color=style.BLUE, linestyle="--", label="mean rank", linewidth=1.2)
    lines.set_ylim(0, float(slowest.max()) * 1.25)
    lines.yaxis.set_major_formatter(FuncFormatter(style.short))
    lines.set_ylabel("tokens a step")
    lines.legend(frameon=False, loc="upper right", ncols=2)
    style.open_frame(lines)
    ranks = np.stack([_binned(steps[:, rank], edges) for rank in range(steps.shape[1])])
    shown = heat.imshow(
        ranks,
        aspect="auto",
        cmap="cividis",
        vmin=0,
        extent=(-0.5, len(steps) - 0.5, steps.shape[1] - 0.5, -0.5),
        interpolation="nearest",
    )
    heat.set_xlabel("step")
    heat.set_ylabel("rank")
    heat.xaxis.set_major_locator(MaxNLocator(integer=True))
    heat.yaxis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(shown, ax=heat, label="tokens", format=FuncFormatter(style.short))


def _binned(numbers: Floats | Ints, edges: Ints) -> Floats:
    """(len(edges) - 1,) means between edges."""
    sums = np.add.reduceat(numbers.astype(np.float64), edges[:-1])
    means: Floats = sums / np.diff(edges)
    return means
