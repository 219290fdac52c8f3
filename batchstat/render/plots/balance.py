"""The plots of samplers: how often samples of each class are seen, and coverage over epochs."""

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from batchstat.documents.balance import ClassDraw
from batchstat.errors import counted
from batchstat.render.plots import style
from batchstat.render.plots.labels import spread
from batchstat.render.plots.style import Picture
from batchstat.render.plots.subtitles import subtitle
from batchstat.render.screens.balance_details import by_size
from batchstat.render.text import class_name, one_line, percent
from batchstat.simulation.balance.report import BalanceReport, SamplerResult

_MARKERS = "osD^vP*X"
_LONG_KEY = 75
_SAME_LINE = 0.005
"""Lines that differ by less than this are drawn as one."""
_LABEL_HEIGHT = 0.06
_WIDE = 8
"""A log axis shows factors of which the largest is more than this."""


def balance_plots(report: BalanceReport) -> dict[str, Picture]:
    """Return `balance` and `coverage`."""
    largest_first = by_size(report)
    places = {at: largest_first[i] for at, i in style.row_places(len(largest_first)).items()}
    height = 1.75 + 0.3 * (max(places) + 1)
    return {
        "balance": Picture(lambda figure: _balance(figure, report, places), height),
        "coverage": Picture(lambda figure: _coverage(figure, report), 4.2),
    }


def _seen(each: ClassDraw) -> float:
    """Return how often each sample of a class is seen per epoch, on average."""
    return each.after / each.before


def _together(report: BalanceReport) -> dict[int, list[str]]:
    """Return the samplers to draw, by their places, each with the names of all that draw every
    class equally often.
    """
    first: dict[tuple[int, ...], int] = {}
    names: dict[int, list[str]] = {}
    for i, row in enumerate(report.samplers):
        place = first.setdefault(tuple(each.after for each in row.classes), i)
        names.setdefault(place, []).append(one_line(row.spec, 32))
    return names


def _title(report: BalanceReport) -> str:
    row = report.recommended
    if row is None:
        return "How often each sample is seen per epoch, by class"
    most = max(row.classes, key=lambda each: each.before)
    least = min(row.classes, key=lambda each: each.before)
    times = [f"{class_name(each.label, 24)} {style.times(_seen(each))}" for each in (least, most)]
    return f"{one_line(row.spec, 32)} balances the classes: {times[0]} per epoch, {times[1]}"


def _balance(figure: Figure, report: BalanceReport, places: dict[float, int]) -> None:
    words = counted(report.samples, "sample"), "1x: each sample once per epoch"
    style.titled(figure, _title(report), subtitle(report.corpus, report.tokenizer, *words))
    axes = figure.subplots()
    classes = report.samplers[0].classes
    every = [_seen(each) for row in report.samplers for each in row.classes]
    floor = _factor_axis(axes, every)
    for place, i in places.items():
        own = [max(_seen(row.classes[i]), floor) for row in report.samplers]
        axes.plot([min(own), max(own)], [place, place], color=style.PALE_GREY, zorder=1)
    axes.axvline(1, color=style.PALE_GREY, linewidth=0.8, zorder=0)
    together = _together(report)
    for number, names in together.items():
        row = report.samplers[number]
        axes.plot(
            [max(_seen(row.classes[i]), floor) for i in places.values()],
            list(places),
            linestyle="none",
            marker=_MARKERS[number % len(_MARKERS)],
            label=", ".join(names),
            clip_on=False,
            zorder=3,
            **_look(row, number),
        )
    labels = {
        at: f"{class_name(classes[i].label, 24)} ({classes[i].before:,})"
        for at, i in places.items()
    }
    style.row_axis(axes, labels)
    if hidden := len(classes) - len(places):
        across: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "fontstyle": "italic"}
        style.note(axes, 0.01, style.LARGEST, f"{hidden:,} more classes", **across)
    axes.set_xlabel("times that each sample is seen per epoch, on average")
    width = sum(len(name) for names in together.values() for name in names)
    style.key(axes, columns=5 if width < _LONG_KEY else 3)


def _look(row: SamplerResult, number: int) -> dict[str, Any]:
    """Return the look of a sampler's dots: a ring for `none`, which others may lie on."""
    if row.name == "none":
        return {"markersize": 10, "color": style.INK, "markerfacecolor": "none"}
    return {
        "markersize": 7,
        "color": style.SERIES[number % len(style.SERIES)],
        "markeredgecolor": "white",
        "markeredgewidth": 0.7,
    }


def _factor_axis(axes: Axes, factors: Sequence[float]) -> float:
    """Format an axis of factors, log if they are far apart; return its left end."""
    above = [each for each in factors if each > 0]
    low, high = min(above), max(above)
    if high <= _WIDE:
        axes.set_xlim(0, max(1.1, high * 1.05))
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.xaxis.set_major_formatter(FuncFormatter(style.times))
        return 0.0
    axes.set_xscale("log")
    has_none = len(above) < len(factors)
    floor = min(low, 1) / (2.5 if has_none else 1.15)
    axes.set_xlim(floor, high * 1.15)
    least = 1.8 * floor if has_none else floor
    steps = [m * 10.0**e for e in range(-7, 8) for m in (1, 2, 5)]
    ticks = [step for step in steps if least < step <= high * 1.1]
    if len(ticks) > 10:
        ticks = [tick for tick in ticks if f"{tick:.0e}"[0] == "1"]
    axes.xaxis.set_major_locator(FixedLocator([floor, *ticks] if has_none else ticks))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: "never" if has_none and value == floor else f"{value:g}x")
    )
    axes.xaxis.set_minor_locator(NullLocator())
    return floor


def _shares(row: SamplerResult) -> tuple[float, ...]:
    """Return the coverage after each epoch."""
    return tuple(seen / row.corpus_samples for seen in row.seen)


def _coverage_title(report: BalanceReport) -> str:
    epochs = counted(report.epochs, "epoch")
    least = min(report.samplers, key=lambda row: row.coverage_after)
    if least.coverage_after == 1:
        last = max(_shares(row).index(1.0) for row in report.samplers) + 1
        return f"Every sampler has seen the whole corpus after {counted(last, 'epoch')}"
    seen = percent(least.coverage_after)
    verb = "shows" if report.epochs == 1 else "show"
    words = f"{epochs} of {one_line(least.spec, 32)} {verb} {seen} of the corpus"
    best = report.recommended
    if best is None or best is least:
        return words
    return f"{words}, of {one_line(best.spec, 32)} {percent(best.coverage_after)}"


def _coinciding(report: BalanceReport) -> dict[int, list[str]]:
    """Return the lines to draw, by the places of their samplers, each with the names of all
    samplers that it stands for.
    """
    lines: dict[int, list[str]] = {}
    shares = [_shares(row) for row in report.samplers]
    for i, row in enumerate(report.samplers):
        same = (
            place
            for place in lines
            if max(abs(a - b) for a, b in zip(shares[i], shares[place], strict=True)) < _SAME_LINE
        )
        lines.setdefault(next(same, i), []).append(one_line(row.spec, 28))
    return lines


def _coverage(figure: Figure, report: BalanceReport) -> None:
    samples = counted(report.samples, "sample")
    style.titled(
        figure, _coverage_title(report), subtitle(report.corpus, report.tokenizer, samples)
    )
    axes = figure.subplots()
    lines = _coinciding(report)
    texts = [
        textwrap.fill(", ".join(names), 30, break_on_hyphens=False) for names in lines.values()
    ]
    heights = [_LABEL_HEIGHT * (text.count("\n") + 1) for text in texts]
    shares = [_shares(report.samplers[place]) for place in lines]
    ends = spread([each[-1] for each in shares], heights)
    for number, values, text, end in zip(lines, shares, texts, ends, strict=True):
        colour = style.SERIES[number % len(style.SERIES)]
        axes.plot(
            range(1, report.epochs + 1),
            values,
            color=colour,
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=5,
            clip_on=False,
            zorder=3,
            label=text.replace("\n", " "),
        )
        style.beside_row(axes, end, text, (10, 0), end=1, color=colour, fontweight="bold")
    axes.set_ylim(0, 1)
    axes.set_xlim(*((1, report.epochs) if report.epochs > 1 else (0.5, 1.5)))
    style.percent_axis(axes.yaxis)
    style.count_axis(axes.xaxis)
    axes.set_xlabel("epochs")
    axes.set_ylabel("samples seen at least once")
    axes.grid(axis="y")
