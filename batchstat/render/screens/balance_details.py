"""What `balance --details` adds: what is drawn, how it batches, and what each rank gets."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from batchstat.render.screens.comparison_details import mixing_cells
from batchstat.render.screens.layout import Caption, Line, Rows
from batchstat.render.text import class_name, decimal, one_line, percent, span
from batchstat.simulation.balance.report import BalanceReport, SamplerResult
from batchstat.simulation.meters.counts import PlanCounts

_MOST_CLASSES = 12
_APART = 0.1


def balance_details(report: BalanceReport) -> Iterator[RenderableType]:
    """Yield the tables of what samplers draw, of its batches, of each class, and of the ranks."""
    strategy = one_line(report.samplers[0].row.label)
    words = "by the sampler, before truncation, batching and distribution"
    if report.basis.distribute == "independent" and report.basis.world_size > 1:
        words = "as if all ranks shared one seed, which they do not here: see ranks"
    yield from (Caption("drawn", words), _drawn(report), Text())
    yield Caption("batches", f"by {strategy}; compute is relative to none")
    yield from (_batches(report), *_separated(report), Text())
    hidden = len(report.samplers[0].classes) - _MOST_CLASSES
    more = f"; {hidden:,} smaller ones are in balance.json" if hidden > 0 else ""
    yield from (Caption("classes", f"samples of each{more}"), _classes(report))
    if report.basis.world_size > 1:
        words = "per rank: samples, largest class / smallest, steps; then over all ranks"
        yield from (Text(), Caption("ranks", words))
        yield Rows.of(_rank_cells(_name(row), row.row.counts) for row in report.samplers)


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


def _drawn(report: BalanceReport) -> Rows:
    return Rows.of(
        {
            "sampler": _name(row),
            "samples": f"{row.samples:,}",
            "tokens": f"{row.lengths.sum:,}",
            "mean length": f"{row.lengths.mean:,.1f}",
            "class ratio": _class_ratio(row),
            "coverage": percent(row.coverage),
            f"after {report.epochs}": percent(row.coverage_after),
            "unseen": f"{row.unseen:,}",
            "repeats": f"{row.max_repeats:,}",
        }
        for row in report.samplers
    )


def _name(row: SamplerResult) -> str:
    return one_line(row.spec, 40)


def _class_ratio(row: SamplerResult) -> str:
    """Return the class ratio; of `dynamic` up to the last epoch: of others it differs by chance."""
    is_changing = row.name == "dynamic" and row.ratios[0] != row.ratios[-1]
    return f"{row.class_ratio:,.2f}" + (f" to {row.ratios[-1]:,.2f}" if is_changing else "")


def _batches(report: BalanceReport) -> Rows:
    return Rows.of(
        {
            "sampler": _name(row),
            "compute": decimal(row.relative_compute),
            "padding": percent(row.row.counts.padding_ratio, 2),
            "batches": f"{row.row.counts.batches:,}",
            "fill": percent(row.row.counts.fill),
            "coverage": percent(row.row.counts.sample_coverage.coverage),
            **mixing_cells(row.row.counts.sample_coverage.mixing),
        }
        for row in report.samplers
    )


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
        rows.add(Text(_name(row)), *(_share(row.classes[i].after, total) for i in order))
    return rows


def _share(count: int, total: int) -> str:
    return f"{count:,} ({percent(count / total)})"


def _rank_cells(name: str, counts: PlanCounts) -> dict[str, str]:
    coverage = counts.sample_coverage
    samples = [each.samples for each in coverage.ranks]
    return {
        "sampler": name,
        "samples": span(min(samples), max(samples)),
        "class ratio": _ratios([each.classes for each in coverage.ranks]),
        "steps": span(counts.ranks.min_steps, counts.ranks.max_steps),
        "rank idle": percent(counts.rank_idle),
        "shared": f"{coverage.shared_samples:,}",
        "unseen": f"{coverage.unseen_samples:,}",
        "repeated": f"{counts.duplicated_samples:,}",
        "dropped": f"{counts.dropped_samples:,}",
    }


def _ratios(ranks: list[tuple[int, ...]]) -> str:
    """Return the largest class / smallest, from the lowest to the highest of any rank."""
    ratios = [max(held) / min(held) for held in ranks if min(held)]
    if len(ratios) < len(ranks):
        return "class missing"
    low, high = f"{min(ratios):,.2f}", f"{max(ratios):,.2f}"
    return low if low == high else f"{low}-{high}"
