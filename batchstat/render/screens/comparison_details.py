"""What `compare --details` adds: tables of all other numbers, and bounds to judge them by."""

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from batchstat.documents.grouping import Mixing, Sweep
from batchstat.documents.ranks import WorstStep
from batchstat.documents.trained import Amounts, TrainedCounts
from batchstat.render.screens.layout import Caption, Line, Rows
from batchstat.render.text import batches, class_name, decimal, percent, span
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.learning_rate import (
    LINEAR_SOURCE,
    SQUARE_ROOT_SOURCE,
    learning_rate_hint,
)
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.results import StrategyResult
from batchstat.words import counted

_MOST_CLASSES = 20
"""The most rows of the table of classes."""


def trained_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the tables of trained tokens: how many a step has, how much each weighs in its
    gradient, and how much the tokens of each class weigh.
    """
    has_ranks = comparison.basis.world_size > 1
    per = "step, and per rank in one" if has_ranks else "step"
    yield from (Caption("trained", f"tokens that carry loss per {per}"), _amounts(comparison))
    loss = comparison.basis.loss
    words = (
        f"of a trained token in its step's gradient under {loss}; 1 is that of a loss summed over "
        "the step and divided once"
    )
    yield from (Text(), Caption("weight", words), _weights(comparison))
    # Only where samples have classes.
    if comparison.current.counts.sample_coverage.mixing is not None:
        yield from (Text(), _classes(comparison))


def _amounts(comparison: Comparison) -> Rows:
    """Return the table of trained tokens per step and, of several ranks, per rank. Columns for
    untrained samples are shown only if there are any.
    """
    known = [(row.label, row.trained) for row in comparison.strategies if row.trained is not None]
    has_untrained = any(trained.untrained_samples for _, trained in known)
    return Rows.of(
        {
            "strategy": label,
            **_amount_cells("step", trained.per_step),
            **(_amount_cells("rank", trained.per_rank) if comparison.basis.world_size > 1 else {}),
            **(_untrained_cells(trained) if has_untrained else {}),
        }
        for label, trained in known
    )


def _amount_cells(unit: str, amounts: Amounts) -> dict[str, str]:
    return {
        f"per {unit}": f"{amounts.mean:,.0f}",
        f"{unit} ±": f"{amounts.std:,.0f}",
        f"{unit} min-max": f"{amounts.min:,}-{amounts.max:,}",
    }


def _untrained_cells(trained: TrainedCounts) -> dict[str, str]:
    return {
        "untrained samples": f"{trained.untrained_samples:,}",
        "untrained batches": f"{trained.untrained_batches:,}",
    }


def _weights(comparison: Comparison) -> Rows:
    """Return the table of the weights of trained tokens: two percentiles, their ratio, and the
    means in the shortest and in the longest tenth of samples.
    """
    rows = Rows("strategy", "p5", "p95", "spread", "shortest tenth", "longest tenth")
    for row in comparison.strategies:
        if row.trained is not None and (stats := row.trained.weights) is not None:
            numbers = stats.p5, stats.p95, stats.spread, stats.shortest_tenth, stats.longest_tenth
            rows.add(Text(row.label), *map(decimal, numbers))
    return rows


def _classes(comparison: Comparison) -> Rows:
    """Return the table of the mean weight of each class's tokens, a column for each strategy. Of
    many classes, it shows those whose weights are farthest from 1 in any strategy.
    """
    by_row = {
        row.label: row.trained.weights.classes or ()
        for row in comparison.strategies
        if row.trained is not None and row.trained.weights is not None
    }
    # The mean weight of a class's tokens: by the name of the class, then by the label of the row.
    by_class: dict[str | None, dict[str, float | None]] = {}
    for label, classes in by_row.items():
        for entry in classes:
            by_class.setdefault(entry.label, {})[label] = entry.weight

    def nearness_to_one(name: str | None) -> float:
        """Return the key by which classes are sorted: minus the distance from 1 of the weight that
        is farthest from it, so that this class comes first; 0 where no weight is known.
        """
        weights = [weight for weight in by_class[name].values() if weight is not None]
        return -max((abs(weight - 1) for weight in weights), default=0)

    rows = Rows("class", *by_row)
    shown = sorted(by_class, key=nearness_to_one)[:_MOST_CLASSES]
    for name in shown:
        rows.add(Text(class_name(name)), *(decimal(by_class[name].get(label)) for label in by_row))
    if left_out := len(by_class) - len(shown):
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
    """Yield the table of the batches, then the lines to judge it by: padding if all samples were
    sorted, and the fewest possible batches.
    """
    yield Caption("batches", "of an epoch; fill is how much of the budget they use")
    yield _batches(comparison)
    yield Line("sorted", _sorted(comparison))
    yield Line("least", _least(comparison))
    yield from _own_settings(comparison)
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
        yield Line("rate", _learning_rate(comparison))


def _learning_rate(comparison: Comparison) -> str:
    """Return by what the learning rate may scale, since a step of the best strategy has more or
    fewer samples than one of the current setup.
    """
    best = comparison.best
    hint = learning_rate_hint(comparison.current.counts, best.counts)
    return (
        f"a step of {best.label} has {hint.batch_ratio:.2f}x the samples of one of "
        f"{comparison.current.label}: the learning rate may scale by {hint.linear:.2f} (linear, "
        f"{LINEAR_SOURCE}) or {hint.square_root:.2f} (square root, {SQUARE_ROOT_SOURCE})"
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


def _sorted(comparison: Comparison) -> str:
    """Return the padding if all samples were sorted by length before they are batched, which bounds
    what sorting can do.
    """
    # Without a batch size, the best strategy cuts by its budget.
    all_sorted, size = comparison.bounds.sorted, comparison.best.params.get("batch_size")
    how_cut = "by the same budget" if size is None else f"every {counted(size, 'sample')}"
    return (
        f"{percent(all_sorted.padding_ratio, 2)} padding in {batches(all_sorted.batches)} "
        f"with all samples sorted and cut {how_cut}, as {comparison.best.label} is"
    )


def _least(comparison: Comparison) -> str:
    """Return the fewest possible batches without padding, and the fewest rows of packed samples. If
    the best strategy packs, also return how many more rows than that it has.
    """
    best, bounds = comparison.best, comparison.bounds
    least_batches, packed = batches(bounds.batches), counted(bounds.packed_rows, "row")
    words = f"{least_batches} without padding · {packed} when packed"
    counts = best.counts
    # The bound on rows is for whole samples up to the shared `max_length`, each exactly once.
    # Only a best strategy that packs in this way has its rows compared to it.
    comparable = best.params.get("max_length") == comparison.basis.max_length
    if not best.packs_rows or not comparable or counts.dropped_tokens or counts.duplicated_tokens:
        return words
    excess = counts.rows / bounds.packed_rows - 1
    if excess > 0:
        return f"{words}; {percent(excess)} more rows than the lower bound"
    return f"{words}; no packing has fewer rows"


def _own_settings(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield a line for each row that has other settings than those above the table: some strategies
    prescribe their own order.
    """
    keys = ("order", "distribute", "remainder") if comparison.basis.world_size > 1 else ("order",)
    for row in comparison.strategies:
        own_settings, shared = row.request.settings, comparison.basis
        # Each: the name of a setting, its value in the row, and the value that the rows share.
        pairs = [(key, getattr(own_settings, key), getattr(shared, key)) for key in keys]
        differing = [f"{key} {value}" for key, value, common in pairs if value != common]
        if differing:
            yield Line("but", f"{row.label} has {', '.join(differing)}")


def _cost_cells(row: StrategyResult, costs: Mapping[str, float]) -> dict[str, str]:
    """Return a row of the table of costs: its cells by their headings. `costs` has estimated
    compute / needed, by the kind of cost.
    """
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
    """Return the cells on how classes mix within batches, by their headings; none if there are no
    classes.
    """
    if mixing is None:
        return {}
    return {
        "classes/batch": f"{mixing.classes_per_batch.mean:,.2f}",
        "single class": percent(mixing.single_class_ratio),
        "class homogeneity": decimal(mixing.homogeneity),
    }


def _rank_cells(label: str, counts: PlanCounts) -> dict[str, str]:
    """Return a row of the table of ranks: its cells by their headings. The last four are on the
    step in which ranks wait the most.
    """
    ranks, coverage = counts.ranks, counts.sample_coverage
    return {
        "strategy": label,
        "steps/rank": span(ranks.min_steps, ranks.max_steps),
        "rank idle": percent(counts.rank_idle),
        "attention idle": percent(counts.rank_idle_quadratic),
        "repeated": f"{counts.duplicated_samples:,}",
        "dropped": f"{counts.dropped_samples:,}",
        "shared": f"{coverage.shared_samples:,}",
        "accuracy ±": percent(coverage.accuracy_bound, 2),
        "step": f"{ranks.worst.step:,}",
        "slowest": f"{ranks.worst.tokens:,}",
        "mean": f"{ranks.worst.mean_tokens:,.0f}",
        "because": _because(ranks.worst),
    }


def _because(worst: WorstStep) -> str:
    if worst.ranks_without:
        return f"{counted(worst.ranks_without, 'rank')} without a batch"
    return f"{worst.rows:,} x {worst.width:,} on rank {worst.rank}"


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
