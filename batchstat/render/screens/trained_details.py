"""What `compare --details` says of trained tokens: how many a step has, and what each weighs."""

from collections.abc import Callable, Iterator

from rich.console import RenderableType
from rich.text import Text

from batchstat.documents.trained import Amounts, TokenWeights, TrainedCounts
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
    columns: dict[str, Callable[[TrainedCounts], str]] = {
        "per step": lambda trained: f"{trained.per_step.mean:,.0f}",
        "step ±": lambda trained: f"{trained.per_step.std:,.0f}",
        "step min-max": lambda trained: _range(trained.per_step),
    }
    if comparison.basis.world_size > 1:
        columns |= {
            "per rank": lambda trained: f"{trained.per_rank.mean:,.0f}",
            "rank ±": lambda trained: f"{trained.per_rank.std:,.0f}",
            "rank min-max": lambda trained: _range(trained.per_rank),
        }
    if any(trained.untrained_samples for _, trained in known):
        columns["untrained samples"] = lambda trained: f"{trained.untrained_samples:,}"
        columns["untrained batches"] = lambda trained: f"{trained.untrained_batches:,}"
    rows = Rows("strategy", *columns)
    for label, trained in known:
        rows.add(Text(label), *(show(trained) for show in columns.values()))
    return rows


def _range(amounts: Amounts) -> str:
    return f"{amounts.min:,}-{amounts.max:,}"


def _weights(comparison: Comparison) -> Rows:
    rows = Rows("strategy", "p5", "p95", "spread", "shortest tenth", "longest tenth")
    for row in comparison.strategies:
        if row.trained is not None and (weights := row.trained.weights) is not None:
            rows.add(Text(row.label), *map(decimal, _numbers(weights)))
    return rows


def _numbers(weights: TokenWeights) -> tuple[float | None, ...]:
    return (
        *(weights.p5, weights.p95, weights.spread),
        *(weights.shortest_tenth, weights.longest_tenth),
    )


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
    rows = Rows("class", *known)
    shown = sorted(found, key=lambda name: -_distance(found[name]))[:_MOST_CLASSES]
    for name in shown:
        rows.add(Text(class_name(name)), *(decimal(found[name].get(label)) for label in known))
    if left := len(found) - len(shown):
        rows.note = f"and {left:,} classes whose weights are nearer to 1"
    return rows


def _distance(weights: dict[str, float | None]) -> float:
    """Return how far the weights of a class are from 1."""
    return max((abs(weight - 1) for weight in weights.values() if weight is not None), default=0)
