"""The plots of samplers: classes before and after, and coverage over epochs."""

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from batchstat.errors import counted
from batchstat.render.plots import style
from batchstat.render.text import class_name, corpus_name, one_line, percent
from batchstat.simulation.balances import BalanceReport, SamplerResult

_MOST_CLASSES = 20
_A_ROW = 3
_COLOURS = (style.BLUE, style.VERMILION, style.ORANGE, style.SKY, "black", style.GREY)
_MARKERS = "osD^vxP*"


def balance_plots(report: BalanceReport) -> dict[str, bytes]:
    """Draw `balance.png` and `coverage.png`."""
    shown = min(len(report.samplers[0].classes), _MOST_CLASSES)
    panels = -(-len(report.samplers) // _A_ROW)
    height = 1.2 + panels * (1.0 + 0.34 * shown)
    return {
        "balance.png": style.png(lambda figure: _balance(figure, report), height),
        "coverage.png": style.png(lambda figure: _coverage(figure, report), 4.8),
    }


def _whose(report: BalanceReport) -> str:
    paths = [source.path for source in report.corpus.sources] if report.corpus else []
    return f"{corpus_name(paths)} · {counted(report.samples, 'sample')}"


def _balance(figure: Figure, report: BalanceReport) -> None:
    classes = len(report.samplers[0].classes)
    of = f" · the {_MOST_CLASSES} largest of {classes:,} classes" if classes > _MOST_CLASSES else ""
    style.title(figure, "Classes before and after", _whose(report) + of)
    columns = min(len(report.samplers), _A_ROW)
    rows = -(-len(report.samplers) // columns)
    panels = figure.subplots(rows, columns, sharey=True, sharex=True, squeeze=False).ravel()
    first = report.samplers[0].classes
    order = sorted(range(len(first)), key=lambda i: -first[i].before)[:_MOST_CLASSES]
    for axes, row in zip(panels, report.samplers, strict=False):
        _panel(axes, row, order)
    for axes in panels[len(report.samplers) :]:
        axes.set_visible(False)
    # Escaped, since panels that share the axis would parse a formula between dollar signs.
    names = [class_name(first[i].label, 24).replace("$", r"\$") for i in order]
    panels[0].set_yticks(range(len(order)), names)
    panels[0].set_ylim(len(order) - 0.4, -0.6)
    widest = max(_shares(report, order))
    panels[0].set_xlim(0, 1.25 * widest)
    for axes in panels:
        axes.tick_params(labelbottom=True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)


def _panel(axes: Axes, row: SamplerResult, order: list[int]) -> None:
    before = sum(each.before for each in row.classes)
    after = sum(each.after for each in row.classes)
    for place, i in enumerate(order):
        each = row.classes[i]
        for offset, share, colour, hatch, label in (
            (-0.19, each.before / before, style.GREY, "", "corpus"),
            (0.19, each.after / after, style.BLUE, "///", "one epoch"),
        ):
            axes.barh(
                place + offset,
                share,
                height=0.36,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                label=label if place == 0 else None,
            )
            axes.text(share, place + offset, f" {percent(share)}", va="center", fontsize=7)
    first, last = (f"{ratio:,.1f}" for ratio in (row.ratios[0], row.ratios[-1]))
    ratio = f"class ratio {first}"
    if first != last:
        ratio += f", {last} in epoch {len(row.ratios)}"
    axes.set_title(f"{one_line(row.spec, 30)}\n{ratio}", fontsize=9, parse_math=False)
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.xaxis.set_major_locator(MaxNLocator(3))
    style.open_frame(axes)


def _shares(report: BalanceReport, order: list[int]) -> Iterator[float]:
    for row in report.samplers:
        before = sum(each.before for each in row.classes)
        after = sum(each.after for each in row.classes)
        for i in order:
            yield row.classes[i].before / before
            yield row.classes[i].after / after


def _coverage(figure: Figure, report: BalanceReport) -> None:
    style.title(figure, "Share of the corpus seen, epoch by epoch", _whose(report))
    axes = figure.subplots()
    epochs = range(1, report.epochs + 1)
    for i, row in enumerate(report.samplers):
        colour, line = _COLOURS[i % 6], ("-", "--", ":", "-.")[(i + i // 6) % 4]
        shares = [seen / row.corpus_samples for seen in row.seen]
        axes.plot(
            epochs,
            shares,
            color=colour,
            linestyle=line,
            marker=_MARKERS[i % 8],
            markersize=4,
            label=one_line(row.spec, 32),
        )
        least = [row.least_class_coverage(epoch) for epoch in range(report.epochs)]
        if least != shares:
            axes.plot(epochs, least, color=colour, linestyle=line, linewidth=0.7, alpha=0.6)
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    style.count_axis(axes.xaxis)
    axes.set_xlabel("epochs (thin lines: the least covered class)")
    axes.set_ylabel("seen at least once")
    axes.grid(axis="y", alpha=0.3)
    style.open_frame(axes)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
