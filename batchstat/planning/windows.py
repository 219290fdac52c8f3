"""An epoch planned by a strategy, window by window: the one place where windows are made."""

from collections.abc import Iterator
from dataclasses import replace

from batchstat.planning.epoch import Epoch, InMemoryEpoch
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy
from batchstat.rng import window_rng


def plan_windows(
    strategy: Strategy, samples: Epoch, *, seed: int, epoch: int
) -> Iterator[BatchPlan]:
    """Yield the plans of the epoch's windows in turn; their `samples` are record numbers.

    A window is the strategy's `read_ahead` consecutive samples, or all of them; the last may be
    short, and no batch spans two windows. Window k draws from `default_rng((seed, epoch, k))`.
    """
    n = samples.count
    size = strategy.window_size or max(n, 1)
    for k, part in enumerate(samples.pieces(size)):
        rng = window_rng(seed, epoch, k)
        plan = strategy.plan(Window(part.lengths, rng, last=(k + 1) * size >= n))
        yield _renumbered(plan, part)


def _renumbered(plan: BatchPlan, part: InMemoryEpoch) -> BatchPlan:
    samples, starts = part.samples[plan.samples], plan.starts
    if part.starts is not None:
        begin = part.starts[plan.samples]
        starts = begin if starts is None else begin + starts
    return replace(plan, samples=samples, starts=starts)
