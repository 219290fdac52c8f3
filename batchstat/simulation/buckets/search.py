"""Bucket edges for the lengths of a corpus, by every rule and for different numbers of buckets."""

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from batchstat.calibration.cost_model import CostModel
from batchstat.documents.buckets import Bucket, BucketTime, Edges
from batchstat.errors import NoBatchError, OptionError
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
    simulate_times,
)
from batchstat.simulation.buckets.report import BucketReport
from batchstat.simulation.device import Device
from batchstat.simulation.device_warnings import device_warnings
from batchstat.simulation.results import StrategyResult
from batchstat.simulation.rows import make_row
from batchstat.words import short

NUMBERS = range(2, 17)  # numbers of buckets that are tried
MOST_LEFT_OUT = 0.1  # short batches are dropped only if that loses at most this share of the tokens
_USUAL_BUCKETS = 8  # number of buckets if none is requested and there is no calibration

_OPTION_OF_COST = {"model": "model", "time": "calibration"}
"""By costs that depend on more than lengths, the option that gives the rest."""


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
    """Find the bucket edges with the least padding, or another cost, and beside them the edges of
    every other rule: `batchstat buckets`. Raises OptionError: a setting that is wrong by itself;
    InputError: more buckets than distinct lengths, too few samples for one, or no batch.
    """
    basis = inputs.resolve(settings)
    after_overflow = inputs.stats.cut(basis.max_length, basis.overflow)
    check_any(after_overflow.count, basis.max_length)
    # An edge is at least 1, so that an empty sample counts as 1 token.
    lengths = after_overflow.replace(np.maximum(after_overflow.values, 1))
    # Edges are widths of rows, and these are multiples of pad_to_multiple_of.
    widths = lengths.replace(round_up(lengths.values, basis.pad_to_multiple_of))
    check_buckets("buckets", buckets, len(widths.values))
    wanted = buckets or min(_USUAL_BUCKETS, len(widths.values))
    edge_cost: EdgeCost = SampleCost(_cost_by_width(cost, model))
    numbers = {*NUMBERS, wanted}
    if device is not None:
        edge_cost = batch_time(device, basis, epochs)
        # Where new shapes cost time, one bucket may take the least.
        numbers.add(1)
    # For each rule, pairs of a number of buckets and the edges that it finds.
    possible = sorted(n for n in numbers if n <= len(widths.values))
    best_edges = edge_cost.best_edges(widths, max(possible), min_bucket_samples)  # for 1, 2, …
    edges_by_rule = {"optimal": [(n, best_edges[n - 1]) for n in possible]}
    # Edges of other rules are rounded to widths of rows, and small buckets merged.
    for name, rule in RULES.items():
        if name != "optimal":
            found = [rule(widths.values, widths.counts, n, edge_cost.of_sample) for n in possible]
            rounded = [np.unique(round_up(edges, basis.pad_to_multiple_of)) for edges in found]
            merged = [_merge_small_buckets(each, widths, min_bucket_samples) for each in rounded]
            edges_by_rule[name] = list(zip(possible, merged, strict=True))
    measured = {
        rule: tuple(_measure_edges(rule, n, edges, lengths, edge_cost) for n, edges in pairs)
        for rule, pairs in edges_by_rule.items()
    }
    shares = make_shares(inputs.samples, basis)
    times: tuple[BucketTime, ...] = ()
    if device is not None:
        # The search takes batches as shared evenly by the ranks; simulated, each time is exact.
        times = tuple(simulate_times(edges_by_rule["optimal"], shares, basis, device, epochs))
        wanted = buckets or (fastest(times).wanted if times else wanted)
    chosen = next(result.edges for result in measured["optimal"] if result.wanted == wanted)
    uses = tuple(_simulate_uses(chosen, shares, basis, device))
    return BucketReport(
        created=datetime.now(UTC).isoformat(),
        samples=len(inputs.samples),
        corpus=inputs.corpus,
        tokenizer=inputs.tokenizer,
        basis=basis,
        lengths=lengths,
        cost=cost,
        model=model,
        wanted=wanted,
        min_bucket_samples=min_bucket_samples,
        epochs=epochs,
        times=times,
        buckets=tuple(_describe_buckets(chosen, lengths, basis)),
        found=measured,
        uses=uses,
        device=device,
        warnings=tuple(device_warnings(uses, device, basis.widest)),
    )


def decide_cost(cost: str | None, model: object, calibration: object) -> str:
    """Check --cost, --model and --calibration together, and return the cost that edges minimise:
    the one requested, else `model` with a model, `time` with a calibration, and `linear` (padding)
    without both. Raises OptionError: an unknown cost, a cost without the option that it needs or
    with one that it does not use, or a model and a calibration together.
    """
    if cost is not None and not isinstance(cost, str):
        raise OptionError(f"cost={short(cost)}", f"must be one of {', '.join(COSTS)}")
    if model is not None and calibration is not None:
        raise OptionError("--model and --calibration are mutually exclusive", "give one")
    default = "linear" if model is None else "model"
    if calibration is not None:
        default = "time"
    if cost is None:
        return default
    one_of("cost", cost, COSTS)
    if cost != default:
        if option := _OPTION_OF_COST.get(default):
            raise OptionError(f"cost={cost} uses no {option}", f"remove --cost or --{option}")
        if option := _OPTION_OF_COST.get(cost):
            raise OptionError(f"cost={cost} needs a {option}", f"name one with --{option}")
    return cost


def _simulate_uses(
    edges: tuple[int, ...], shares: EpochShares, basis: ResolvedSettings, device: Device | None
) -> list[StrategyResult]:
    """Simulate with short batches kept and dropped; return both, the better one first."""
    # Dropping leaves one shape per bucket, and comes first if few tokens of short batches are lost;
    # not with a device, since the edges have the least time of all samples.
    keep = rows_as_wide_as(edges)
    drop = keep.with_parameter("leftovers", "drop")
    with_short = make_row(keep.request(basis), shares, None, device)
    try:
        only_full = make_row(drop.request(basis), shares, None, device)
    except NoBatchError:
        return [with_short]
    lost_share = only_full.counts.dropped_ratio - with_short.counts.dropped_ratio
    # No batch is short: both rows are equal, and this one promises one shape per bucket.
    if lost_share == 0:
        return [only_full]
    # Buckets that are too small for a full batch would lose all of their samples.
    if only_full.counts.distinct_shapes < len(edges):
        return [with_short]
    drops_first = device is None and lost_share <= MOST_LEFT_OUT
    return [only_full, with_short] if drops_first else [with_short, only_full]


def _cost_by_width(cost: str, model: CostModel | None) -> Cost:
    if model is not None:
        return lambda width: model.linear * width + model.quadratic * width**2
    # `int` returns the width itself.
    return int if cost == "linear" else lambda width: width * width


def _merge_small_buckets(edges: Ints, widths: LengthStats, least: int) -> tuple[int, ...]:
    """Return edges whose buckets have at least `least` samples, each merged into the next."""
    # (n_edges,) how many of the distinct widths are at or below each edge, and their samples.
    widths_up_to = np.searchsorted(widths.values, edges, side="right")
    samples_up_to = offsets_from_sizes(widths.counts)[widths_up_to].tolist()
    kept: list[int] = []
    before_bucket = 0  # samples of all buckets below the one that is being filled
    for edge, up_to_edge in zip(edges.tolist()[:-1], samples_up_to[:-1], strict=True):
        # Enough samples for this bucket, and enough above it: the last edge always stays.
        if min(up_to_edge - before_bucket, samples_up_to[-1] - up_to_edge) >= least:
            kept.append(edge)
            before_bucket = up_to_edge
    return (*kept, int(edges[-1]))


def _measure_edges(
    rule: str, wanted: int, edges: tuple[int, ...], lengths: LengthStats, edge_cost: EdgeCost
) -> Edges:
    """Return the padding and the cost of the edges that a rule found for `wanted` buckets."""
    # For each distinct length, the first edge that is not below it.
    bucket_of_length = np.searchsorted(edges, lengths.values)
    samples = sums_at(bucket_of_length, lengths.counts, len(edges)).tolist()
    cost_unpadded = sum(
        edge_cost.of_sample(value) * count
        for value, count in zip(lengths.values.tolist(), lengths.counts.tolist(), strict=True)
    )
    # Padding never costs less; floats may round to less.
    cost_padded = max(cost_unpadded, edge_cost.of_edges(edges, samples))
    padded_tokens = sum(edge * n for edge, n in zip(edges, samples, strict=True))
    return Edges(rule, wanted, edges, lengths.sum, padded_tokens, cost_padded / cost_unpadded)


def _describe_buckets(
    edges: tuple[int, ...], lengths: LengthStats, basis: ResolvedSettings
) -> Iterator[Bucket]:
    """Yield for each bucket its samples, their tokens, and rows per batch."""
    # For each distinct length, the first edge that is not below it.
    bucket_of_length = np.searchsorted(edges, lengths.values)
    samples = sums_at(bucket_of_length, lengths.counts, len(edges))
    tokens = sums_at(bucket_of_length, product(lengths.values, lengths.counts), len(edges))
    for edge, count, real in zip(edges, samples.tolist(), tokens.tolist(), strict=True):
        yield Bucket(edge, count, real, batch_size=max(1, basis.tokens_per_batch // edge))
