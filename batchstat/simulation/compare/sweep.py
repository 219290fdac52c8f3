"""One strategy with increasing `read_ahead`."""

from collections.abc import Callable
from dataclasses import replace

from batchstat.documents.grouping import Sweep, SweepPoint
from batchstat.errors import NoBatchError
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.simulation.meters.measure import measure

_MOST_WINDOWS = 20_000
"""The sweep skips a `read_ahead` that would make more windows than this."""
_MOST_SORTED = 10**7
"""The sweep skips a `read_ahead` above this, except the whole epoch, which uses the histogram."""


def sweep(
    best: RowRequest,
    basis: ResolvedSettings,
    shares_of: Callable[[ResolvedSettings], EpochShares],
) -> Sweep | None:
    """Return the padding of the best row's strategy with increasing `read_ahead`: how much sorting
    is worth. Where that strategy does not sort, or packs, which not all users can, it is that of
    `token-budget`. None if no `read_ahead` leaves a batch.

    Args:
        best: the strategy of the best row.
        basis: the settings that all rows share.
        shares_of: returns the epoch of the settings of a row.
    """
    can_sweep = best.strategy.looks_ahead is not None and not best.strategy.packs_rows
    request = best if can_sweep else StrategySpec.of("token-budget").request(basis)
    shares, points = shares_of(request.settings), []
    for size in read_aheads(shares.epoch.count, also=request.strategy.looks_ahead):
        strategy = replace(request.strategy, read_ahead=size)  # type: ignore[call-arg]
        try:
            counts = measure(replace(request, strategy=strategy), shares, by_sample=False).counts
        except NoBatchError:  # other windows may leave one
            continue
        points.append(
            SweepPoint(
                read_ahead=size,
                batches=counts.batches,
                padding_tokens=counts.padding_tokens,
                total_tokens=counts.total_tokens,
                grouping=counts.grouping,
            )
        )
    return Sweep(spec=request.spec, points=tuple(points)) if points else None


def read_aheads(n: int, also: int | None = None) -> list[int]:
    """Return ascending values of `read_ahead` worth trying for n samples, and `also` one that was;
    the last is n.
    """
    steps = {m * 10**e for e in range(2, 10) for m in (1, 2, 5)}
    # Sizes from `least` to below `most` are tried; `also` is none that is too large to sort.
    least, most = max(100, n // _MOST_WINDOWS), max(_MOST_SORTED, also or 0) + 1
    # The whole epoch is always tried: it is planned on the histogram, however large.
    return sorted({size for size in steps if least <= size < min(n, most)} | {min(also or n, n), n})
