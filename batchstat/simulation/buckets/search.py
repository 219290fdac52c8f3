"""Bucket edges for the lengths of a corpus, by every rule and for different numbers of buckets."""

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from batchstat.calibration.cost_model import CostModel
from batchstat.documents.buckets import Bucket, BucketTime, Edges
from batchstat.errors import NoBatchError, OptionError, short
from batchstat.lengths.arrays import Ints, offsets_from_sizes, round_up
from batchstat.lengths.exact import product, sums_at
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import one_of
from batchstat.planning.algorithms.bucket_edges import RULES, Cost, check_buckets
from batchstat.planning.epoch import check_any
from batchstat.planning.inputs import PlanInputs
from batchstat.planning.rules import COSTS
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.shares import EpochShares, make_shares
from batchstat.simulation.buckets.costs import (
    EdgeCost,
    SampleCost,
    batch_time,
    fastest,
    rows_as_wide_as,
    times_of,
)
from batchstat.simulation.buckets.report import BucketReport
from batchstat.simulation.device import Device, batch_cost
from batchstat.simulation.device_warnings import device_warnings
from batchstat.simulation.results import StrategyResult
from batchstat.simulation.rows import make_row

NUMBERS = range(2, 17)
"""Numbers of buckets that are tried."""

MOST_LEFT_OUT = 0.1
"""Short batches are dropped only if that loses at most this share of the tokens."""

_USUAL_BUCKETS = 8

_BY = {"model": "model", "time": "calibration"}
"""What the costs that depend on more than lengths are computed by."""


def search_buckets(
    inputs: PlanInputs,
    settings: Settings,
    *,
    buckets: int | None,
    min_bucket_samples: int,
    cost: str,
    model: CostModel | None,
    device: Device | None,
    epochs: int,
) -> BucketReport:
    """Find the edges with the least padding, or cost, and those of every other rule.

    Args:
        inputs: the corpus.
        settings: the settings, as given.
        buckets: number of buckets; None for the usual one, or with a device the best one.
        min_bucket_samples: fewest samples per bucket.
        cost: one of `COSTS`, as `decide_cost` returns it.
        model: the transformer, for the cost of that name.
        device: the calibrated device, for the cost `time`.
        epochs: number of epochs after which training ends.

    Raises:
        OptionError: a setting that is wrong by itself.
        InputError: more buckets than distinct lengths, too few samples for `min_bucket_samples`,
            or the settings leave no batch.
    """
    basis = inputs.resolve(settings)
    kept = inputs.stats.cut(basis.max_length, basis.overflow)
    check_any(kept.count, basis.max_length)
    # An edge is at least 1: no row is 0 tokens wide.
    real = kept.replace(np.maximum(kept.values, 1))
    stats = real.replace(round_up(real.values, basis.pad_to_multiple_of))
    check_buckets("buckets", buckets, len(stats.values))
    wanted = buckets or min(_USUAL_BUCKETS, len(stats.values))
    price: EdgeCost = SampleCost(_price(cost, model))
    numbers = {*NUMBERS, wanted}
    if device is not None:
        price = batch_time(device, basis, epochs)
        # Where shapes are compiled, one bucket may take the least time.
        numbers.add(1)
    edges_by_rule = dict(
        _edges(stats, sorted(numbers), price, min_bucket_samples, basis.pad_to_multiple_of)
    )
    measured = {
        rule: tuple(_measured(rule, n, edges, real, price) for n, edges in each)
        for rule, each in edges_by_rule.items()
    }
    shares = make_shares(inputs.samples, basis)
    times: tuple[BucketTime, ...] = ()
    if device is not None:
        times = tuple(times_of(edges_by_rule["optimal"], shares, basis, device, epochs))
        wanted = buckets or (fastest(times).wanted if times else wanted)
    chosen = next(each.edges for each in measured["optimal"] if each.wanted == wanted)
    uses = tuple(_uses(chosen, shares, basis, device))
    return BucketReport(
        created=datetime.now(UTC).isoformat(),
        samples=len(inputs.samples),
        corpus=inputs.corpus,
        tokenizer=inputs.tokenizer,
        basis=basis,
        lengths=real,
        cost=cost,
        model=model,
        wanted=wanted,
        min_bucket_samples=min_bucket_samples,
        epochs=epochs,
        times=times,
        buckets=tuple(_buckets(chosen, real, basis)),
        found=measured,
        uses=uses,
        device=device,
        warnings=tuple(device_warnings(uses, device, basis.widest)),
    )


def decide_cost(cost: str | None, model: object, calibration: object) -> str:
    """Return what edges minimise: what is asked for, or what a model or a calibration implies.

    Raises:
        OptionError: an unknown cost, one that the model or the calibration is not for or that lacks
            it, both of these, or neither a model nor a calibration where one is given.
    """
    if cost is not None and not isinstance(cost, str):
        raise OptionError(f"cost={short(cost)}: must be one of {', '.join(COSTS)}")
    if model is not None and calibration is not None:
        raise OptionError("--model and --calibration are mutually exclusive; give one")
    implied = "time" if calibration is not None else "linear" if model is None else "model"
    if cost is None:
        return implied
    one_of("cost", cost, COSTS)
    if implied in _BY and cost != implied:
        raise OptionError(f"cost={cost} uses no {_BY[implied]}: remove --cost or --{_BY[implied]}")
    if cost in _BY and cost != implied:
        raise OptionError(f"cost={cost} needs a {_BY[cost]}: name one with --{_BY[cost]}")
    return cost


def _uses(
    edges: tuple[int, ...], shares: EpochShares, basis: ResolvedSettings, device: Device | None
) -> list[StrategyResult]:
    """Return the results with rows as wide as edges, short batches kept or dropped: the better
    first.

    When dropped, there are as many shapes as buckets. That is better if few tokens are lost, and
    not an option if a bucket then has no batch. With a device, the least time is that of all
    samples: short batches are kept first.
    """
    keep = rows_as_wide_as(edges)
    drop = keep.with_parameter("leftovers", "drop")
    cost = batch_cost(None, device)
    every = make_row(keep.request(basis), shares, cost, device)
    try:
        full = make_row(drop.request(basis), shares, cost, device)
    except NoBatchError:
        return [every]
    lost = full.counts.dropped_ratio - every.counts.dropped_ratio
    if lost == 0:
        return [full]
    if full.counts.distinct_shapes < len(edges):  # whole buckets would never be computed
        return [every]
    is_first = device is None and lost <= MOST_LEFT_OUT
    return [full, every] if is_first else [every, full]


def _price(cost: str, model: CostModel | None) -> Cost:
    """Return what a sample costs in a row of a width."""
    if model is not None:
        return lambda width: model.linear * width + model.quadratic * width**2
    return int if cost == "linear" else lambda width: width * width


def _edges(
    stats: LengthStats, numbers: list[int], price: EdgeCost, min_bucket_samples: int, multiple: int
) -> Iterator[tuple[str, list[tuple[int, tuple[int, ...]]]]]:
    """Yield each rule with its edges, for those numbers of buckets that are possible."""
    numbers = [n for n in numbers if n <= len(stats.values)]
    every = price.each_best(stats, max(numbers, default=1), min_bucket_samples)
    yield "optimal", [(n, every[n - 1]) for n in numbers]
    for name, rule in RULES.items():
        if name != "optimal":
            found = ((n, rule(stats.values, stats.counts, n, price.of_sample)) for n in numbers)
            rounded = ((n, np.unique(round_up(edges, multiple))) for n, edges in found)
            yield name, [(n, _merged(edges, stats, min_bucket_samples)) for n, edges in rounded]


def _merged(edges: Ints, stats: LengthStats, min_bucket_samples: int) -> tuple[int, ...]:
    """Return the edges, without those of buckets with fewer than `min_bucket_samples` samples."""
    upto = offsets_from_sizes(stats.counts)
    below = upto[np.searchsorted(stats.values, edges, side="right")].tolist()
    kept: list[int] = []
    taken = 0
    for edge, samples in zip(edges.tolist()[:-1], below[:-1], strict=True):
        if samples - taken >= min_bucket_samples and below[-1] - samples >= min_bucket_samples:
            kept.append(edge)
            taken = samples
    return (*kept, int(edges[-1]))


def _measured(
    rule: str, wanted: int, edges: tuple[int, ...], real: LengthStats, price: EdgeCost
) -> Edges:
    above = np.searchsorted(edges, real.values)
    held = sums_at(above, real.counts, len(edges))
    needed = sum(
        price.of_sample(value) * count
        for value, count in zip(real.values.tolist(), real.counts.tolist(), strict=True)
    )
    paid = max(needed, price.of_edges(edges, held.tolist()))  # floats round
    total = sum(edge * n for edge, n in zip(edges, held.tolist(), strict=True))
    return Edges(rule, wanted, edges, real.sum, total, paid / needed)


def _buckets(
    edges: tuple[int, ...], real: LengthStats, basis: ResolvedSettings
) -> Iterator[Bucket]:
    above = np.searchsorted(edges, real.values)
    samples = sums_at(above, real.counts, len(edges))
    tokens = sums_at(above, product(real.values, real.counts), len(edges))
    for edge, count, held in zip(edges, samples.tolist(), tokens.tolist(), strict=True):
        yield Bucket(edge, count, held, max(1, basis.tokens_per_batch // edge))
