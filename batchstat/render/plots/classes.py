"""The plot of classes: a box of the lengths of each class, and a bar of its number of samples."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchstat.lengths.stats import LengthStats
from batchstat.profiling.profile import ClassCount, Profile
from batchstat.render.plots import style
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import subtitle
from batchstat.render.text import class_name, percent
from batchstat.words import counted

_BOX_PERCENTILES = {"whislo": 10, "q1": 250, "med": 500, "q3": 750, "whishi": 990}
"""The percentiles that a box shows, in thousandths, by matplotlib's names."""

_BOX: dict[str, Any] = {"facecolor": style.PALE_BLUE, "edgecolor": style.BLUE}
_WHISKER: dict[str, Any] = {"color": style.BLUE, "linewidth": 0.8}
_MEDIAN: dict[str, Any] = {"color": style.INK, "linewidth": 1.6}
_MEAN: dict[str, Any] = {
    "marker": "D",
    "markersize": 4.5,
    "markerfacecolor": style.ORANGE,
    "markeredgecolor": style.INK,
    "markeredgewidth": 0.6,
}


def class_plots(profile: Profile) -> dict[str, Picture]:
    """Return the plot `lengths_by_class`; none for a corpus without labels."""
    if profile.labels is None:
        return {}
    places = style.row_places(len(profile.classes))
    class_at = {place: profile.classes[i] for place, i in places.items()}
    height = 1.65 + 0.3 * (max(class_at) + 1)
    return {"lengths_by_class": Picture(lambda figure: _classes(figure, profile, class_at), height)}


def _title(profile: Profile) -> str:
    """Return the title: how unequal the sizes of the classes are, and their mean lengths."""
    classes = [each for each in profile.classes if each.label is not None]
    if len(classes) < 2:
        return "One class" if classes else "No sample has a class"
    # Classes are sorted by their number of samples.
    largest, smallest = classes[0], classes[-1]
    names = [class_name(each.label, 24) for each in (largest, smallest)]
    if largest.count == smallest.count:
        words = f"{len(classes):,} classes of {counted(largest.count, 'sample')} each"
    else:
        ratio = style.times(largest.count / smallest.count)
        words = f"{names[0]} has {ratio} as many samples as {names[1]}"
    longest = max(classes, key=lambda each: each.mean_length)
    shortest = min(classes, key=lambda each: each.mean_length)
    if longest.mean_length < 1.1 * max(shortest.mean_length, 1):
        return f"{words}; lengths are alike"
    if len(classes) > 2:
        ends = f"{shortest.mean_length:,.0f} to {longest.mean_length:,.0f}"
        return f"{words}; mean lengths {ends} tokens"
    mean_lengths = [f"{class_name(c.label, 20)} {c.mean_length:,.0f}" for c in (longest, shortest)]
    return f"{words}; mean length: {', '.join(mean_lengths)}"


def _classes(figure: Figure, profile: Profile, class_at: dict[float, ClassCount]) -> None:
    """Draw a box of lengths and a bar of samples per class; `class_at` has these by y."""
    sizes = counted(len(profile), "sample"), counted(len(profile.classes), "class", "classes")
    style.titled(figure, _title(profile), subtitle(profile.corpus, profile.tokenizer, *sizes))
    box_axes, count_axes = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1.25))
    _boxes(box_axes, {y: LengthStats.of(profile.lengths_of(c.label)) for y, c in class_at.items()})
    style.row_axis(box_axes, {y: class_name(each.label, 28) for y, each in class_at.items()})
    handles = [
        Patch(label="p25 to p75", **_BOX),
        Line2D([], [], label="median", **_MEDIAN),
        Line2D([], [], label="mean", linestyle="none", **_MEAN),
        Line2D([], [], label="p1 to p99", **_WHISKER),
    ]
    style.key(box_axes, handles=handles)
    _counts(count_axes, profile, class_at)


def _boxes(axes: Axes, stats_at: dict[float, LengthStats]) -> None:
    """Draw boxes from p25 to p75 with whiskers from p1 to p99; `stats_at` has lengths by y."""
    low = min(stats.percentile(_BOX_PERCENTILES["whislo"]) for stats in stats_at.values())
    high = max(stats.percentile(_BOX_PERCENTILES["whishi"]) for stats in stats_at.values())
    ends = low / 1.1, high * 1.1  # of a log axis, where equal space is an equal factor
    if style.is_narrow(low, high):
        # Where all lengths are equal, there is no range to take a share of.
        space = max(0.1 * low, 1) if low == high else 0.04 * (high - low)
        ends = max(0, low - space), high + space
    position = style.length_axis(axes, *ends)
    boxes = []
    for stats in stats_at.values():
        lengths = {name: stats.percentile(each) for name, each in _BOX_PERCENTILES.items()}
        lengths_and_mean = {**lengths, "mean": stats.mean}
        boxes.append({name: float(position(x)) for name, x in lengths_and_mean.items()})
    axes.bxp(
        boxes,
        positions=list(stats_at),
        widths=0.52,
        orientation="horizontal",
        showfliers=False,
        patch_artist=True,
        boxprops={**_BOX, "linewidth": 0.8},
        whiskerprops=_WHISKER,
        capprops=_WHISKER,
        medianprops=_MEDIAN,
        showmeans=True,
        meanprops=_MEAN,
        manage_ticks=False,
    )


def _counts(axes: Axes, profile: Profile, class_at: dict[float, ClassCount]) -> None:
    """Draw a bar for each class that is shown: its number of samples, and their share of all."""
    counts = [each.count for each in class_at.values()]
    axes.barh(list(class_at), counts, height=0.52, color=style.BLUE)
    for y, each in class_at.items():
        text = f" {each.count:,}  {percent(each.share)}"
        style.note(axes, each.count, y, text, color=style.INK)
    # Classes that are not shown: `row_places` leaves a row free for this note on them.
    if hidden := len(profile.classes) - len(class_at):
        samples = sum(each.count for each in profile.classes) - sum(counts)
        text = f" {hidden:,} more classes: {counted(samples, 'sample')}"
        style.note(axes, 0, style.LARGEST, text, fontstyle="italic")
    axes.set_xlim(0, max(counts) * 1.7)  # with room for the numbers to the right of the bars
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title("samples", fontsize=9, fontweight="normal", color=style.GREY)
