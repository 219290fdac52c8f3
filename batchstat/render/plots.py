"""Records as PNG pictures. Colours are Okabe and Ito's; none is the only cue to anything."""

import io
import warnings
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator, PercentFormatter

from batchstat.profiling.profile import Profile
from batchstat.render.words import corpus_name, one_line, percent
from batchstat.report import Comparison

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, GREY = "#56B4E9", "#CC79A7", "#8a8a8a"

_MOST_CLASSES = 20


def profile_plots(profile: Profile) -> dict[str, bytes]:
    """File name to PNG: `lengths.png`, and of a corpus with labels two of its classes."""
    plots = {"lengths.png": _png(lambda figure: _lengths(figure, profile), 9, 5.2)}
    if profile.labels is not None:
        tall = 1.9 + 0.32 * min(len(profile.classes), _MOST_CLASSES + 1)
        plots["classes.png"] = _png(lambda figure: _classes(figure, profile), 9, tall)
        plots["lengths_by_class.png"] = _png(
            lambda figure: _lengths_by_class(figure, profile), 9, 1.9 + 0.42 * _shown(profile)
        )
    return plots


def comparison_plots(comparison: Comparison) -> dict[str, bytes]:
    """File name to PNG: `padding.png`, `batch_lengths.png`, `read_ahead.png`."""
    rows = len(comparison.strategies)
    return {
        "padding.png": _png(lambda figure: _padding(figure, comparison), 9, 2.2 + 0.5 * rows),
        "batch_lengths.png": _png(
            lambda figure: _batch_lengths(figure, comparison), 9, 1.8 + 1.2 * rows
        ),
        "read_ahead.png": _png(lambda figure: _read_ahead(figure, comparison), 9, 4.8),
    }


def _png(draw: Callable[[Figure], None], width: float, height: float) -> bytes:
    figure = Figure(figsize=(width, height), layout="constrained")
    draw(figure)
    file = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script the font lacks is drawn as boxes; that is no reason to say so twice.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(file, format="png", dpi=150, metadata={"Software": None})
    return file.getvalue()


def _title(figure: Figure, what: str, whose: str) -> None:
    figure.suptitle(f"{what}\n{whose}", fontsize=11, parse_math=False)


def _of_profile(profile: Profile) -> str:
    name = corpus_name([source.path for source in profile.corpus.sources])
    return f"{name} · {one_line(profile.tokenizer.name)} · {len(profile):,} samples"


def _of_comparison(comparison: Comparison) -> str:
    paths = [source.path for source in comparison.corpus.sources] if comparison.corpus else []
    counted = f" · {one_line(comparison.tokenizer.name)}" if comparison.tokenizer else ""
    budget = comparison.basis.tokens_per_batch
    return (
        f"{corpus_name(paths)}{counted} · {comparison.samples:,} samples · "
        f"{budget:,} tokens a batch"
    )


def _plain(value: float, _: object = None) -> str:
    return f"{value:,.0f}"


def _log_lengths(axes: Axes, low: float, high: float, label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlim(max(low, 0.5), high)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=16))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)


def _lengths(figure: Figure, profile: Profile) -> None:
    stats, bins = profile.stats, profile.histogram
    axes = figure.subplots()
    _title(figure, "Tokens a sample", _of_profile(profile))
    # Whole-number edges make unequal bins at the short end: drawn as a density, they do not show.
    edges = np.maximum(bins.edges, 0.5)
    heights = np.array(bins.counts) / (4 * np.log2(edges[1:] / edges[:-1]))
    axes.stairs(heights, edges, fill=True, color=SKY)
    axes.set_ylabel("samples a quarter octave")
    axes.yaxis.set_major_formatter(FuncFormatter(_plain))
    axes.spines[["top"]].set_visible(False)
    _log_lengths(axes, bins.edges[0], bins.edges[-1], "tokens (log scale)")
    top = heights.max() * 1.3
    axes.set_ylim(0, top)
    for place, name, height in ((500, "p50", 0.99), (900, "p90", 0.93), (990, "p99", 0.87)):
        at = stats.percentile(place)
        axes.axvline(at, color=BLUE, linewidth=1.2, linestyle="--")
        right = at > bins.edges[-1] / 2
        side = "right" if right else "left"
        axes.text(at, top * height, f" {name} {at:,} ", color=BLUE, fontsize=8, va="top", ha=side)
    marks = [cut for cut in profile.truncation if cut.samples][-6:]
    for cut in marks:
        axes.axvline(cut.max_length, color=VERMILION, linewidth=1, linestyle=":", ymax=0.62)
    share = axes.twinx()
    share.step(stats.values, np.cumsum(stats.counts) / stats.count, where="post", color="black")
    share.set_ylim(0, 1.3)
    share.set_yticks(np.linspace(0, 1, 6))
    share.yaxis.set_major_formatter(PercentFormatter(1))
    share.set_ylabel("samples up to this length (line)")
    share.spines[["top"]].set_visible(False)
    table = "\n".join(
        f"{cut.max_length:>7,}  {percent(cut.samples / len(profile)):>6}  "
        f"{percent(cut.tokens / max(stats.sum, 1)):>6}"
        for cut in marks
    )
    if table:
        share.text(
            0.015,
            0.97,
            f"max_length  cuts of samples, tokens\n{table}",
            transform=share.transAxes,
            va="top",
            fontsize=8,
            family="monospace",
            color=VERMILION,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )


def _classes(figure: Figure, profile: Profile) -> None:
    axes = figure.subplots()
    _title(figure, "Samples a class", _of_profile(profile))
    classes = profile.classes[:_MOST_CLASSES]
    names = [_label(each.label) for each in classes]
    counts = [each.count for each in classes]
    notes = [f"{each.count:,}  {percent(each.share)}" for each in classes]
    rest = profile.classes[_MOST_CLASSES:]
    if rest:
        total = sum(each.count for each in rest)
        names.append(f"{len(rest):,} more classes")
        counts.append(total)
        notes.append(f"{total:,}  {percent(total / len(profile))}")
    places = np.arange(len(names))
    axes.barh(places, counts, color=[BLUE] * len(classes) + [GREY] * bool(rest))
    axes.set_yticks(places, names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, max(counts) * 1.22)
    for place, count, note in zip(places, counts, notes, strict=True):
        axes.text(count, place, f" {note}", va="center", fontsize=9)
    axes.set_xlabel("samples")
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.spines[["top", "right"]].set_visible(False)


def _shown(profile: Profile) -> int:
    return min(len(profile.classes), _MOST_CLASSES)


def _lengths_by_class(figure: Figure, profile: Profile) -> None:
    axes = figure.subplots()
    _title(figure, "Tokens a sample, by class", _of_profile(profile))
    shown = profile.classes[: _shown(profile)]
    assert profile.labels is not None
    codes = {name: code for code, name in enumerate(profile.labels.names)}
    groups = [
        profile.lengths[profile.labels.codes == (-1 if c.label is None else codes[c.label])]
        for c in shown
    ]
    axes.boxplot(
        [np.maximum(group, 0.5) for group in groups],
        vert=False,
        whis=(1, 99),
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": SKY},
        medianprops={"color": "black"},
        showmeans=True,
        meanprops={"marker": "D", "markerfacecolor": ORANGE, "markeredgecolor": "black"},
    )
    axes.set_yticks(
        range(1, len(shown) + 1), [f"{_label(c.label)} ({c.count:,})" for c in shown], parse_math=False
    )
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    _log_lengths(
        axes,
        profile.histogram.edges[0],
        profile.histogram.edges[-1],
        "tokens (log scale): box p25 to p75, line median, diamond mean, whiskers p1 to p99",
    )


def _label(label: str | None) -> str:
    if label is None:
        return "(no label)"
    return one_line(label, 28) if label else "(empty)"


def _millions(value: float, _: object = None) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:,.3g}{unit}"
    return f"{value:,.0f}"


def _padding(figure: Figure, comparison: Comparison) -> None:
    axes = figure.subplots()
    _title(figure, "What is computed, and what is lost", _of_comparison(comparison))
    rows = comparison.strategies
    places = np.arange(len(rows))
    real = np.array([row.counts.real_tokens for row in rows])
    padding = np.array([row.counts.padding_tokens for row in rows])
    lost = np.array([row.counts.truncated_tokens + row.counts.dropped_tokens for row in rows])
    axes.barh(places, real, color=BLUE, label="real tokens")
    axes.barh(places, padding, left=real, color=ORANGE, hatch="///", label="padding tokens")
    if lost.any():
        axes.barh(
            places, lost, left=real + padding, color=VERMILION, hatch="xxx", label="cut or dropped"
        )
    ends = real + padding + lost
    for place, end, row in zip(places, ends, rows, strict=True):
        note = f" {percent(row.counts.padding_ratio)} padding\n {row.counts.batches:,} batches"
        axes.text(end, place, note, va="center", fontsize=8.5)
    axes.set_yticks(places, [one_line(row.spec, 34) for row in rows], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, ends.max() * 1.2 or 1)
    axes.xaxis.set_major_formatter(FuncFormatter(_millions))
    axes.set_xlabel("tokens an epoch")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)


def _batch_lengths(figure: Figure, comparison: Comparison) -> None:
    rows = comparison.strategies
    _title(figure, "Width of the batches", _of_comparison(comparison))
    every = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    low = min(row.widths.edges[0] for row in rows)
    high = max(row.widths.edges[-1] for row in rows)
    for axes, row in zip(every, rows, strict=True):
        counts = np.array(row.widths.counts)
        axes.stairs(
            counts / counts.sum(), np.maximum(row.widths.edges, 0.5), fill=True, color=BLUE
        )
        axes.set_ylabel("batches", fontsize=8)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.text(
            0.01,
            0.93,
            f"{one_line(row.spec, 50)}: {row.counts.batches:,} batches",
            transform=axes.transAxes,
            va="top",
            fontsize=9,
            parse_math=False,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )
        axes.set_ylim(0, 1.25 * max(counts / counts.sum()))
        axes.spines[["top", "right"]].set_visible(False)
    _log_lengths(every[-1], low, high, "tokens to which a batch's rows are padded (log scale)")


def _read_ahead(figure: Figure, comparison: Comparison) -> None:
    axes = figure.subplots()
    sweep = comparison.sweep
    _title(figure, f"Padding of {sweep.name} against read_ahead", _of_comparison(comparison))
    sizes = [point.read_ahead for point in sweep.points]
    ratios = [point.padding_ratio for point in sweep.points]
    axes.plot(sizes, ratios, color=BLUE, marker="o", label=sweep.name)
    chosen = sweep.recommended
    axes.plot(
        [chosen.read_ahead],
        [chosen.padding_ratio],
        color=VERMILION,
        marker="D",
        markersize=10,
        linestyle="none",
        label=f"recommended: {chosen.read_ahead:,}, {percent(chosen.padding_ratio)} padding",
    )
    axes.axhline(
        sweep.best.padding_ratio,
        color=GREY,
        linestyle="--",
        label=f"best: {percent(sweep.best.padding_ratio)} at {sweep.best.read_ahead:,}",
    )
    axes.set_xscale("log")
    round_sizes = [size for size in sizes if str(size).rstrip("0") in ("1", "2", "5")]
    axes.set_xticks(round_sizes or sizes)
    axes.xaxis.set_major_formatter(FuncFormatter(_millions))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_ylim(0, max(*ratios, 0.01) * 1.1)
    axes.set_xlabel("read_ahead: samples looked at together (log scale)")
    axes.set_ylabel("padding, of all tokens computed")
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
