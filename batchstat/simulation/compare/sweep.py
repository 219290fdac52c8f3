"""One strategy with increasing `read_ahead`."""

from collections.abc import Callable
from dataclasses import replace

from batchstat.documents.grouping import Sweep, SweepPoint
from batchstat.errors import NoBatchError
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.simulation.meters.measure import measure

_MOST_WINDOWS = 20_000  # the sweep skips a `read_ahead` that would make more windows than this
_MOST_SORTED = 10**7  # and one above this, except the whole epoch, which uses the histogram


def sweep(
    best: RowRequest, basis: ResolvedSettings, shares_of: Callable[[ResolvedSettings], EpochShares]
) -> Sweep | None:
    """Return the padding with increasing `read_ahead`: of the best row if it sorts and does not
    pack, else of `token-budget`. None if no `read_ahead` leaves a batch.
    """
    can_sweep = best.strategy.looks_ahead is not None and not best.strategy.packs_rows
    request = best if can_sweep else StrategySpec.of("token-budget").request(basis)
    shares, points = shares_of(request.settings), []
    n, current = shares.epoch.count, request.strategy.looks_ahead
    round_sizes = {m * 10**e for e in range(2, 10) for m in (1, 2, 5)}
    # A smaller one makes too many windows; a larger one, unless it is in use today, too large ones.
    least, most = max(100, n // _MOST_WINDOWS), max(_MOST_SORTED, current or 0)
    # The whole epoch is always tried: it is planned on the histogram, however large.
    always = {n, min(current or n, n)}
    tried = always | {size for size in round_sizes if size < n and least <= size <= most}
    for read_ahead in sorted(tried):
        strategy = replace(request.strategy, read_ahead=read_ahead)  # type: ignore[call-arg]
        try:
            counts = measure(replace(request, strategy=strategy), shares, by_sample=False).counts
        except NoBatchError:  # other windows may leave one
            continue
        points.append(
            SweepPoint(
                read_ahead=read_ahead,
                batches=counts.batches,
                padding_tokens=counts.padding_tokens,
                total_tokens=counts.total_tokens,
                grouping=counts.grouping,
            )
        )
    return Sweep(spec=request.spec, points=tuple(points)) if points else None
