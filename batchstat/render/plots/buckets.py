"""The plot of bucket edges: edges among the lengths, and padding by the number of buckets."""

from itertools import compress, pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from batchstat.render.plots import style
from batchstat.render.plots.labels import which_have_room
from batchstat.render.plots.profile import draw_bars, length_bins
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import subtitle
from batchstat.render.text import percent
from batchstat.simulation.buckets.report import BucketReport
from batchstat.words import counted

_COLOURS = LinearSegmentedColormap.from_list("padding", ["white", style.ORANGE])  # none to most
_BARS = "#4A5A66"  # colour of the histogram
_DARKEST = 0.5  # a bucket with this padding has the strongest colour, or the one with the most
_LABEL_WIDTH = 0.044  # space for the label of a bucket, as a share of the axis


def bucket_plots(report: BucketReport) -> dict[str, Picture]:
    """Return the plot `buckets`."""
    return {"buckets": Picture(lambda figure: _buckets(figure, report), 6.2)}


def _title(report: BucketReport) -> str:
    """Return the title: the padding or cost of the buckets, beside that of a single one."""
    chosen = report.chosen
    words = counted(len(chosen.edges), "bucket")
    # A cost other than tokens ("linear") is relative to that of unpadded samples.
    if report.cost != "linear":
        return f"{words}: {report.cost} cost {chosen.cost:.2f}x of what the samples need unpadded"
    words += " pads" if len(chosen.edges) == 1 else " pad"
    words += f" {percent(chosen.padding_ratio)}"
    if len(chosen.edges) == 1:
        return words
    single_bucket = 1 - report.lengths.sum / (chosen.edges[-1] * report.lengths.count)
    return f"{words}, one bucket {percent(single_bucket)}"


def _buckets(figure: Figure, report: BucketReport) -> None:
    """Draw the lengths with the edges, and below the padding by the number of buckets."""
    samples = counted(report.samples, "sample")
    multiple = report.basis.pad_to_multiple_of
    facts = [f"edges are multiples of {multiple}"] if multiple > 1 else []
    facts.append("rows are as wide as the edge of their bucket")
    style.titled(figure, _title(report), subtitle(report.corpus, report.tokenizer, samples, *facts))
    lengths, numbers = figure.subplots(2, 1, height_ratios=(3, 2))
    _histogram(lengths, report)
    _numbers(numbers, report)


def _histogram(axes: Axes, report: BucketReport) -> None:
    """Draw the lengths on stripes, the darker the more padding a bucket has."""
    bins = length_bins(report.lengths)
    edges = [bucket.edge for bucket in report.buckets]  # the longest length of each bucket
    # The axis holds all bars, and ends at least one token above the last edge.
    left_end, right_end = float(bins.edges[0]), float(max(bins.edges[-1], edges[-1] + 1))
    # One length alone would be an axis without width.
    if report.lengths.min == report.lengths.max:
        left_end, right_end = report.lengths.max / 2, 1.5 * right_end
    position = style.length_axis(axes, left_end, right_end)
    draw_bars(axes, bins, _BARS)
    # The 1 is for a bucket without samples.
    padding = [bucket.padding_tokens / max(bucket.total_tokens, 1) for bucket in report.buckets]
    strength = Normalize(0, max(*padding, _DARKEST))
    # x of the left end, then of the right end of each bucket: its edge is inclusive.
    borders = [float(position(length)) for length in (left_end, *(edge + 1 for edge in edges))]
    for left, right, ratio in zip(borders[:-1], borders[1:], padding, strict=True):
        axes.axvspan(left, right, color=_COLOURS(strength(ratio)), linewidth=0, zorder=0)
        axes.axvline(right, color=style.INK, linewidth=0.8, label="_edge")
    _labels(axes, borders, edges, padding)


def _labels(axes: Axes, borders: list[float], edges: list[int], padding: list[float]) -> None:
    """Write the padding of each bucket above its middle, and its edge, where there is room."""
    # All x and y are shares of the chart: y above 1 is above it, x below 0 left of it.
    border_xs = style.shares_of_axis(axes, borders)
    middles = [(left + right) / 2 for left, right in pairwise(border_xs)]
    look: dict[str, Any] = {"transform": axes.transAxes, "va": "baseline"}
    for height, heading in ((1.075, "padding"), (1.02, "edge")):
        style.note(axes, -0.012, height, heading, ha="right", **look)
    has_room = which_have_room(middles, _LABEL_WIDTH)
    for middle, ratio in compress(zip(middles, padding, strict=True), has_room):
        style.note(axes, middle, 1.075, percent(ratio), ha="center", color=style.INK, **look)
    right_xs = border_xs[1:]
    # `which_have_room` keeps the first: reversed, so that the longest length is named.
    has_room = which_have_room(right_xs[::-1], _LABEL_WIDTH)[::-1]
    for x, edge in compress(zip(right_xs, edges, strict=True), has_room):
        style.note(axes, x, 1.02, f"{edge:,}", ha="center", **look)


def _numbers(axes: Axes, report: BucketReport) -> None:
    """Draw the padding or cost by the number of buckets: dots if optimal, grey for other rules."""
    is_linear = report.cost == "linear"  # a cost of tokens, which is shown as padding
    highest = 0.01  # an axis needs a height where nothing is padded, too
    for rule, results in report.found.items():
        is_optimal = rule == "optimal"
        values = [result.padding_ratio if is_linear else result.cost for result in results]
        highest = max([highest, *values])
        axes.plot(
            [result.wanted for result in results],  # the number of buckets that was asked for
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
    if is_linear:
        style.percent_axis(axes.yaxis)
        axes.set_ylim(0, 1.05 * highest)
    axes.xaxis.set_major_locator(MaxNLocator(16, integer=True, min_n_ticks=1))
    axes.set_xlabel("number of buckets")
    axes.set_ylabel("padding" if is_linear else f"{report.cost} cost, relative")
    axes.set_title("optimal edges; in grey, other rules", color=style.GREY, fontweight="normal")
    axes.grid(axis="y")
