"""What a strategy saves against how far its batches are from random ones."""

import textwrap
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from batchstat.render.plots import style
from batchstat.render.plots.labels import label_dots
from batchstat.render.plots.subtitles import compared, estimated, marked, marks, measure
from batchstat.render.text import one_line
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
    rows = sorted(
        comparison.strategies,
        key=lambda row: (row is not comparison.best, row is not comparison.current),
    )
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
    found: dict[tuple[float, float], list[str]] = {}
    for (x, y), text in zip(dots, texts, strict=True):
        near = (at for at in found if abs(at[0] - x) < 0.012 and abs(at[1] - y) < 0.03 * space)
        found.setdefault(next(near, (x, y)), []).append(text)
    return list(found), [
        textwrap.fill(", ".join(names), 44, break_on_hyphens=False) for names in found.values()
    ]
