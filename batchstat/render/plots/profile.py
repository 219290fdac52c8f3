"""The plots of a profile: its lengths, its classes, the lengths per class."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from batchstat.errors import counted
from batchstat.lengths.stats import LengthStats
from batchstat.profiling.profile import ClassCount, Profile
from batchstat.render.plots import style
from batchstat.render.text import (
    class_name,
    corpus_name,
    percent,
    shown_classes,
    tokenizer_name,
)

_MOST_CANDIDATES = 6
_HEADROOM = 1.3
"""End of the y axes, if the highest bar is 1: room for text above."""


def profile_plots(profile: Profile) -> dict[str, bytes]:
    """Draw `lengths.png`, and of a corpus with labels `classes.png` and `lengths_by_class.png`."""
    plots = {"lengths.png": style.png(lambda figure: _lengths(figure, profile), 6.2)}
    if profile.labels is not None:
        shown = len(_rows(profile))
        plots["classes.png"] = style.png(
            lambda figure: _classes(figure, profile), 2.2 + 0.32 * shown
        )
        plots["lengths_by_class.png"] = style.png(
            lambda figure: _lengths_by_class(figure, profile), 1.9 + 0.42 * shown
        )
    return plots


def _whose(profile: Profile) -> str:
    name = corpus_name([source.path for source in profile.corpus.sources])
    tokenizer = tokenizer_name(profile.tokenizer.name if profile.tokenizer else None)
    return f"{name} · {tokenizer} · {counted(len(profile), 'sample')}"


def _lengths(figure: Figure, profile: Profile) -> None:
    style.title(figure, "Tokens per sample", _whose(profile))
    axes = figure.subplots()
    bins = profile.histogram
    edges = style.on_log_scale(bins.edges)
    top = max(bins.counts) * _HEADROOM
    # Bars with integer edges are not equally wide: the white edge shows where each ends.
    axes.bar(
        edges[:-1],
        bins.counts,
        np.diff(edges),
        align="edge",
        color=style.SKY,
        edgecolor="white",
        linewidth=0.5,
    )
    axes.set_ylabel("samples per bar")
    style.count_axis(axes.yaxis)
    axes.spines["top"].set_visible(False)
    axes.set_ylim(0, top)
    style.length_axis(axes, bins.edges[0], bins.edges[-1], "tokens")
    _percentiles(axes, profile, top)
    _cumulative(figure, axes, profile)


def _percentiles(axes: Axes, profile: Profile, top: float) -> None:
    for place, name, height in ((500, "p50", 0.99), (900, "p90", 0.93), (990, "p99", 0.87)):
        at = profile.stats.percentile(place)
        side = "right" if at > profile.histogram.edges[-1] / 2 else "left"
        place_of = float(style.on_log_scale(at))
        axes.axvline(place_of, color=style.BLUE, linewidth=1.2, linestyle="--")
        axes.text(
            *(place_of, height * top, f" {name} {at:,} "),
            color=style.BLUE,
            fontsize=8,
            va="top",
            ha=side,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )


def _cumulative(figure: Figure, axes: Axes, profile: Profile) -> None:
    """Draw the share of samples up to each length, and what each `max_length` truncates."""
    stats = profile.stats
    share = axes.twinx()
    # From 0 at the left edge to all samples at the right one.
    first, last = profile.histogram.edges[0], profile.histogram.edges[-1]
    lengths = style.on_log_scale([first, *stats.values, last])
    shares = [0, *np.cumsum(stats.counts) / stats.count, 1]
    share.step(lengths, shares, where="post", color="black")
    share.set_ylim(0, _HEADROOM)
    share.set_yticks(np.linspace(0, 1, 6))
    share.yaxis.set_major_formatter(PercentFormatter(1))
    share.set_ylabel("samples up to this length (line)")
    share.spines["top"].set_visible(False)
    lines = ["max_length  truncated samples, tokens"]
    for cut in [each for each in profile.truncation if each.samples][-_MOST_CANDIDATES:]:
        samples = cut.samples / len(profile)
        at = float(style.on_log_scale(cut.max_length))
        share.plot([at, at], [0, 1 - samples], color=style.VERMILION, linestyle=":")
        share.plot(at, 1 - samples, color=style.VERMILION, marker="o", markersize=4)
        tokens = percent(cut.tokens / stats.sum)
        lines.append(f"{cut.max_length:>10,}  {percent(samples):>15}  {tokens:>6}")
    if len(lines) > 1:
        figure.supxlabel("\n".join(lines), fontsize=8, family="monospace", color=style.VERMILION)


def _rows(profile: Profile) -> list[tuple[str, int, ClassCount | None]]:
    """Return the name, samples and class of each row of a plot; no class if several are summed."""
    first, between, last = shown_classes(profile.classes)
    rows: list[tuple[str, int, ClassCount | None]] = [
        (class_name(each.label, 28), each.count, each) for each in (*first, *last)
    ]
    if between:
        name = f"({len(between):,} classes between)"
        rows.insert(len(first), (name, sum(each.count for each in between), None))
    return rows


def _classes(figure: Figure, profile: Profile) -> None:
    style.title(figure, "Samples per class", _whose(profile))
    axes = figure.subplots()
    rows = _rows(profile)
    names, counts = [name for name, _, _ in rows], [count for _, count, _ in rows]
    colours = [style.BLUE if each else style.GREY for _, _, each in rows]
    axes.barh(range(len(names)), counts, color=colours)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, max(counts) * 1.22)
    for place, count in enumerate(counts):
        note = f" {count:,}  {percent(count / len(profile))}"
        axes.text(count, place, note, va="center", fontsize=9)
    axes.set_xlabel("samples")
    style.count_axis(axes.xaxis)
    style.open_frame(axes)


def _lengths_by_class(figure: Figure, profile: Profile) -> None:
    style.title(figure, "Tokens per sample, by class", _whose(profile))
    axes = figure.subplots()
    rows = _rows(profile)
    boxes = [(place, each) for place, (_, _, each) in enumerate(rows, start=1) if each]
    axes.bxp(
        [_box(profile, each) for _, each in boxes],
        positions=[place for place, _ in boxes],
        widths=0.5,
        orientation="horizontal",
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": style.SKY},
        medianprops={"color": "black"},
        showmeans=True,
        meanprops={"marker": "D", "markerfacecolor": style.ORANGE, "markeredgecolor": "black"},
    )
    names = [f"{name} ({count:,})" for name, count, _ in rows]
    axes.set_yticks(range(1, len(rows) + 1), names, parse_math=False)
    axes.set_ylim(len(rows) + 0.5, 0.5)
    style.open_frame(axes)
    edges = profile.histogram.edges
    label = "tokens: box p25 to p75, line median, diamond mean, whiskers p1 to p99"
    style.length_axis(axes, edges[0], edges[-1], label)


def _box(profile: Profile, each: ClassCount) -> dict[str, float]:
    """Return a class as `Axes.bxp` expects it; percentiles are observed lengths, as everywhere."""
    stats = LengthStats.of(profile.lengths_of(each.label))
    drawn = {"whislo": 10, "q1": 250, "med": 500, "q3": 750, "whishi": 990}
    numbers = {name: stats.percentile(place) for name, place in drawn.items()}
    return {
        name: float(style.on_log_scale(number))
        for name, number in {**numbers, "mean": each.mean_length}.items()
    }
