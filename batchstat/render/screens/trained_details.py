"""What `compare --details` says of trained tokens: how many a step has, and what each weighs."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from batchstat.documents.trained import Amounts, TrainedCounts
from batchstat.render.screens.layout import Caption, Rows
from batchstat.render.text import class_name, decimal
from batchstat.simulation.compare.comparison import Comparison

_MOST_CLASSES = 20


def trained_details(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the trained tokens of the rows, and their weights."""
    several = comparison.basis.world_size > 1
    per = "step, and per rank in one" if several else "step"
    yield from (Caption("trained", f"tokens that carry loss per {per}"), _amounts(comparison))
    loss = comparison.basis.loss
    words = (
        f"of a trained token in its step's gradient under {loss}; 1 is that of a loss summed over "
        "the step and divided once"
    )
    yield from (Text(), Caption("weight", words), _weights(comparison))
    if comparison.current.counts.sample_coverage.mixing is not None:
        yield from (Text(), _classes(comparison))


def _amounts(comparison: Comparison) -> Rows:
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


def _amount_cells(of: str, amounts: Amounts) -> dict[str, str]:
    return {
        f"per {of}": f"{amounts.mean:,.0f}",
        f"{of} ±": f"{amounts.std:,.0f}",
        f"{of} min-max": f"{amounts.min:,}-{amounts.max:,}",
    }


def _untrained_cells(trained: TrainedCounts) -> dict[str, str]:
    return {
        "untrained samples": f"{trained.untrained_samples:,}",
        "untrained batches": f"{trained.untrained_batches:,}",
    }


def _weights(comparison: Comparison) -> Rows:
    rows = Rows("strategy", "p5", "p95", "spread", "shortest tenth", "longest tenth")
    for row in comparison.strategies:
        if row.trained is not None and (found := row.trained.weights) is not None:
            ends = found.p5, found.p95, found.spread, found.shortest_tenth, found.longest_tenth
            rows.add(Text(row.label), *map(decimal, ends))
    return rows


def _classes(comparison: Comparison) -> Rows:
    """Return the mean weight of each class's tokens: of the classes that differ most, if many."""
    known = {
        row.label: row.trained.weights.classes or ()
        for row in comparison.strategies
        if row.trained is not None and row.trained.weights is not None
    }
    found: dict[str | None, dict[str, float | None]] = {}
    for label, classes in known.items():
        for each in classes:
            found.setdefault(each.label, {})[label] = each.weight

    def farthest_first(name: str | None) -> float:
        known_weights = [weight for weight in found[name].values() if weight is not None]
        return -max((abs(weight - 1) for weight in known_weights), default=0)

    rows = Rows("class", *known)
    shown = sorted(found, key=farthest_first)[:_MOST_CLASSES]
    for name in shown:
        rows.add(Text(class_name(name)), *(decimal(found[name].get(label)) for label in known))
    if left := len(found) - len(shown):
        rows.note = f"and {left:,} classes whose weights are nearer to 1"
    return rows
