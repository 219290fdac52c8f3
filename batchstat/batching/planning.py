"""An epoch through a strategy, window by window: the one place where windows are made."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from batchstat.batching.plan import BatchPlan, Window
from batchstat.batching.strategy import Strategy
from batchstat.sampling.epoch import Epoch


def plan_windows(
    strategy: Strategy, visits: Epoch, *, seed: int, epoch: int
) -> Iterator[BatchPlan]:
    """The plans of the epoch's windows in turn; `samples` are record numbers.

    A window is the strategy's `read_ahead` consecutive visits, or all of them; the last is short
    and nothing crosses from one to the next. Window k draws from `default_rng((seed, epoch, k))`.
    """
    n = len(visits.lengths)
    size = strategy.window_size or max(n, 1)
    for k, first in enumerate(range(0, n, size)):
        part = slice(first, first + size)
        rng = np.random.default_rng((seed, epoch, k))
        plan = strategy.plan(Window(visits.lengths[part], rng, last=first + size >= n))
        yield _renumbered(plan, visits, part)


def plan_epoch(
    strategy: Strategy, visits: Epoch, *, seed: int, epoch: int, accumulate: int = 1
) -> BatchPlan:
    """The whole epoch's plan, `accumulate` batches a step. The epoch visits at least one sample."""
    windows = list(plan_windows(strategy, visits, seed=seed, epoch=epoch))
    return BatchPlan.concatenate(windows).accumulated(accumulate)


def _renumbered(plan: BatchPlan, visits: Epoch, part: slice) -> BatchPlan:
    samples, starts = visits.samples[part][plan.samples], plan.starts
    if visits.starts is not None:
        begin = visits.starts[part][plan.samples]
        starts = begin if starts is None else begin + starts
    return replace(plan, samples=samples, starts=starts)
