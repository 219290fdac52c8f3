"""An epoch planned by a strategy, window by window: the one place where windows are made."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from batchstat.planning.batch_table import BatchTable
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.plan import BatchPlan, Windows
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.streamed_epoch import Epoch
from batchstat.planning.window_rngs import WindowGenerators

TOGETHER = 1 << 17
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
    for windows, part in _windows(strategy, samples, seed, epoch, together):
        yield _renumbered(strategy.plan_together(windows), part)


def tabulate_windows(
    strategy: Strategy, samples: Epoch, *, seed: int, epoch: int
) -> Iterator[BatchTable]:
    """Yield the batches of the same plans, without following single samples."""
    for windows, part in _windows(strategy, samples, seed, epoch, TOGETHER):
        table = None if part.is_split else strategy.summary_together(windows)
        if table is None:
            table = BatchTable.of([_renumbered(strategy.plan_together(windows), part)])
        yield table


def _windows(
    strategy: Strategy, samples: Epoch, seed: int, epoch: int, together: int
) -> Iterator[tuple[Windows, InMemoryEpoch]]:
    n = samples.count
    size = strategy.window_size or max(n, 1)
    several = max(1, together // size)
    generators = WindowGenerators(seed, epoch)
    first = 0
    for part in samples.pieces(size * several):
        rng = partial(generators.after, first)
        first += several
        last = first * size >= n
        yield Windows(part.lengths, size, rng, last, seed + epoch, part.starts, epoch), part


def _renumbered(plan: BatchPlan, part: InMemoryEpoch) -> BatchPlan:
    part.samples.max(initial=0)  # read in sequence: the cache then holds what is taken at random
    samples, starts = part.samples.take(plan.samples), plan.starts
    if part.starts is not None:
        begin = part.starts[plan.samples]
        starts = begin if starts is None else begin + starts
    return replace(plan, samples=samples, starts=starts)
