"""The plot of bucket edges: padding against the number of buckets, by rule."""

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from batchstat.errors import counted
from batchstat.render.plots import style
from batchstat.render.text import corpus_name, one_line
from batchstat.simulation.bucket_search import BucketReport

_LOOKS = {
    "optimal": (style.VERMILION, "D", "-"),
    "equal-cost": (style.ORANGE, "s", "--"),
    "equal-tokens": (style.BLUE, "o", "--"),
    "uniform": (style.SKY, "^", ":"),
    "quantile": (style.GREY, "v", ":"),
    "geometric": ("black", "x", ":"),
}


def bucket_plots(report: BucketReport) -> dict[str, bytes]:
    """Draw `buckets.png`."""
    return {"buckets.png": style.png(lambda figure: _rules(figure, report), 4.8)}


def _rules(figure: Figure, report: BucketReport) -> None:
    paths = [source.path for source in report.corpus.sources] if report.corpus else []
    by = f" · {one_line(report.tokenizer.name)}" if report.tokenizer else ""
    whose = f"{corpus_name(paths)}{by} · {counted(report.samples, 'sample')}"
    linear = report.cost == "linear"
    what = "Padding" if linear else f"Cost ({report.cost})"
    style.title(figure, f"{what} of rows as wide as their bucket's edge", whose)
    axes = figure.subplots()
    for rule, (colour, marker, line) in _LOOKS.items():
        points = report.found[rule]
        axes.plot(
            [each.wanted for each in points],
            [each.padding_ratio if linear else each.cost for each in points],
            color=colour,
            marker=marker,
            linestyle=line,
            markersize=5,
            label=rule,
        )
    chosen = counted(report.wanted, "bucket")
    axes.axvline(report.wanted, color=style.GREY, linewidth=0.8, label=f"chosen: {chosen}")
    style.count_axis(axes.xaxis)
    if linear:
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_ylim(bottom=0)
    axes.set_xlabel("buckets")
    axes.set_ylabel("padding, share of tokens computed" if linear else "computed / needed")
    axes.grid(axis="y", alpha=0.3)
    style.open_frame(axes)
    axes.legend(frameon=False)
