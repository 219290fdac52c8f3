"""Batching strategies side by side on the same epoch."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from batchstat.calibration.cost_model import CostModel
from batchstat.documents.comparison import Bounds, SortedEpoch
from batchstat.documents.grouping import Sweep, SweepPoint
from batchstat.errors import NoBatchError
from batchstat.lengths.arrays import offsets_from_sizes
from batchstat.lengths.exact import widen
from batchstat.lengths.stats import LengthStats
from batchstat.planning.epoch import concatenate_epochs
from batchstat.planning.inputs import PlanInputs, resolve_inputs
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.registry import OWN_STRATEGIES
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.recording.run_facts import RunFacts
from batchstat.simulation.compare.candidates import Candidates, can_regroup
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.named_rows import Row, request_of
from batchstat.simulation.device import Device
from batchstat.simulation.meters.measure import measure
from batchstat.simulation.results import Simulation
from batchstat.simulation.rows import make_row
from batchstat.simulation.warnings import simulation_warnings

_MOST_WINDOWS = 20_000  # the sweep skips a `read_ahead` that would make more windows than this
_MOST_SORTED = 10**7  # and one above this, except the whole epoch, which uses the histogram


def min_packed_rows(stats: LengthStats, capacity: int) -> int:
    """Return a lower bound on the rows of `capacity` tokens that these lengths need when packed,
    where no length is above `capacity`.

    No two samples above half the capacity share a row, so each of them needs its own. For any k up
    to half the capacity, samples from k to half of it fit only into the room that rows of at most
    capacity − k tokens leave; what does not fit there needs further rows. The bound is the largest
    number of rows over all k. Source: Martello and Toth's bound L2 for bin packing (1990).

    Example: capacity 10, lengths 6, 6, 4, 4, 4. Two rows hold a 6 and a 4 each, and the third 4
    needs another row: 3.
    """
    values, counts = stats.values, widen(stats.counts, stats.count * capacity)
    # (n + 1,) element i: the samples, and their tokens, of the i shortest of n distinct lengths.
    samples_below = offsets_from_sizes(counts)
    tokens_below = offsets_from_sizes(values * counts)
    # The lengths values[long:] are above half the capacity.
    long = np.searchsorted(values, capacity // 2, side="right")
    # (n_k,) the k to try: between two lengths that occur, another k changes nothing. 0 is one, too.
    k = np.append(values[:long], 0)
    # (n_k,) for each k: values[from_k:long] are the samples from k to half the capacity.
    from_k = np.searchsorted(values, k)
    # (n_k,) for each k: values[long:alone] leave at least k tokens; those above stay alone.
    alone = np.maximum(np.searchsorted(values, capacity - k, side="right"), long)
    long_samples = samples_below[alone] - samples_below[long]
    room = long_samples * capacity - (tokens_below[alone] - tokens_below[long])
    tokens_beyond_room = np.maximum(tokens_below[long] - tokens_below[from_k] - room, 0)
    further_rows = -(-tokens_beyond_room // capacity)  # rounded up
    return max(1, int((samples_below[-1] - samples_below[long] + further_rows).max()))


def comparison_of(
    inputs: PlanInputs,
    candidates: Candidates,
    *,
    model: CostModel | None,
    device: Device | None,
    seeds: int,
    run: RunFacts | None,
) -> Comparison:
    """Return what was simulated of the current setup and what could replace it, side by side."""
    basis, epochs, changes = candidates.basis, candidates.epochs, candidates.changes
    best = changes.best or changes.current
    shares = epochs.of(basis)
    shown = {row.name for row in candidates.rows}
    if not can_regroup(changes.current.request.row, basis):
        shown.add("regrouped")
    return Comparison(
        created=datetime.now(UTC).isoformat(),
        samples=len(epochs.samples),
        corpus=inputs.corpus,
        tokenizer=inputs.tokenizer,
        basis=basis,
        model=model,
        seeds=seeds,
        strategies=candidates.rows,
        not_shown=tuple(name for name in OWN_STRATEGIES if name not in shown),
        changes=changes,
        # Of the samples that the row has: some frameworks keep a remainder that others drop.
        bounds=_bounds(best.request.strategy, epochs.of(best.request.settings), basis),
        sweep=_sweep(best.request, basis, epochs.of),
        warnings=(
            *candidates.empty,
            *simulation_warnings(candidates.rows, shares.epoch, basis, inputs.stats, device),
        ),
        source=inputs.samples,
        subsample=None if candidates.drawn is None else candidates.drawn.facts,
        device=device,
        run=run,
    )


def simulate(
    profile: Profile,
    row: Row,
    settings: Settings,
    device: Device | None = None,
    model: CostModel | None = None,
) -> Simulation:
    """Simulate one strategy on the lengths of a profile. Raises OptionError: a strategy or
    parameter that is wrong by itself; InputError: the settings leave no samples.
    """
    inputs = resolve_inputs(profile, keep=settings.keep_labels)
    request = request_of(inputs, settings, row)
    shares = make_shares(inputs.samples, request.settings)
    result = make_row(request, shares, model, device)
    warnings = simulation_warnings([result], shares.epoch, request.settings, profile.stats, device)
    return Simulation(request.settings, result, warnings, device)


def _bounds(best: Strategy, shares: EpochShares, basis: ResolvedSettings) -> Bounds:
    """Return what a reader holds the best row against: the fewest possible batches and packed rows,
    and the padding of the whole epoch sorted by length and cut as its batches.
    """
    epoch = shares.epoch
    # Where ranks plan their own shares, all that they draw is sorted together.
    if not shares.is_distributed:
        epoch = concatenate_epochs([share.whole for share in shares.shares])
    name, size = "bucketed", {"batch_size": best.batch_capacity}
    if best.batch_capacity is None:
        name, size = "token-budget", {"tokens_per_batch": best.budget or basis.tokens_per_batch}
    # A window of the whole epoch sorts all of it.
    spec = StrategySpec.of(name, **size, read_ahead=epoch.count, drop_last=False)
    # On one rank, so that no batch is repeated or dropped to make ranks even.
    one_rank = replace(basis, world_size=1, max_samples=None)
    whole_epoch = replace(shares, epoch=epoch, shares=(epoch,))
    counts = measure(spec.request(one_rank), whole_epoch, by_sample=False).counts
    return Bounds(
        batches=max(1, -(-counts.real_tokens // basis.tokens_per_batch)),
        packed_rows=min_packed_rows(epoch.stats, basis.max_length),
        sorted=SortedEpoch(name, counts.batches, counts.padding_tokens, counts.total_tokens),
    )


def _sweep(
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
