"""The plot of classes: the lengths of each, and how many samples it has."""

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from batchstat.errors import counted
from batchstat.lengths.stats import LengthStats
from batchstat.profiling.profile import ClassCount, Profile
from batchstat.render.plots import style
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import subtitle
from batchstat.render.text import class_name, percent

_MOST_ROWS, _LARGEST, _SMALLEST = 24, 15, 5
_DRAWN = {"whislo": 10, "q1": 250, "med": 500, "q3": 750, "whishi": 990}
"""What a box shows, in thousandths."""


class _Rows(NamedTuple):
    """The classes that are drawn, at their places, and those between them that are not."""

    shown: dict[float, ClassCount]
    between: tuple[ClassCount, ...]

    @property
    def height(self) -> float:
        """Number of rows."""
        return max(self.shown) + 1


def class_plots(profile: Profile) -> dict[str, Picture]:
    """Return `lengths_by_class` if the corpus has labels."""
    if profile.labels is None:
        return {}
    rows = _rows(profile.classes)
    height = 1.65 + 0.3 * rows.height
    return {"lengths_by_class": Picture(lambda figure: _classes(figure, profile, rows), height)}


def _rows(classes: tuple[ClassCount, ...]) -> _Rows:
    if len(classes) <= _MOST_ROWS:
        return _Rows(dict(enumerate(classes)), ())
    shown: dict[float, ClassCount] = dict(enumerate(classes[:_LARGEST]))
    shown |= {_LARGEST + 1 + i: each for i, each in enumerate(classes[-_SMALLEST:])}
    return _Rows(shown, classes[_LARGEST:-_SMALLEST])


def _title(profile: Profile) -> str:
    classes = [each for each in profile.classes if each.label is not None]
    if len(classes) < 2:
        return "One class" if classes else "No sample has a class"
    most, least = classes[0], classes[-1]
    names = [class_name(each.label, 24) for each in (most, least)]
    if most.count == least.count:
        words = f"{len(classes):,} classes of {counted(most.count, 'sample')} each"
    else:
        ratio = style.times(most.count / least.count)
        words = f"{names[0]} has {ratio} as many samples as {names[1]}"
    longest = max(classes, key=lambda each: each.mean_length)
    shortest = min(classes, key=lambda each: each.mean_length)
    if longest.mean_length < 1.1 * max(shortest.mean_length, 1):
        return f"{words}; lengths are alike"
    if len(classes) > 2:
        ends = f"{shortest.mean_length:,.0f} to {longest.mean_length:,.0f}"
        return f"{words}; mean lengths {ends} tokens"
    both = [f"{class_name(c.label, 20)} {c.mean_length:,.0f}" for c in (longest, shortest)]
    return f"{words}; mean length: {', '.join(both)}"


def _classes(figure: Figure, profile: Profile, rows: _Rows) -> None:
    sizes = counted(len(profile), "sample"), counted(len(profile.classes), "class", "classes")
    style.titled(figure, _title(profile), subtitle(profile.corpus, profile.tokenizer, *sizes))
    lengths, counts = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1.25))
    stats = {
        place: LengthStats.of(profile.lengths_of(each.label)) for place, each in rows.shown.items()
    }
    low = min(each.percentile(_DRAWN["whislo"]) for each in stats.values())
    high = max(each.percentile(_DRAWN["whishi"]) for each in stats.values())
    position = style.length_axis(lengths, *_range(low, high))
    lengths.bxp(
        [
            {name: float(position(found.percentile(at))) for name, at in _DRAWN.items()}
            | {"mean": float(position(found.mean))}
            for found in stats.values()
        ],
        positions=list(stats),
        widths=0.52,
        orientation="horizontal",
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": style.PALE_BLUE, "edgecolor": style.BLUE, "linewidth": 0.8},
        whiskerprops={"color": style.BLUE, "linewidth": 0.8},
        capprops={"color": style.BLUE, "linewidth": 0.8},
        medianprops={"color": style.INK, "linewidth": 1.6},
        showmeans=True,
        meanprops={
            "marker": "D",
            "markersize": 4.5,
            "markerfacecolor": style.ORANGE,
            "markeredgecolor": style.INK,
            "markeredgewidth": 0.6,
        },
        manage_ticks=False,
    )
    lengths.set_yticks(
        list(rows.shown), [class_name(each.label, 28) for each in rows.shown.values()]
    )
    lengths.set_ylim(rows.height - 0.4, -0.6)
    lengths.tick_params(axis="y", length=0, labelcolor=style.INK)
    lengths.grid(axis="x")
    style.key(
        lengths,
        handles=[
            Patch(facecolor=style.PALE_BLUE, edgecolor=style.BLUE, label="p25 to p75"),
            Line2D([], [], color=style.INK, linewidth=1.6, label="median"),
            Line2D(
                *([], []),
                linestyle="none",
                marker="D",
                markersize=4.5,
                markerfacecolor=style.ORANGE,
                markeredgecolor=style.INK,
                markeredgewidth=0.6,
                label="mean",
            ),
            Line2D([], [], color=style.BLUE, linewidth=0.8, label="p1 to p99"),
        ],
    )
    _counts(counts, rows)


def _range(low: int, high: int) -> tuple[float, float]:
    """Return the axis from a little below the lowest whisker to a little above the highest."""
    if style.is_narrow(low, high):
        space = max(0.1 * low, 1) if low == high else 0.04 * (high - low)
        return max(0, low - space), high + space
    return low / 1.1, high * 1.1


def _counts(axes: Axes, rows: _Rows) -> None:
    largest = max(each.count for each in rows.shown.values())
    axes.barh(
        list(rows.shown),
        [each.count for each in rows.shown.values()],
        height=0.52,
        color=style.BLUE,
    )
    for place, each in rows.shown.items():
        axes.text(
            *(each.count, place, f" {each.count:,}  {percent(each.share)}"),
            va="center",
            fontsize=8,
        )
    if rows.between:
        samples = sum(each.count for each in rows.between)
        axes.text(
            *(0, _LARGEST, f" {len(rows.between):,} more classes: {counted(samples, 'sample')}"),
            va="center",
            fontsize=8,
            fontstyle="italic",
            color=style.GREY,
        )
    axes.set_xlim(0, largest * 1.7)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title("samples", fontsize=9, fontweight="normal", color=style.GREY)
