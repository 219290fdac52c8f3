"""The recommended rows of a comparison, by estimated compute at the same peak memory.

Compute decides, not the number of batches: a batch of twice the tokens takes about twice the time.
On the training benchmark (`tests/benchmarks/training.py`) the estimates of all rows but `fixed`
are within some 10 % of measured times, so rows within 10 % of each other count as equal.
"""

from collections.abc import Sequence
from math import log

from batchstat.planning.strategies import STRATEGIES
from batchstat.planning.strategies.spec import RowRequest
from batchstat.planning.strategies.static import Static
from batchstat.simulation.comparison import Choice
from batchstat.simulation.results import StrategyResult

MOST_LOST = 0.005
"""A recommended row loses at most this much more of the corpus than the current setup."""

_ENOUGH_SAVED = 0.8
"""A smaller change is worth naming if it saves this much of what the best row saves."""


def current_row(rows: Sequence[RowRequest], current: str | None) -> RowRequest:
    """Return the current setup: the row that `current` names, else the first of `static`, else the
    first.
    """
    if current is not None:
        return next(row for row in rows if row.spec == current)
    return next((row for row in rows if isinstance(row.strategy, Static)), rows[0])


def choose(
    rows: Sequence[StrategyResult], tokens_per_batch: int, current_spec: str | None = None
) -> Choice:
    """Choose the recommended rows of a comparison.

    The best row is the one with the least compute among those whose batches fit the budget and the
    calibrated device, and that lose little more of the corpus than the current setup; of those
    within 10 % of it, the one with the fewest steps, then the current setup, then the first in the
    registry. Strategies that pack compete only if the current setup packs too; the best of them is
    offered separately.

    Args:
        rows: at least one.
        tokens_per_batch: the budget of the comparison. A single sample that exceeds it does not
            count against a row, since every row has it.
        current_spec: the current setup: see `current_row`.
    """
    request = current_row([row.request for row in rows], current_spec)
    current = next(row for row in rows if row.request is request)
    allowed = [
        row
        for row in rows
        if row.counts.reducible_peak <= tokens_per_batch
        and row.on_device.fits_memory is not False
        and row.counts.lost_ratio <= current.counts.lost_ratio + MOST_LOST
    ]
    rivals = [row for row in rows if current.packs_rows or not row.packs_rows]
    eligible = [row for row in allowed if row in rivals]
    best = _least_compute(eligible, current) if eligible else None
    ruled_out = _least_compute(rivals, current)
    packing = [row for row in allowed if row not in rivals]
    packed = _least_compute(packing, current) if packing else None
    if packed is not None and best is not None and packed.counts.compute >= best.counts.compute:
        packed = None
    return Choice(
        current=current,
        best=best,
        smaller_change=None if best is None else _smaller_change(eligible, current, best),
        packed=packed,
        ruled_out=None if ruled_out in eligible else ruled_out,
    )


def _least_compute(rows: Sequence[StrategyResult], current: StrategyResult) -> StrategyResult:
    least = min(row.counts.compute for row in rows)
    registry = list(STRATEGIES)
    return min(
        (row for row in rows if 10 * row.counts.compute <= 11 * least),
        key=lambda row: (row.counts.steps, row is not current, registry.index(row.name)),
    )


def _smaller_change(
    rows: Sequence[StrategyResult], current: StrategyResult, best: StrategyResult
) -> StrategyResult | None:
    """Return the row nearest to the current setup in steps that saves nearly as much as the best
    one; of those as near and within 10 % of each other, one that a framework has an argument for.
    None if the best one is as easy.
    """
    saved = current.counts.compute - best.counts.compute
    enough = current.counts.compute - _ENOUGH_SAVED * saved
    others = [row for row in rows if row.counts.compute <= enough and row not in (current, best)]
    if best is current or saved <= 0 or not others:
        return None

    def distance(row: StrategyResult) -> float:
        return abs(log(row.counts.steps / current.counts.steps))

    least = min(map(distance, others))
    chosen = _easiest([row for row in others if distance(row) == least])
    by_argument = chosen.request.strategy.argument and not best.request.strategy.argument
    is_easier = least < distance(best) or (least == distance(best) and by_argument)
    return chosen if is_easier else None


def _easiest(rows: Sequence[StrategyResult]) -> StrategyResult:
    """Return a row that a framework has an argument for if its compute is within 10 % of the least,
    else the row of the least.
    """
    least = min(rows, key=lambda row: row.counts.compute)
    alike = (row for row in rows if 10 * row.counts.compute <= 11 * least.counts.compute)
    return next((row for row in alike if row.request.strategy.argument), least)
