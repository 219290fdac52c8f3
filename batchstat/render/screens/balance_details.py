"""What `balance --details` adds: tables of what is drawn, of batches, classes and ranks."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from batchstat.render.screens.comparison_details import mixing_cells
from batchstat.render.screens.layout import Caption, Line, Rows
from batchstat.render.text import class_name, decimal, one_line, percent, span
from batchstat.simulation.balance.report import BalanceReport, SamplerResult
from batchstat.simulation.meters.counts import PlanCounts

_MOST_CLASSES = 12  # the most classes that have a column each
_APART = 0.1  # a class homogeneity above this is worth a line: batches separate the classes


def balance_details(report: BalanceReport) -> Iterator[RenderableType]:
    """Yield the tables of `--details`: draws, their batches, classes and ranks."""
    # The samples of all samplers are batched by the same strategy.
    strategy = one_line(report.samplers[0].row.label)
    how_drawn = "by the sampler, before truncation, batching and distribution"
    if report.basis.distribute == "independent" and report.basis.world_size > 1:
        how_drawn = "as if all ranks shared one seed, which they do not here: see ranks"
    yield from (Caption("drawn", how_drawn), _drawn(report), Text())
    # `none` is the sampler that draws each sample once.
    yield Caption("batches", f"by {strategy}; compute is relative to none")
    yield from (_batches(report), *_separating_samplers(report), Text())
    hidden = len(report.samplers[0].classes) - _MOST_CLASSES
    hidden_note = f"; {hidden:,} smaller ones are in balance.json" if hidden > 0 else ""
    yield from (Caption("classes", f"samples of each{hidden_note}"), _classes(report))
    if report.basis.world_size > 1:
        columns = "per rank: samples, largest class / smallest, steps; then over all ranks"
        yield from (Text(), Caption("ranks", columns))
        yield Rows.of(_rank_cells(_name(each), each.row.counts) for each in report.samplers)


def _separating_samplers(report: BalanceReport) -> Iterator[RenderableType]:
    """Yield a line on samplers in whose batches classes of other lengths are separated."""
    separating = [
        f"{one_line(sampler.spec)} {mixing.homogeneity:.2f}"
        for sampler in report.samplers
        if (mixing := sampler.row.counts.sample_coverage.mixing) is not None
        and (mixing.homogeneity or 0) > _APART
    ]
    if separating:
        strategy = report.samplers[0].row.label
        words = "separates the classes (0 is random, 1 one class per batch)"
        yield Line("", f"{strategy} {words}: {', '.join(separating)}")


def _drawn(report: BalanceReport) -> Rows:
    """Return the table of what each sampler draws for an epoch."""
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
    is_changing = row.name == "dynamic" and row.ratios[0] != row.ratios[-1]
    return f"{row.class_ratio:,.2f}" + (f" to {row.ratios[-1]:,.2f}" if is_changing else "")


def _batches(report: BalanceReport) -> Rows:
    """Return the table of the batches that each sampler's samples make."""
    return Rows.of(
        {
            "sampler": _name(sampler),
            "compute": decimal(sampler.relative_compute),
            "padding": percent(sampler.row.counts.padding_ratio, 2),
            "batches": f"{sampler.row.counts.batches:,}",
            "fill": percent(sampler.row.counts.fill),
            "coverage": percent(sampler.row.counts.sample_coverage.coverage),
            **mixing_cells(sampler.row.counts.sample_coverage.mixing),
        }
        for sampler in report.samplers
    )


def by_size(report: BalanceReport) -> list[int]:
    """Return the indices of the classes, sorted by their samples in the corpus, the most first."""
    classes = report.samplers[0].classes
    return sorted(range(len(classes)), key=lambda i: -classes[i].before)


def _classes(report: BalanceReport) -> Rows:
    """Return the table of the largest classes: their samples, and what samplers draw of them."""
    corpus_classes, largest = report.samplers[0].classes, by_size(report)[:_MOST_CLASSES]
    rows = Rows("sampler", *(class_name(corpus_classes[i].label, 24) for i in largest))
    # `total` is the samples of all classes: of the corpus first, then of what a sampler draws.
    total = sum(drawn.before for drawn in corpus_classes)
    rows.add(Text("the corpus"), *(_share(corpus_classes[i].before, total) for i in largest))
    for row in report.samplers:
        total = sum(drawn.after for drawn in row.classes)
        rows.add(Text(_name(row)), *(_share(row.classes[i].after, total) for i in largest))
    return rows


def _share(count: int, total: int) -> str:
    return f"{count:,} ({percent(count / total)})"


def _rank_cells(name: str, counts: PlanCounts) -> dict[str, str]:
    """Return the cells of a row on ranks: three are per rank, as a range where they differ."""
    coverage = counts.sample_coverage
    samples = [rank.samples for rank in coverage.ranks]
    ratios = [max(rank.classes) / min(rank.classes) for rank in coverage.ranks if min(rank.classes)]
    # A rank without any sample of a class has no ratio.
    is_missing = len(ratios) < len(coverage.ranks)
    return {
        "sampler": name,
        "samples": span(min(samples), max(samples)),
        "class ratio": "class missing" if is_missing else span(min(ratios), max(ratios), ",.2f"),
        "steps": span(counts.ranks.min_steps, counts.ranks.max_steps),
        "rank idle": percent(counts.rank_idle),
        "shared": f"{coverage.shared_samples:,}",
        "unseen": f"{coverage.unseen_samples:,}",
        "repeated": f"{counts.duplicated_samples:,}",
        "dropped": f"{counts.dropped_samples:,}",
    }
