"""An epoch planned by a strategy, window by window: the one place where windows are made."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from batchstat.planning.epoch import Epoch, InMemoryEpoch
from batchstat.planning.plan import BatchPlan, Windows
from batchstat.planning.strategies.base import Strategy
from batchstat.rng import window_rng

TOGETHER = 1 << 18
"""Samples of small windows planned together, whose arrays stay in the processor's cache."""


def plan_windows(
    strategy: Strategy, samples: Epoch, *, seed: int, epoch: int, together: int = 1
) -> Iterator[BatchPlan]:
    """Yield the plans of the epoch's windows in turn; their `samples` are record numbers.

    A window is the strategy's `read_ahead` consecutive samples, or all of them; the last may be
    short, and no batch spans two windows. Window k draws from `default_rng((seed, epoch, k))`.

    Args:
        strategy: what plans each window.
        samples: the epoch.
        seed: the seed of the epoch's order.
        epoch: its number.
        together: samples per plan: each plan holds as many windows as fit, at least one.
    """
    n = samples.count
    size = strategy.window_size or max(n, 1)
    windows = max(1, together // size)
    rng = partial(window_rng, seed, epoch)
    for k, part in enumerate(samples.pieces(size * windows)):
        rngs = map(rng, range(k * windows, (k + 1) * windows))
        last = (k + 1) * windows * size >= n
        yield _renumbered(strategy.plan_together(Windows(part.lengths, size, rngs, last)), part)


def _renumbered(plan: BatchPlan, part: InMemoryEpoch) -> BatchPlan:
    samples, starts = part.samples[plan.samples], plan.starts
    if part.starts is not None:
        begin = part.starts[plan.samples]
        starts = begin if starts is None else begin + starts
    return replace(plan, samples=samples, starts=starts)
