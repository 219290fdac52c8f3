"""The plot of bucket edges: on the lengths, and padding against the number of buckets."""

from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from batchstat.errors import counted
from batchstat.render.plots import style
from batchstat.render.plots.labels import apart
from batchstat.render.plots.profile import draw_bars, length_bins
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import subtitle
from batchstat.render.text import percent
from batchstat.simulation.buckets.report import BucketReport

_COLOURS = LinearSegmentedColormap.from_list("padding", ["white", style.ORANGE])
_BARS = "#4A5A66"
_DARKEST = 0.5
"""A bucket with this padding has the strongest colour, or the one with the most."""
_LABEL_WIDTH = 0.044
"""Space for the label of a bucket, as a share of the axis."""


def bucket_plots(report: BucketReport) -> dict[str, Picture]:
    """Return `buckets`."""
    return {"buckets": Picture(lambda figure: _buckets(figure, report), 6.2)}


def _title(report: BucketReport) -> str:
    edges = report.chosen
    words = counted(len(edges.edges), "bucket")
    if report.cost != "linear":
        return f"{words}: {report.cost} cost {edges.cost:.2f}x of what the samples need unpadded"
    words += " pads" if len(edges.edges) == 1 else " pad"
    words += f" {percent(edges.padding_ratio)}"
    if len(edges.edges) == 1:
        return words
    one = 1 - report.lengths.sum / (edges.edges[-1] * report.lengths.count)
    return f"{words}, one bucket {percent(one)}"


def _buckets(figure: Figure, report: BucketReport) -> None:
    samples = counted(report.samples, "sample")
    multiple = report.basis.pad_to_multiple_of
    more = [f"edges are multiples of {multiple}"] if multiple > 1 else []
    more.append("rows are as wide as the edge of their bucket")
    style.titled(figure, _title(report), subtitle(report.corpus, report.tokenizer, samples, *more))
    lengths, numbers = figure.subplots(2, 1, height_ratios=(3, 2))
    _histogram(lengths, report)
    _numbers(numbers, report)


def _histogram(axes: Axes, report: BucketReport) -> None:
    """Draw the lengths, on a background that is coloured by each bucket's padding."""
    bins, edges = length_bins(report.lengths), [bucket.edge for bucket in report.buckets]
    first, last = float(bins.edges[0]), float(max(bins.edges[-1], edges[-1] + 1))
    if report.lengths.min == report.lengths.max:
        first, last = report.lengths.max / 2, 1.5 * last
    position = style.length_axis(axes, first, last)
    draw_bars(axes, bins, _BARS)
    padding = [bucket.padding_tokens / max(bucket.total_tokens, 1) for bucket in report.buckets]
    norm = Normalize(0, max(*padding, _DARKEST))
    # The edges are inclusive: a bucket ends where the next length begins.
    ends = [float(position(each)) for each in (first, *(edge + 1 for edge in edges))]
    for left, right, ratio in zip(ends[:-1], ends[1:], padding, strict=True):
        axes.axvspan(left, right, color=_COLOURS(norm(ratio)), linewidth=0, zorder=0)
        axes.axvline(right, color=style.INK, linewidth=0.8, label="_edge")
    _label(axes, ends, edges, padding)


def _label(axes: Axes, ends: list[float], edges: list[int], padding: list[float]) -> None:
    """Write each bucket's padding and edge above it, where there is room."""
    shares = style.shares_of_axis(axes, ends)
    middles = [(left + right) / 2 for left, right in pairwise(shares)]
    look: dict[str, Any] = {"transform": axes.transAxes, "va": "baseline"}
    for y, words in ((1.075, "padding"), (1.02, "edge")):
        style.note(axes, -0.012, y, words, ha="right", **look)
    has_room = apart(middles, _LABEL_WIDTH)
    for middle, ratio, is_kept in zip(middles, padding, has_room, strict=True):
        if is_kept:
            style.note(axes, middle, 1.075, percent(ratio), ha="center", color=style.INK, **look)
    # From the right, so that the longest length is always named.
    has_room = apart(shares[:0:-1], _LABEL_WIDTH)[::-1]
    for share, edge, is_kept in zip(shares[1:], edges, has_room, strict=True):
        if is_kept:
            style.note(axes, share, 1.02, f"{edge:,}", ha="center", **look)


def _numbers(axes: Axes, report: BucketReport) -> None:
    """Draw padding against the number of buckets: optimal edges, and other rules in grey."""
    linear = report.cost == "linear"
    highest = 0.01
    for rule, points in report.found.items():
        is_optimal = rule == "optimal"
        values = [each.padding_ratio if linear else each.cost for each in points]
        highest = max([highest, *values])
        axes.plot(
            [each.wanted for each in points],
            values,
            "o-" if is_optimal else "-",
            color=style.BLUE if is_optimal else style.PALE_GREY,
            linewidth=1.8 if is_optimal else 1.0,
            markersize=5,
            zorder=3 if is_optimal else 1,
            label=rule,
            clip_on=False,
        )
    axes.axvline(report.wanted, color=style.INK, linewidth=0.8, zorder=0)
    if linear:
        style.percent_axis(axes.yaxis)
        axes.set_ylim(0, 1.05 * highest)
    axes.xaxis.set_major_locator(MaxNLocator(16, integer=True, min_n_ticks=1))
    axes.set_xlabel("number of buckets")
    axes.set_ylabel("padding" if linear else f"{report.cost} cost, relative")
    axes.set_title("optimal edges; in grey, other rules", color=style.GREY, fontweight="normal")
    axes.grid(axis="y")
