"""The plots of a profile: its lengths, and the lengths of each class."""

from collections.abc import Callable
from itertools import compress
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchstat.lengths.stats import Histogram, LengthStats, log_edges
from batchstat.profiling.profile import Profile
from batchstat.render.plots import style
from batchstat.render.plots.classes import class_plots
from batchstat.render.plots.labels import which_have_room
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import subtitle
from batchstat.render.text import percent
from batchstat.words import counted

_BARS = 40  # number of bars on a linear axis
_EVEN_FROM = 16  # from this length on, four bars per octave have whole, about even edges
_CANDIDATE_WIDTH = 0.068  # space for what a `max_length` truncates, as a share of the axis
_PERCENTILES = ((500, "median"), (900, "p90"), (990, "p99"))  # in thousandths, with names


def profile_plots(profile: Profile) -> dict[str, Picture]:
    """Return `lengths`, and of a corpus with labels `lengths_by_class`."""
    lengths = Picture(lambda figure: _lengths(figure, profile), 4.6)
    return {"lengths": lengths, **class_plots(profile)}


def length_bins(stats: LengthStats) -> Histogram:
    """Return the histogram: bars equally wide where the range is narrow, else on a log axis."""
    low, high = stats.min, stats.max
    if style.is_narrow(low, high):
        bar_width = (high - low) // _BARS + 1  # so that at most `_BARS` bars hold all lengths
        return stats.histogram(tuple(range(low, high + bar_width + 1, bar_width)))
    # Fewer bars where p5 is short: there, edges rounded to whole lengths would be uneven.
    per_octave = 4 if stats.percentile(50) >= _EVEN_FROM else 2
    octave_edges = log_edges(low, high, per_octave=per_octave)
    # Only bars that hold lengths: the last edge at or below the shortest, to above the longest.
    first = max(i for i, edge in enumerate(octave_edges) if edge <= low)
    last = min(i for i, edge in enumerate(octave_edges) if edge > high)
    return stats.histogram(octave_edges[first : last + 1])


def draw_bars(axes: Axes, bins: Histogram, colours: Any) -> None:
    """Draw a histogram on an axis of lengths, linear or logarithmic."""
    edges = np.asarray(bins.edges, dtype=np.float64)
    if axes.get_xscale() == "log":
        edges = style.on_log_scale(bins.edges)
    axes.bar(
        edges[:-1],
        bins.counts,
        width=np.diff(edges),
        align="edge",
        color=colours,
        edgecolor="white",
        linewidth=0.6,
    )
    axes.set_ylim(0, 1.03 * max(bins.counts))
    axes.set_ylabel("samples per bin")
    style.count_axis(axes.yaxis)


def _title(profile: Profile) -> str:
    """Return the title: the median length, and what the suggested `max_length` truncates."""
    stats = profile.stats
    if stats.min == stats.max:
        return f"Every sample has {counted(stats.max, 'token')}"
    words = f"Half of the samples have at most {counted(stats.percentile(500), 'token')}"
    suggested = _shown_max_length(profile)
    samples, _ = stats.above(suggested)  # how many are longer, and their tokens
    lost = f"truncates {percent(samples / len(profile), 2)}" if samples else "truncates none"
    return f"{words}; max_length {suggested:,} {lost}"


def _shown_max_length(profile: Profile) -> int:
    return profile.suggested_max_length or profile.truncation[-1].max_length


def _lengths(figure: Figure, profile: Profile) -> None:
    """Draw the histogram with percentiles, and below what each `max_length` truncates."""
    stats, bins = profile.stats, length_bins(profile.stats)
    facts = f"{counted(len(profile), 'sample')} · {counted(stats.sum, 'token')}"
    style.titled(figure, _title(profile), subtitle(profile.corpus, profile.tokenizer, facts))
    axes = figure.subplots()
    # The axis also holds the suggested `max_length`, which may be above all lengths.
    low, high = float(bins.edges[0]), max(bins.edges[-1], _shown_max_length(profile) * 1.02)
    if stats.min == stats.max:
        # One length alone would be an axis without width.
        low, high = stats.max / 2, max(high, 1.5 * stats.max)
    position = style.length_axis(axes, low, high)
    draw_bars(axes, bins, style.SKY)
    scale = "" if axes.get_xscale() == "linear" else " (log scale)"
    axes.set_xlabel("")  # the name of the axis stands to the left of its numbers instead
    _left_of(axes, -0.055, f"tokens per sample{scale}")
    _percentiles(axes, stats, position)
    _candidates(axes, profile, position)


def _left_of(axes: Axes, y: float, words: str) -> None:
    style.note(axes, -0.03, y, words, transform=axes.transAxes, ha="right")


def _percentiles(axes: Axes, stats: LengthStats, position: Callable[..., Any]) -> None:
    """Mark percentiles by dashed lines; a label that would cover another stands higher."""
    # Percentiles at the same length share a label.
    names_at: dict[int, list[str]] = {}
    for thousandths, name in _PERCENTILES:
        names_at.setdefault(stats.percentile(thousandths), []).append(name)
    x_in_data = axes.get_xaxis_transform()  # x in tokens, y from 0 at the bottom to 1 at the top
    dashed: dict[str, Any] = {"color": style.GREY, "linewidth": 0.9, "linestyle": (0, (4, 2))}
    # Where the last label of each line of labels ends, as a share of the axis.
    line_ends = [-1.0] * len(_PERCENTILES)  # left of the axis: no label yet
    for length, merged_names in names_at.items():
        x = float(position(length))
        [share] = style.shares_of_axis(axes, [x])
        label = f"{', '.join(merged_names)} {length:,}"
        # A character is about 0.009 of the axis wide.
        half_width = 0.0045 * len(label)
        # The lowest line with room, where 0 is the lowest; without room in any, the highest.
        with_room = (level for level, end in enumerate(line_ends) if share - half_width > end)
        level = next(with_room, len(line_ends) - 1)
        line_ends[level] = share + half_width + 0.01
        top = 1.0 + 0.05 * level  # just below the label
        axes.plot(
            [x, x], [0, top], transform=x_in_data, clip_on=False, label="_percentile", **dashed
        )
        # Near an end of the axis, a label is aligned inwards so that it does not stick out.
        inwards = "left" if share < 0.5 else "right"
        align = "center" if 0.06 < share < 0.94 else inwards
        look = {"transform": x_in_data, "ha": align, "va": "baseline"}
        style.note(axes, x, 1.012 + 0.05 * level, label, **look)


def _candidates(axes: Axes, profile: Profile, position: Callable[..., Any]) -> None:
    """Write the share that each `max_length` truncates, and mark the suggested one."""
    suggested = _shown_max_length(profile)
    x_of = {each: float(position(each.max_length)) for each in profile.truncation}
    low, high = axes.get_xlim()
    candidates = [each for each, x in x_of.items() if low <= x <= high]
    # The suggested one first: `which_have_room` keeps it, and others only where they have room.
    candidates.sort(key=lambda each: each.max_length != suggested)
    places = style.shares_of_axis(axes, [x_of[each] for each in candidates])
    # Two lines of numbers, at these heights below the axis: each max_length, and what it truncates.
    _left_of(axes, -0.12, "max_length")
    _left_of(axes, -0.172, "truncated samples")
    for each in compress(candidates, which_have_room(places, _CANDIDATE_WIDTH)):
        look, digits = {"transform": axes.get_xaxis_transform(), "ha": "center"}, 1
        if each.max_length == suggested:
            look, digits = look | {"color": style.VERMILION, "fontweight": "bold"}, 2
        style.note(axes, x_of[each], -0.12, f"{each.max_length:,}", **look)
        truncated = percent(each.samples / len(profile), digits)
        style.note(axes, x_of[each], -0.172, truncated, **look)
    word = "suggested" if profile.suggested_max_length else "the tokenizer's"
    _mark_suggested(axes, suggested, float(position(suggested)), word)


def _mark_suggested(axes: Axes, max_length: int, x: float, word: str) -> None:
    """Draw a line at the suggested `max_length`, or at the `word` that it is instead."""
    x_in_data = axes.get_xaxis_transform()
    look: dict[str, Any] = {"color": style.VERMILION, "linewidth": 1.6, "zorder": 0.5}
    axes.plot([x, x], [0, 0.93], transform=x_in_data, label=f"{word} max_length", **look)
    # In the right part of the chart, there is more room to the left of the line.
    is_right = style.shares_of_axis(axes, [x])[0] > 0.6
    axes.annotate(
        f"{word} max_length {max_length:,}",
        (x, 0.93),
        xycoords=x_in_data,
        xytext=(-6 if is_right else 6, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="top",
        fontsize=8.5,
        fontweight="bold",
        color=style.VERMILION,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )
