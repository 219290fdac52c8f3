"""The plots of samplers: how often samples of each class are seen, and coverage over epochs."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from batchstat.documents.balance import ClassDraw
from batchstat.render.plots import style
from batchstat.render.plots.labels import without_overlaps
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import subtitle
from batchstat.render.screens.balance_details import by_size
from batchstat.render.text import class_name, one_line, percent
from batchstat.simulation.balance.report import BalanceReport, SamplerResult
from batchstat.words import counted

_MARKERS = "osD^vP*X"  # shapes of dots, as matplotlib names them: a sampler has one of its own
_LONG_KEY = 75  # characters of names above which a legend has three columns instead of five
_SAME_LINE = 0.005  # lines that differ by less than this are drawn as one
_LABEL_HEIGHT = 0.06  # height of a line of a label, as a share of the axis
_WIDE = 8  # a log axis shows factors of which the largest is more than this


def balance_plots(report: BalanceReport) -> dict[str, Picture]:
    """Return the plots `balance` and `coverage`."""
    largest_first = by_size(report)  # indices of the classes, the largest class first
    rows_shown = style.row_places(len(largest_first))
    class_at = {y: largest_first[row] for y, row in rows_shown.items()}
    height = 1.75 + 0.3 * (max(class_at) + 1)  # in inches: title and axis, and each row
    return {
        "balance": Picture(lambda figure: _balance(figure, report, class_at), height),
        "coverage": Picture(lambda figure: _coverage(figure, report), 4.2),
    }


def _seen(each: ClassDraw) -> float:
    return each.after / each.before


def _title(report: BalanceReport) -> str:
    """Return the title: the recommended sampler, and how often it shows samples of classes."""
    row = report.recommended
    if row is None:
        return "How often each sample is seen per epoch, by class"
    largest = max(row.classes, key=lambda each: each.before)
    smallest = min(row.classes, key=lambda each: each.before)
    ends = [f"{class_name(c.label, 24)} {style.times(_seen(c))}" for c in (smallest, largest)]
    return f"{one_line(row.spec, 32)} balances the classes: {ends[0]} per epoch, {ends[1]}"


def _balance(figure: Figure, report: BalanceReport, class_at: dict[float, int]) -> None:
    """Draw the classes as rows, a dot per sampler; `class_at` has the index of a class by y."""
    facts = counted(report.samples, "sample"), "1x: each sample once per epoch"
    style.titled(figure, _title(report), subtitle(report.corpus, report.tokenizer, *facts))
    axes = figure.subplots()
    classes = report.samplers[0].classes  # the same classes for every sampler
    all_factors = [_seen(drawn) for row in report.samplers for drawn in row.classes]
    # On a log axis, a class that is never seen is drawn at the left end.
    left_end = _factor_axis(axes, all_factors)
    for y, i in class_at.items():  # a line from the leftmost dot of a row to its last
        factors = [max(_seen(row.classes[i]), left_end) for row in report.samplers]
        axes.plot([min(factors), max(factors)], [y, y], color=style.PALE_GREY, zorder=1)
    axes.axvline(1, color=style.PALE_GREY, linewidth=0.8, zorder=0)  # each sample once per epoch
    # By the index of a sampler; with it, those with the same draws, whose dots it covers.
    first_with: dict[tuple[int, ...], int] = {}
    names_of: dict[int, list[str]] = {}
    for i, row in enumerate(report.samplers):
        first = first_with.setdefault(tuple(drawn.after for drawn in row.classes), i)
        names_of.setdefault(first, []).append(one_line(row.spec, 32))
    for sampler, names in names_of.items():
        row = report.samplers[sampler]
        axes.plot(
            [max(_seen(row.classes[i]), left_end) for i in class_at.values()],
            list(class_at),
            linestyle="none",
            marker=_MARKERS[sampler % len(_MARKERS)],
            label=", ".join(names),
            clip_on=False,
            zorder=3,
            **_look(row, sampler),
        )
    labels = {
        y: f"{class_name(classes[i].label, 24)} ({classes[i].before:,})"
        for y, i in class_at.items()
    }
    style.row_axis(axes, labels)
    # Where classes are left out, the row `style.LARGEST` is free for a note on them.
    if hidden := len(classes) - len(class_at):
        look: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "fontstyle": "italic"}
        style.note(axes, 0.01, style.LARGEST, f"{hidden:,} more classes", **look)
    axes.set_xlabel("times that each sample is seen per epoch, on average")
    characters = sum(len(name) for names in names_of.values() for name in names)
    style.key(axes, columns=5 if characters < _LONG_KEY else 3)


def _look(row: SamplerResult, sampler: int) -> dict[str, Any]:
    """Return the look of dots: for `none` a large ring, so that dots inside it are seen."""
    if row.name == "none":
        return {"markersize": 10, "color": style.INK, "markerfacecolor": "none"}
    return {
        "markersize": 7,
        "color": style.SERIES[sampler % len(style.SERIES)],
        "markeredgecolor": "white",
        "markeredgewidth": 0.7,
    }


def _factor_axis(axes: Axes, factors: Sequence[float]) -> float:
    """Format an axis of factors: linear from 0, else logarithmic with 0 at the left, "never"."""
    positive = [factor for factor in factors if factor > 0]
    least, most = min(positive), max(positive)
    if most <= _WIDE:
        axes.set_xlim(0, max(1.1, most * 1.05))
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.xaxis.set_major_formatter(FuncFormatter(style.times))
        return 0.0
    axes.set_xscale("log")
    has_zero = len(positive) < len(factors)
    # More space to the left of the least factor if "never" is written there.
    left_end = min(least, 1) / (2.5 if has_zero else 1.15)
    axes.set_xlim(left_end, most * 1.15)
    # No tick may stand so near to the left end that its label covers "never".
    lowest_tick = 1.8 * left_end if has_zero else left_end
    powers = [10.0**exponent for exponent in range(-7, 8)]
    candidates = [factor * power for power in powers for factor in (1, 2, 5)]
    ticks = [candidate for candidate in candidates if lowest_tick < candidate <= most * 1.1]
    if len(ticks) > 10:  # too many: only the powers of ten
        ticks = [tick for tick in ticks if tick in powers]
    axes.xaxis.set_major_locator(FixedLocator([left_end, *ticks] if has_zero else ticks))

    def label(tick: float, _: object) -> str:
        return "never" if has_zero and tick == left_end else f"{tick:g}x"

    axes.xaxis.set_major_formatter(FuncFormatter(label))
    axes.xaxis.set_minor_locator(NullLocator())
    return left_end


def _coverages(row: SamplerResult) -> tuple[float, ...]:
    return tuple(seen / row.corpus_samples for seen in row.seen)


def _coverage_title(report: BalanceReport) -> str:
    """Return after how many epochs samplers have shown the corpus, or the least share shown."""
    epochs = counted(report.epochs, "epoch")
    slowest = min(report.samplers, key=lambda row: row.coverage_after)
    if slowest.coverage_after == 1:
        epochs_needed = max(_coverages(row).index(1.0) for row in report.samplers) + 1
        return f"Every sampler has seen the whole corpus after {counted(epochs_needed, 'epoch')}"
    share = percent(slowest.coverage_after)
    verb = "shows" if report.epochs == 1 else "show"
    text = f"{epochs} of {one_line(slowest.spec, 32)} {verb} {share} of the corpus"
    recommended = report.recommended
    if recommended is None or recommended is slowest:
        return text
    return f"{text}, of {one_line(recommended.spec, 32)} {percent(recommended.coverage_after)}"


def _coverage(figure: Figure, report: BalanceReport) -> None:
    """Draw a line per sampler: the share of the corpus shown after each epoch."""
    facts = subtitle(report.corpus, report.tokenizer, counted(report.samples, "sample"))
    style.titled(figure, _coverage_title(report), facts)
    axes = figure.subplots()
    # By the index of a sampler; with it, those of about the same coverage, whose lines it covers.
    names_of: dict[int, list[str]] = {}
    all_coverages = np.array([_coverages(row) for row in report.samplers])  # (samplers, epochs)
    for i, row in enumerate(report.samplers):
        near = [j for j in names_of if abs(all_coverages[i] - all_coverages[j]).max() < _SAME_LINE]
        names_of.setdefault(near[0] if near else i, []).append(one_line(row.spec, 28))
    texts = [
        textwrap.fill(", ".join(names), 30, break_on_hyphens=False) for names in names_of.values()
    ]
    heights = [_LABEL_HEIGHT * (text.count("\n") + 1) for text in texts]
    coverages = [_coverages(report.samplers[sampler]) for sampler in names_of]
    label_ys = without_overlaps([coverage[-1] for coverage in coverages], heights)
    for sampler, coverage, text, label_y in zip(names_of, coverages, texts, label_ys, strict=True):
        colour = style.SERIES[sampler % len(style.SERIES)]
        axes.plot(
            range(1, report.epochs + 1),
            coverage,
            color=colour,
            marker=_MARKERS[sampler % len(_MARKERS)],
            markersize=5,
            clip_on=False,
            zorder=3,
            label=text.replace("\n", " "),
        )
        style.beside_row(axes, label_y, text, (10, 0), end=1, color=colour, fontweight="bold")
    axes.set_ylim(0, 1)
    # A single epoch would be an axis without width.
    axes.set_xlim(*((1, report.epochs) if report.epochs > 1 else (0.5, 1.5)))
    style.percent_axis(axes.yaxis)
    style.count_axis(axes.xaxis)
    axes.set_xlabel("epochs")
    axes.set_ylabel("samples seen at least once")
    axes.grid(axis="y")
