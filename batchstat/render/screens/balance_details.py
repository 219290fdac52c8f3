"""What `balance --details` adds: what is drawn, how it batches, and what each rank gets."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from batchstat.render.screens.layout import Caption, Line, Rows
from batchstat.render.text import class_name, decimal, one_line, percent, span
from batchstat.simulation.balance.report import BalanceReport, SamplerResult

_MOST_CLASSES = 12
_APART = 0.1


def balance_details(report: BalanceReport) -> Iterator[RenderableType]:
    """Yield the tables of what samplers draw, of its batches, of each class, and of the ranks."""
    strategy = one_line(report.samplers[0].row.label)
    yield from (Caption("drawn", _what_is_drawn(report)), _drawn(report), Text())
    yield Caption("batches", f"by {strategy}; compute is relative to none")
    yield from (_batches(report), *_separated(report), Text())
    yield from (Caption("classes", _which_classes(report)), _classes(report))
    if report.basis.world_size > 1:
        words = "per rank: samples, largest class / smallest, steps; then over all ranks"
        yield from (Text(), Caption("ranks", words), _ranks(report))


def _separated(report: BalanceReport) -> Iterator[RenderableType]:
    """Yield how far batching separates the classes, where it does."""
    apart = [
        f"{one_line(row.spec)} {mixing.homogeneity:.2f}"
        for row in report.samplers
        if (mixing := row.row.counts.sample_coverage.mixing) is not None
        and (mixing.homogeneity or 0) > _APART
    ]
    if apart:
        strategy = report.samplers[0].row.label
        words = "separates the classes (0 is random, 1 one class per batch)"
        yield Line("", f"{strategy} {words}: {', '.join(apart)}")


def _what_is_drawn(report: BalanceReport) -> str:
    basis = report.basis
    if basis.distribute == "independent" and basis.world_size > 1:
        return "as if all ranks shared one seed, which they do not here: see ranks"
    return "by the sampler, before truncation, batching and distribution"


def _drawn(report: BalanceReport) -> Rows:
    rows = Rows(
        *("sampler", "samples", "tokens", "mean length", "class ratio"),
        *("coverage", f"after {report.epochs}", "unseen", "repeats"),
    )
    for row in report.samplers:
        last = row.ratios[-1]
        rows.add(
            _name(row),
            f"{row.samples:,}",
            f"{row.lengths.sum:,}",
            f"{row.lengths.mean:,.1f}",
            f"{row.class_ratio:,.2f}" + (f" to {last:,.2f}" if _differ(row) else ""),
            percent(row.coverage),
            percent(row.coverage_after),
            f"{row.unseen:,}",
            f"{row.max_repeats:,}",
        )
    return rows


def _name(row: SamplerResult) -> Text:
    return Text(one_line(row.spec, 40))


def _differ(row: SamplerResult) -> bool:
    """Return whether the class ratio changes over epochs, beyond chance."""
    return row.name == "dynamic" and row.ratios[0] != row.ratios[-1]


def _batches(report: BalanceReport) -> Rows:
    rows = Rows(
        *("sampler", "compute", "padding", "batches", "fill", "coverage"),
        *("classes/batch", "single class", "class homogeneity"),
    )
    for row in report.samplers:
        counts, mixing = row.row.counts, row.row.counts.sample_coverage.mixing
        assert mixing is not None
        rows.add(
            _name(row),
            decimal(row.relative_compute),
            percent(counts.padding_ratio, 2),
            f"{counts.batches:,}",
            percent(counts.fill),
            percent(counts.sample_coverage.coverage),
            f"{mixing.classes_per_batch.mean:,.2f}",
            percent(mixing.single_class_ratio),
            decimal(mixing.homogeneity),
        )
    return rows


def _which_classes(report: BalanceReport) -> str:
    shown = min(len(report.samplers[0].classes), _MOST_CLASSES)
    more = len(report.samplers[0].classes) - shown
    return "samples of each" + (f"; {more:,} smaller ones are in balance.json" if more else "")


def by_size(report: BalanceReport) -> list[int]:
    """Return the places of the classes, those with the most samples first."""
    classes = report.samplers[0].classes
    return sorted(range(len(classes)), key=lambda i: -classes[i].before)


def _classes(report: BalanceReport) -> Rows:
    first, order = report.samplers[0].classes, by_size(report)[:_MOST_CLASSES]
    rows = Rows("sampler", *(class_name(first[i].label, 24) for i in order))
    total = sum(each.before for each in first)
    rows.add(Text("the corpus"), *(_share(first[i].before, total) for i in order))
    for row in report.samplers:
        total = sum(each.after for each in row.classes)
        rows.add(_name(row), *(_share(row.classes[i].after, total) for i in order))
    return rows


def _share(count: int, total: int) -> str:
    return f"{count:,} ({percent(count / total)})"


def _ranks(report: BalanceReport) -> Rows:
    rows = Rows(
        *("sampler", "samples", "class ratio", "steps", "rank idle"),
        *("shared", "unseen", "repeated", "dropped"),
    )
    for row in report.samplers:
        counts, reach = row.row.counts, row.row.counts.sample_coverage
        held = [each.samples for each in reach.ranks]
        rows.add(
            _name(row),
            span(min(held), max(held)),
            _ratios([each.classes for each in reach.ranks]),
            span(counts.ranks.min_steps, counts.ranks.max_steps),
            percent(counts.rank_idle),
            f"{reach.shared_samples:,}",
            f"{reach.unseen_samples:,}",
            f"{counts.duplicated_samples:,}",
            f"{counts.dropped_samples:,}",
        )
    return rows


def _ratios(ranks: list[tuple[int, ...]]) -> str:
    """Return the largest class / smallest, from the lowest to the highest of any rank."""
    ratios = [max(held) / min(held) for held in ranks if min(held)]
    if len(ratios) < len(ranks):
        return "class missing"
    low, high = f"{min(ratios):,.2f}", f"{max(ratios):,.2f}"
    return low if low == high else f"{low}-{high}"
