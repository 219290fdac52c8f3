"""The plots of a comparison: tokens, widths of batches, padding against `read_ahead`."""

import re

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from batchstat.render.plots import style
from batchstat.render.screens.layout import sample_words
from batchstat.render.text import batches, corpus_name, one_line, percent
from batchstat.simulation.comparison import Comparison

_LABEL_WIDTH = 34


def comparison_plots(comparison: Comparison) -> dict[str, bytes]:
    """Draw `padding.png`, `batch_lengths.png`, `read_ahead.png`."""
    rows = len(comparison.strategies)
    return {
        "padding.png": style.png(lambda figure: _padding(figure, comparison), 2.2 + 0.5 * rows),
        "batch_lengths.png": style.png(
            lambda figure: _batch_lengths(figure, comparison), 1.8 + 1.2 * rows
        ),
        "read_ahead.png": style.png(lambda figure: _read_ahead(figure, comparison), 4.8),
    }


def _whose(comparison: Comparison) -> str:
    paths = [source.path for source in comparison.corpus.sources] if comparison.corpus else []
    by = f" · {one_line(comparison.tokenizer.name)}" if comparison.tokenizer else ""
    samples = sample_words(comparison)
    budget = f"{comparison.basis.tokens_per_batch:,} tokens per batch"
    return f"{corpus_name(paths)}{by} · {samples} · {budget}"


def _padding(figure: Figure, comparison: Comparison) -> None:
    style.title(figure, "Tokens computed and lost", _whose(comparison))
    axes = figure.subplots()
    rows = comparison.strategies
    places = range(len(rows))
    real = np.array([row.counts.real_tokens for row in rows])
    padding = np.array([row.counts.padding_tokens for row in rows])
    lost = np.array([row.counts.lost_tokens for row in rows])
    axes.barh(places, real, color=style.BLUE, label="real tokens")
    axes.barh(places, padding, left=real, color=style.ORANGE, hatch="///", label="padding tokens")
    total = real + padding
    bound = comparison.bounds
    axes.axvline(
        bound.sorted_total_tokens,
        color=style.GREY,
        linestyle="--",
        zorder=0,
        label=f"all samples sorted: {percent(bound.sorted_padding_ratio)} padding",
    )
    if lost.any():
        axes.barh(places, lost, left=total, color=style.VERMILION, hatch="xxx", label="lost tokens")
    for place, end, row in zip(places, (total + lost).tolist(), rows, strict=True):
        note = f" {percent(row.counts.padding_ratio)} padding\n {batches(row.counts.batches)}"
        axes.annotate(
            note,
            (end, place),
            xytext=(4, 0),  # so that the box does not hide the end of the bar
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.set_yticks(places, [_wrapped(row.label) for row in rows], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, float((total + lost).max()) * 1.2 or 1)
    style.count_axis(axes.xaxis, style.short)
    axes.set_xlabel("tokens per epoch")
    style.open_frame(axes)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)


def _wrapped(spec: str) -> str:
    """Return a strategy in lines, broken after its name and between its parameters."""
    lines = [""]
    for part in re.split(r"(?<=[:,])", one_line(spec, 160)):
        if len(lines[-1]) + len(part) > _LABEL_WIDTH and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _batch_lengths(figure: Figure, comparison: Comparison) -> None:
    style.title(figure, "Width of the batches", _whose(comparison))
    rows = comparison.strategies
    every = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    for axes, row in zip(every, rows, strict=True):
        shares = np.array(row.widths.counts) / row.counts.batches
        axes.stairs(shares, style.on_log_scale(row.widths.edges), fill=True, color=style.BLUE)
        axes.set_ylabel("batches", fontsize=8)
        axes.set_ylim(0, 1.3 * float(shares.max()))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.text(
            *(0.01, 0.95, f"{one_line(row.label, 90)}: {batches(row.counts.batches)}"),
            transform=axes.transAxes,
            va="top",
            fontsize=9,
            parse_math=False,
        )
        style.open_frame(axes)
    low = min(row.widths.edges[0] for row in rows)
    high = max(row.widths.edges[-1] for row in rows)
    style.length_axis(every[-1], low, high, "tokens to which a batch's rows are padded")


def _read_ahead(figure: Figure, comparison: Comparison) -> None:
    sweep = comparison.sweep
    chosen, best = sweep.recommended, sweep.best
    style.title(figure, f"Padding of {one_line(sweep.spec)} against read_ahead", _whose(comparison))
    axes = figure.subplots()
    sizes = [point.read_ahead for point in sweep.points]
    ratios = [point.padding_ratio for point in sweep.points]
    axes.plot(sizes, ratios, color=style.BLUE, marker="o", label=one_line(sweep.spec))
    axes.plot(
        chosen.read_ahead,
        chosen.padding_ratio,
        color=style.VERMILION,
        marker="D",
        markersize=10,
        linestyle="none",
        label=f"recommended: {chosen.read_ahead:,}, {percent(chosen.padding_ratio)} padding",
    )
    axes.axhline(
        best.padding_ratio,
        color=style.GREY,
        linestyle="--",
        label=f"best: {percent(best.padding_ratio)} at {best.read_ahead:,}",
    )
    axes.set_xscale("log")
    ticks = [size for size in sizes if str(size).rstrip("0") in ("1", "2", "5")]
    axes.set_xticks(ticks or sizes)
    axes.xaxis.set_major_formatter(FuncFormatter(style.short))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_ylim(0, max(*ratios, 0.01) * 1.1)
    axes.set_xlabel("read_ahead: samples sorted together (log scale)")
    axes.set_ylabel("padding, share of all tokens computed")
    axes.grid(axis="y", alpha=0.3)
    style.open_frame(axes)
    axes.legend(frameon=False)
