"""What `compare --details` adds: tables of all other numbers, and bounds to judge them by."""

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from batchstat.documents.grouping import Mixing, Sweep
from batchstat.documents.trained import Amounts
from batchstat.render.screens.layout import Caption, Line, Rows
from batchstat.render.text import batches, class_name, decimal, percent, span
from batchstat.simulation.compare.changes import (
    LINEAR_SOURCE,
    SQUARE_ROOT_SOURCE,
    learning_rate_hint,
)
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.results import StrategyResult
from batchstat.words import counted

_MOST_CLASSES = 20  # the most rows of the table of classes


def trained_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the tables of trained tokens: their number, their weights, and those of classes."""
    unit = "step, and per rank in one" if comparison.basis.world_size > 1 else "step"
    caption = Caption("trained", f"tokens that carry loss per {unit}")
    yield from (caption, _trained_per_step(comparison))
    loss = comparison.basis.loss
    words = (
        f"of a trained token in its step's gradient under {loss}; 1 is that of a loss summed over "
        "the step and divided once"
    )
    rows = Rows("strategy", "p5", "p95", "spread", "shortest tenth", "longest tenth")
    for row in comparison.strategies:
        if row.trained is not None and (stats := row.trained.weights) is not None:
            numbers = stats.p5, stats.p95, stats.spread, stats.shortest_tenth, stats.longest_tenth
            rows.add(Text(row.label), *map(decimal, numbers))
    yield from (Text(), Caption("weight", words), rows)
    if comparison.current.counts.sample_coverage.mixing is not None:
        yield from (Text(), _class_weights(comparison))


def _trained_per_step(comparison: Comparison) -> Rows:
    """Return the table of trained tokens per step and rank, of untrained samples if any."""
    known = [(row.label, row.trained) for row in comparison.strategies if row.trained is not None]
    has_untrained = any(trained.untrained_samples for _, trained in known)
    return Rows.of(
        {
            "strategy": label,
            **_amount_cells("step", trained.per_step),
            **(_amount_cells("rank", trained.per_rank) if comparison.basis.world_size > 1 else {}),
            **(
                {
                    "untrained samples": f"{trained.untrained_samples:,}",
                    "untrained batches": f"{trained.untrained_batches:,}",
                }
                if has_untrained
                else {}
            ),
        }
        for label, trained in known
    )


def _amount_cells(unit: str, amounts: Amounts) -> dict[str, str]:
    return {
        f"per {unit}": f"{amounts.mean:,.0f}",
        f"{unit} ±": f"{amounts.std:,.0f}",
        f"{unit} min-max": f"{amounts.min:,}-{amounts.max:,}",
    }


def _class_weights(comparison: Comparison) -> Rows:
    """Return the mean weight of tokens by class; of many, those farthest from 1."""
    # The mean weight of a class's tokens: by the name of the class, then by the label of the row.
    weights_of: dict[str | None, dict[str, float | None]] = {}
    labels = []  # of the rows whose weights are known
    for row in comparison.strategies:
        if row.trained is not None and row.trained.weights is not None:
            labels.append(row.label)
            for entry in row.trained.weights.classes or ():
                weights_of.setdefault(entry.label, {})[row.label] = entry.weight

    def distance_from_one(name: str | None) -> float:
        known = (weight for weight in weights_of[name].values() if weight is not None)
        return max((abs(weight - 1) for weight in known), default=0)

    rows = Rows("class", *labels)
    shown = sorted(weights_of, key=distance_from_one, reverse=True)[:_MOST_CLASSES]
    for name in shown:
        rows.add(Text(class_name(name)), *(decimal(weights_of[name].get(each)) for each in labels))
    if left_out := len(weights_of) - len(shown):
        rows.note = f"and {left_out:,} classes whose weights are nearer to 1"
    return rows


def comparison_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield all tables and lines that `--details` adds."""
    yield from batch_details(comparison)
    yield from (Text(), *cost_details(comparison))
    if comparison.basis.world_size > 1:
        yield from (Text(), *rank_details(comparison))
    if comparison.current.trained is not None:
        yield from (Text(), *trained_details(comparison))
    yield from (Text(), *sorting_details(comparison))


def batch_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the table of the batches, then what to judge it by."""
    yield Caption("batches", "of an epoch; fill is how much of the budget they use")
    yield _batches(comparison)
    # Without a batch size, the best strategy cuts by its budget.
    all_sorted, size = comparison.bounds.sorted, comparison.best.params.get("batch_size")
    how_cut = "by the same budget" if size is None else f"every {counted(size, 'sample')}"
    yield Line(
        "sorted",
        f"{percent(all_sorted.padding_ratio, 2)} padding in {batches(all_sorted.batches)} "
        f"with all samples sorted and cut {how_cut}, as {comparison.best.label} is",
    )
    yield Line("least", _fewest_batches_and_rows(comparison))
    for label, bound in comparison.regrouped_bounds.items():
        steps = f"{counted(bound.steps, 'step')} drawn at random"
        excess = percent(max(0.0, bound.excess))
        words = f"the slowest ranks take {excess} more than a lower bound in {steps}"
        yield Line("steps", f"{label}: {words}")
    # Some strategies prescribe their own order.
    names = ("order", "distribute", "remainder") if comparison.basis.world_size > 1 else ("order",)
    for row in comparison.strategies:
        own_settings, shared = row.request.settings, comparison.basis
        differing = [name for name in names if getattr(own_settings, name) != getattr(shared, name)]
        if differing:
            values = ", ".join(f"{name} {getattr(own_settings, name)}" for name in differing)
            yield Line("but", f"{row.label} has {values}")
    if comparison.not_shown:
        yield Line("more", f"{', '.join(comparison.not_shown)} (--all shows them)")


def cost_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the table of what the rows cost, and of how far their batches are from random ones."""
    words = "attention, model: estimated compute / needed; then how far batches are from random"
    yield Caption("cost", words)
    yield Rows.of(_cost_cells(row, comparison.costs(row)) for row in comparison.strategies)


def rank_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the table of what the ranks get, and of the step in which they wait the most."""
    words = "rank idle: time that ranks wait for the slowest; then the worst step"
    yield Caption("ranks", words)
    yield Rows.of(_rank_cells(row.label, row.counts) for row in comparison.strategies)


def sorting_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the lines on how `read_ahead` and the learning rate may be set."""
    if comparison.sweep is not None:
        yield Line("sorting", _sorting(comparison.sweep))
    # Where nothing is to change, the learning rate stays, too.
    if comparison.best is not comparison.current:
        hint = learning_rate_hint(comparison.current.counts, comparison.best.counts)
        yield Line(
            "rate",
            f"a step of {comparison.best.label} has {hint.batch_ratio:.2f}x the samples of one of "
            f"{comparison.current.label}: the learning rate may scale by {hint.linear:.2f} "
            f"(linear, {LINEAR_SOURCE}) or {hint.square_root:.2f} (square root, "
            f"{SQUARE_ROOT_SOURCE})",
        )


def _batches(comparison: Comparison) -> Rows:
    """Return the table of the batches of each row."""
    return Rows.of(
        {
            "strategy": row.label,
            "batches": f"{row.counts.batches:,}",
            "samples/batch": f"{row.counts.mean_samples_per_batch:,.1f}",
            "largest": f"{row.counts.max_batch_tokens:,}",
            "fill": percent(row.counts.fill),
            "shapes": f"{row.counts.distinct_shapes:,}",
            "lost": percent(row.counts.lost_ratio, 2),
        }
        for row in comparison.strategies
    )


def _fewest_batches_and_rows(comparison: Comparison) -> str:
    """Return the fewest possible batches and packed rows, and how near the best row is."""
    best, bounds, counts = comparison.best, comparison.bounds, comparison.best.counts
    fewest_batches, fewest_rows = batches(bounds.batches), counted(bounds.packed_rows, "row")
    words = f"{fewest_batches} without padding · {fewest_rows} when packed"
    # The bound is for each sample once, up to the shared `max_length`.
    packs_to_max_length = best.params.get("max_length") == comparison.basis.max_length
    loses_or_repeats = counts.dropped_tokens or counts.duplicated_tokens
    if not best.packs_rows or not packs_to_max_length or loses_or_repeats:
        return words
    excess = counts.rows / bounds.packed_rows - 1
    if excess > 0:
        return f"{words}; {percent(excess)} more rows than the lower bound"
    return f"{words}; no packing has fewer rows"


def _cost_cells(row: StrategyResult, costs: Mapping[str, float]) -> dict[str, str]:
    """Return the cells of a row on costs: `costs` has compute / needed, by the kind."""
    efficiency, grouping = row.counts.packing_efficiency, row.counts.grouping
    return {
        "strategy": row.label,
        "attention": f"{costs['quadratic']:.2f}",
        **({"model": f"{costs['model']:.2f}"} if "model" in costs else {}),
        "packing efficiency": "-" if efficiency is None else percent(efficiency),
        "correlation": decimal(grouping.neighbour_correlation),
        "length homogeneity": decimal(grouping.length_homogeneity),
        "batch size ±": percent(grouping.samples_per_batch_cv, 0),
        "step tokens ±": percent(grouping.tokens_per_step_cv, 0),
        **mixing_cells(row.counts.sample_coverage.mixing),
    }


def mixing_cells(mixing: Mixing | None) -> dict[str, str]:
    """Return the cells on how classes mix within batches; none without classes."""
    if mixing is None:
        return {}
    return {
        "classes/batch": f"{mixing.classes_per_batch.mean:,.2f}",
        "single class": percent(mixing.single_class_ratio),
        "class homogeneity": decimal(mixing.homogeneity),
    }


def _rank_cells(label: str, counts: PlanCounts) -> dict[str, str]:
    """Return the cells of a row on ranks; the last four are of the step that waits most."""
    ranks, coverage, worst = counts.ranks, counts.sample_coverage, counts.ranks.worst
    because = f"{worst.rows:,} x {worst.width:,} on rank {worst.rank}"
    if worst.ranks_without:
        because = f"{counted(worst.ranks_without, 'rank')} without a batch"
    return {
        "strategy": label,
        "steps/rank": span(ranks.min_steps, ranks.max_steps),
        "rank idle": percent(counts.rank_idle),
        "attention idle": percent(counts.rank_idle_quadratic),
        "repeated": f"{counts.duplicated_samples:,}",
        "dropped": f"{counts.dropped_samples:,}",
        "shared": f"{coverage.shared_samples:,}",
        "accuracy ±": percent(coverage.accuracy_bound, 2),
        "step": f"{worst.step:,}",
        "slowest": f"{worst.tokens:,}",
        "mean": f"{worst.mean_tokens:,.0f}",
        "because": because,
    }


def _sorting(sweep: Sweep) -> str:
    """Return the recommended `read_ahead` with its padding, and why that one is recommended."""
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
