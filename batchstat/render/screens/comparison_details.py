"""What `compare --details` adds: every other number of the rows, and what to judge them by."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from batchstat.documents.grouping import Mixing, Sweep
from batchstat.documents.ranks import WorstStep
from batchstat.errors import counted
from batchstat.render.screens.layout import Caption, Line, Rows
from batchstat.render.screens.trained_details import trained_details
from batchstat.render.text import batches, decimal, percent, span
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.learning_rate import (
    LINEAR_SOURCE,
    SQUARE_ROOT_SOURCE,
    learning_rate_hint,
)


def comparison_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the tables and lines of a comparison's other numbers."""
    yield from batch_details(comparison)
    yield from (Text(), *cost_details(comparison))
    if comparison.basis.world_size > 1:
        yield from (Text(), *rank_details(comparison))
    if comparison.current.trained is not None:
        yield from (Text(), *trained_details(comparison))
    yield from (Text(), *sorting_details(comparison))


def batch_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the batches of the rows, and what to judge them by."""
    yield Caption("batches", "of an epoch; fill is how much of the budget they use")
    yield _batches(comparison)
    yield Line("sorted", _sorted(comparison))
    yield Line("least", _least(comparison) + _above_least(comparison))
    yield from _own_settings(comparison)
    if comparison.not_shown:
        yield Line("more", f"{', '.join(comparison.not_shown)} (--all shows them)")


def cost_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield what the rows cost, and how far their batches are from random ones."""
    words = "attention, model: estimated compute / needed; then how far batches are from random"
    yield from (Caption("cost", words), _cost(comparison))


def rank_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield what the ranks get, and the step in which they wait the most."""
    words = "rank idle: time that ranks wait for the slowest; then the worst step"
    yield from (Caption("ranks", words), _ranks(comparison))


def sorting_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield what `read_ahead` and the learning rate may be."""
    if comparison.sweep is not None:
        yield Line("sorting", _sorting(comparison.sweep))
    yield Line("rate", _learning_rate(comparison))


def _learning_rate(comparison: Comparison) -> str:
    best = comparison.best
    hint = learning_rate_hint(comparison.current.counts, best.counts)
    return (
        f"a step of {best.label} has {hint.batch_ratio:.2f}x the samples of one of "
        f"{comparison.current.label}: the learning rate may scale by {hint.linear:.2f} (linear, "
        f"{LINEAR_SOURCE}) or {hint.square_root:.2f} (square root, {SQUARE_ROOT_SOURCE})"
    )


def _batches(comparison: Comparison) -> Rows:
    rows = Rows("strategy", "batches", "samples/batch", "largest", "fill", "shapes", "lost")
    for row in comparison.strategies:
        counts = row.counts
        rows.add(
            Text(row.label),
            f"{counts.batches:,}",
            f"{counts.mean_samples_per_batch:,.1f}",
            f"{counts.max_batch_tokens:,}",
            percent(counts.fill),
            f"{counts.distinct_shapes:,}",
            percent(counts.lost_ratio, 2),
        )
    return rows


def _sorted(comparison: Comparison) -> str:
    whole, size = comparison.bounds.sorted, comparison.best.params.get("batch_size")
    cut = "by the same budget" if size is None else f"every {counted(size, 'sample')}"
    return (
        f"{percent(whole.padding_ratio, 2)} padding in {batches(whole.batches)} "
        f"with all samples sorted and cut {cut}, as {comparison.best.label} is"
    )


def _least(comparison: Comparison) -> str:
    bounds = comparison.bounds
    return (
        f"{batches(bounds.batches)} without padding · {counted(bounds.packed_rows, 'row')} when "
        "packed"
    )


def _above_least(comparison: Comparison) -> str:
    """Return how far packed rows are from the fewest possible."""
    best, bounds = comparison.best, comparison.bounds
    counts = best.counts
    comparable = best.params.get("max_length") == comparison.basis.max_length
    if not best.packs_rows or not comparable or counts.dropped_tokens or counts.duplicated_tokens:
        return ""
    more = counts.rows / bounds.packed_rows - 1
    if more > 0:
        return f"; {percent(more)} more rows than the lower bound"
    return "; no packing has fewer rows"


def _own_settings(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the settings of each row that differ from those that the rows share."""
    keys = ("order", "distribute", "remainder") if comparison.basis.world_size > 1 else ("order",)
    for row in comparison.strategies:
        own, shared = row.request.settings, comparison.basis
        pairs = [(key, getattr(own, key), getattr(shared, key)) for key in keys]
        differing = [f"{key} {mine}" for key, mine, theirs in pairs if mine != theirs]
        if differing:
            yield Line("but", f"{row.label} has {', '.join(differing)}")


def _cost(comparison: Comparison) -> Rows:
    model = ["model"] if comparison.model is not None else []
    labelled = comparison.current.counts.sample_coverage.mixing is not None
    classes = ("classes/batch", "single class", "class homogeneity") if labelled else ()
    rows = Rows(
        *("strategy", "attention", *model, "packing efficiency"),
        *("correlation", "length homogeneity", "batch size ±", "step tokens ±"),
        *classes,
    )
    for row in comparison.strategies:
        costs, grouping = comparison.costs(row), row.counts.grouping
        efficiency = row.counts.packing_efficiency
        rows.add(
            Text(row.label),
            f"{costs['quadratic']:.2f}",
            *([f"{costs['model']:.2f}"] if model else []),
            "-" if efficiency is None else percent(efficiency),
            decimal(grouping.neighbour_correlation),
            decimal(grouping.length_homogeneity),
            percent(grouping.samples_per_batch_cv, 0),
            percent(grouping.tokens_per_step_cv, 0),
            *_mixing(row.counts.sample_coverage.mixing),
        )
    return rows


def _mixing(mixing: Mixing | None) -> list[str]:
    if mixing is None:
        return []
    return [
        f"{mixing.classes_per_batch.mean:,.2f}",
        percent(mixing.single_class_ratio),
        decimal(mixing.homogeneity),
    ]


def _ranks(comparison: Comparison) -> Rows:
    rows = Rows(
        *("strategy", "steps/rank", "rank idle", "attention idle"),
        *("repeated", "dropped", "shared", "accuracy ±", "step", "slowest", "mean", "because"),
    )
    for row in comparison.strategies:
        counts = row.counts
        ranks, worst = counts.ranks, counts.ranks.worst
        rows.add(
            Text(row.label),
            span(ranks.min_steps, ranks.max_steps),
            percent(counts.rank_idle),
            percent(counts.rank_idle_quadratic),
            f"{counts.duplicated_samples:,}",
            f"{counts.dropped_samples:,}",
            f"{counts.sample_coverage.shared_samples:,}",
            percent(counts.sample_coverage.accuracy_bound, 2),
            f"{worst.step:,}",
            f"{worst.tokens:,}",
            f"{worst.mean_tokens:,.0f}",
            _because(worst),
        )
    return rows


def _because(worst: WorstStep) -> str:
    if worst.ranks_without:
        return f"{counted(worst.ranks_without, 'rank')} without a batch"
    return f"{worst.rows:,} x {worst.width:,} on rank {worst.rank}"


def _sorting(sweep: Sweep) -> str:
    chosen, best = sweep.recommended, sweep.best
    text = (
        f"{sweep.recommended_spec} has {percent(chosen.padding_ratio)} padding in "
        f"{batches(chosen.batches)}"
    )
    if chosen is best:
        return f"{text}, the least of any read_ahead"
    return (
        f"{text}: the smallest read_ahead, so the least sorting, within half a percentage point of "
        f"the best ({percent(best.padding_ratio)} at {best.read_ahead:,})"
    )
