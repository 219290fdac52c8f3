"""The screen of `buckets`: the optimal edges, what to use, and all rules with details."""

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from batchstat.documents.buckets import BucketTime, Edges
from batchstat.planning.algorithms.bucket_edges import RULES
from batchstat.render.device import EXTRAPOLATED, gib, margin, time_of
from batchstat.render.screens.layout import Caption, Line, Pasted, table
from batchstat.render.screens.simulated import device_lines
from batchstat.render.text import percent, span, with_share
from batchstat.simulation.buckets.report import BucketReport
from batchstat.simulation.buckets.search import NUMBERS
from batchstat.simulation.results import StrategyResult
from batchstat.words import counted


def buckets_screen(
    report: BucketReport, command: Callable[[str], str], details: bool = False
) -> RenderableType:
    """Return what `buckets` prints: the optimal buckets, and lines to paste."""
    parts = [*bucket_facts(report), Text(), bucket_table(report), Text()]
    if report.times:
        parts += [time_table(report), Text()]
    parts += bucket_advice(report, command)
    if not details:
        return Group(*parts, Line("", "More: --details"))
    return Group(*parts, Text(), *rule_details(report))


def rule_details(report: BucketReport) -> Iterator[RenderableType]:
    """Yield what each rule gives, by the number of buckets, the requested one bold."""
    words = "padding" if report.cost == "linear" else "computed / needed"
    yield Caption("by rule", f"{words}, rows as wide as edges")
    rows = table("buckets", *RULES)
    for number in sorted({*NUMBERS, report.wanted}):
        results = [report.of(rule, number) for rule in RULES]
        if any(edges is not None for edges in results):
            style = "bold" if number == report.wanted else ""
            cells = [f"{number}", *(_shown(edges, report) for edges in results)]
            rows.add_row(*(Text(cell, style=style) for cell in cells))
    yield rows


def bucket_facts(report: BucketReport) -> list[RenderableType]:
    """Return the lines above the table: the settings of the search, and the device."""
    return [Line("basis", _basis(report)), *device_lines(report.device, report.basis)]


def bucket_advice(report: BucketReport, command: Callable[[str], str]) -> Iterator[RenderableType]:
    """Yield the number of buckets with the least time, the result, and lines to paste."""
    if report.times:
        yield Line("time", _fastest(report))
    yield Line("result", _verdict(report))
    for word, row in zip(("use", "or"), report.uses, strict=False):
        yield Pasted(word, command(row.label))
        yield Line("", _row_facts(row, report))


def _row_facts(row: StrategyResult, report: BucketReport) -> str:
    """Return what to know of a strategy with these edges: shapes, padding, losses, time."""
    counts = row.counts
    dropped = "no samples dropped"
    if counts.dropped_samples:
        share = percent(counts.dropped_ratio, 2)
        dropped = f"{counted(counts.dropped_samples, 'sample')} dropped, {share} of the tokens"
    padding = f"{percent(counts.padding_ratio, 2)} padding"
    facts = [counted(counts.distinct_shapes, "shape"), padding, dropped]
    if report.device is not None:
        facts.append(f"{time_of(row.on_device)}{_margin(report)} per epoch")
    if row.on_device.fits_memory is False:
        # The 0 is never shown: of a peak that does not fit, the bytes are known.
        facts.append(f"its peak of {gib(counts.peak_bytes or 0)} does not fit the device")
    return ", ".join(facts)


def _basis(report: BucketReport) -> str:
    """Return the line on the settings of the search, and on what the edges minimise."""
    basis = report.basis
    words = [
        f"at most {basis.tokens_per_batch:,} tokens per batch",
        f"max_length {basis.max_length:,} ({basis.overflow})",
        {
            "linear": "least padding",
            "quadratic": "least attention (quadratic, an estimate)",
            "model": "least compute of the model (an estimate)",
            "time": "least time by the calibration",
        }[report.cost],
    ]
    if basis.pad_to_multiple_of > 1:
        words.append(f"edges multiples of {basis.pad_to_multiple_of}")
    if report.min_bucket_samples > 1:
        words.append(f"at least {report.min_bucket_samples:,} samples per bucket")
    return " · ".join(words)


def bucket_table(report: BucketReport) -> Table:
    """Return the table of the optimal edges: lengths, samples, batch size and padding."""
    rows = table("lengths", "samples", "share", "batch size", "padding")
    all_samples = sum(bucket.samples for bucket in report.buckets)
    previous_edge = 0
    for bucket in report.buckets:
        rows.add_row(
            # Such as 65-128; `min` keeps the first of these lengths from exceeding the last.
            span(min(previous_edge + 1, bucket.edge), bucket.edge),
            *with_share(bucket.samples, all_samples),
            f"{bucket.batch_size:,}",
            # The 1 keeps a bucket without samples from a division by 0.
            percent(bucket.padding_tokens / max(bucket.total_tokens, 1)),
        )
        previous_edge = bucket.edge
    return rows


def time_table(report: BucketReport) -> Table:
    """Return the table of the time by the number of buckets, the fastest bold."""
    rows = table("buckets", "shapes", "batches", "new shapes", f"time{_margin(report)}")
    for time in report.times:
        style = "bold" if time.wanted == report.recommended else ""
        seconds = (_seconds(time.batch_seconds), _seconds(time.shape_seconds), _time(time))
        cells = (f"{time.wanted}", f"{time.shapes:,}", *seconds)
        rows.add_row(*(Text(cell, style=style) for cell in cells))
    return rows


def _margin(report: BucketReport) -> str:
    return "" if report.device is None else margin(report.device.time_residual)


def _time(time: BucketTime) -> str:
    return (EXTRAPOLATED if time.is_extrapolated else "") + _seconds(time.seconds)


def _seconds(number: float) -> str:
    return f"{number:,.1f} s" if number >= 10 else f"{number:.3f} s"


def _fastest(report: BucketReport) -> str:
    """Return the fastest number of buckets, its time, and whether new shapes take some of it."""
    best = next(each for each in report.times if each.wanted == report.recommended)
    buckets, epochs = counted(best.wanted, "bucket"), counted(report.epochs, "epoch")
    facts = [f"{buckets} with the least time: {_time(best)}{_margin(report)} for {epochs}"]
    is_free = "the calibration has no time for a new shape"
    facts.append("new shapes included" if best.shape_seconds else is_free)
    if best.is_extrapolated:
        facts.append(f"{EXTRAPOLATED} extrapolated")
    if best.fits_memory is False:
        facts.append("✗ does not fit the device")
    return "; ".join(facts)


def _shown(edges: Edges | None, report: BucketReport) -> str:
    if edges is None:
        return "-"
    return percent(edges.padding_ratio) if report.cost == "linear" else f"{edges.cost:.3f}"


def _verdict(report: BucketReport) -> str:
    """Return the padding with optimal edges, and with the best other rule."""
    chosen = report.chosen
    others = (report.of(rule, report.wanted) for rule in RULES if rule != "optimal")
    nearest = min((edges for edges in others if edges is not None), key=lambda edges: edges.cost)
    # There may be fewer buckets than requested, such as for fewer distinct lengths.
    note = f" (in {len(chosen.edges)} buckets)" if len(chosen.edges) < report.wanted else ""
    return (
        f"{counted(report.wanted, 'bucket')} with optimal edges{note}: {_shown(chosen, report)} "
        f"with every sample padded to its edge; the nearest other rule, {nearest.rule}, gives "
        f"{_shown(nearest, report)}. Batches padded to their longest sample pad less: see compare."
    )
