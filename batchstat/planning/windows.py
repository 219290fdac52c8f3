"""An epoch planned by a strategy, window by window: the one place where windows are made, and the
generators that they are planned with.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from batchstat.lengths.arrays import Ints
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.plan import BatchPlan, Windows
from batchstat.planning.rng import window_rng
from batchstat.planning.shares import Epoch
from batchstat.planning.strategies.base import Strategy

_AT_ONCE = 1 << 10
"""Windows seeded together."""


@dataclass(eq=False)
class WindowGenerators:
    """The generator of each window of an epoch, as `window_rng` returns it, in a fraction of the
    time where an epoch has many windows.

    Attributes:
        seed: the seed of the epoch's order.
        epoch: its number.
    """

    seed: int
    epoch: int
    _begin: int = -1
    _states: Ints = field(default_factory=lambda: np.zeros((0, 4), dtype=np.uint64))

    def after(self, first: int, window: int) -> np.random.Generator:
        """Return the generator of a window, counted from the window `first`."""
        window += first
        # SeedSequence takes a larger number as several words of 32 bits.
        if max(self.seed, self.epoch, window + _AT_ONCE) >= 2**32:
            return window_rng(self.seed, self.epoch, window)
        place = window % _AT_ONCE
        if window - place != self._begin:
            self._begin = window - place
            windows = np.arange(self._begin, self._begin + _AT_ONCE)
            self._states = seed_states(self.seed, self.epoch, windows)
        seed: Any = _Seeded(self._states[place])
        return np.random.Generator(np.random.PCG64(seed))


class _Seeded(ISeedSequence):
    """A seed whose state is known."""

    def __init__(self, state: Ints) -> None:
        self._state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return self._state[:n_words].astype(dtype, copy=False)


def seed_states(seed: int, epoch: int, windows: Ints) -> Ints:
    """Return (n, 4) what `SeedSequence((seed, epoch, window)).generate_state(4, np.uint64)` does
    for each window; every number is below 2^32.

    NumPy promises that these states never change. Source: O'Neill, seed_seq_fe.
    """
    pool: Ints = np.zeros((4, len(windows)), dtype=np.uint32)
    pool[0], pool[1], pool[2] = seed, epoch, windows
    pool = _hashed(pool, _MIX[:5])
    for source in range(4):
        others = [place for place in range(4) if place != source]
        hashed = _hashed(pool[source], _MIX[4 + 3 * source :][:4])
        mixed = pool[others] * _LEFT - hashed * _RIGHT
        pool[others] = mixed ^ (mixed >> _HALF)
    # Of more words than the pool has, `generate_state` begins again with its first.
    words = _hashed(np.concatenate([pool, pool]), _DRAW)
    low, high = words[0::2].astype(np.uint64), words[1::2].astype(np.uint64)
    return np.ascontiguousarray((low | high << np.uint64(32)).T)


def _hashed(numbers: Ints, constants: Ints) -> Ints:
    """Return the numbers (n, …) hashed with n constants, and each with the one after its own."""
    hashed = (numbers ^ constants[:-1, None]) * constants[1:, None]
    return hashed ^ (hashed >> _HALF)


def _powers(first: int, factor: int, n: int) -> Ints:
    return np.array([first * pow(factor, k, 2**32) % 2**32 for k in range(n)], dtype=np.uint32)


_HALF = np.uint32(16)
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_MIX = _powers(0x43B0D7E5, 0x931E8875, 17)
_DRAW = _powers(0x8B51F9DD, 0x58F38DED, 9)


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
        first_tokens = part.starts[plan.samples]
        starts = first_tokens if starts is None else first_tokens + starts
    return replace(plan, samples=samples, starts=starts)
