"""An epoch planned window by window; windows are made here alone, with their generators."""

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

_AT_ONCE = 1 << 10  # Windows seeded together
TOGETHER = 1 << 17  # samples of small windows planned together, whose arrays stay in the cache


@dataclass(eq=False)
class WindowGenerators:
    """The generators of an epoch's windows, as of `window_rng`; of 1,024 at a time, for speed."""

    seed: int  # the seed of the epoch's order
    epoch: int  # its number
    _begin: int = -1
    _states: Ints = field(default_factory=lambda: np.zeros((0, 4), dtype=np.uint64))

    def of_window(self, first_window: int, index: int) -> np.random.Generator:
        """Return the generator of the window `first_window` + `index` of the epoch."""
        window = first_window + index
        # SeedSequence takes a larger number as several words of 32 bits.
        if max(self.seed, self.epoch, window + _AT_ONCE) >= 2**32:
            return window_rng(self.seed, self.epoch, window)
        # `_states` holds the states of `_AT_ONCE` windows, from `_begin` on.
        if not self._begin <= window < self._begin + len(self._states):
            self._begin = window - window % _AT_ONCE
            windows = np.arange(self._begin, self._begin + _AT_ONCE)
            self._states = seed_states(self.seed, self.epoch, windows)
        known_seed: Any = _Seeded(self._states[window - self._begin])
        return np.random.Generator(np.random.PCG64(known_seed))


class _Seeded(ISeedSequence):
    """A seed whose state is known."""

    def __init__(self, state: Ints) -> None:
        self._state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return self._state[:n_words].astype(dtype, copy=False)


def seed_states(seed: int, epoch: int, windows: Ints) -> Ints:
    """Return (n, 4) the state of each of n windows: what `SeedSequence((seed, epoch,
    window)).generate_state(4, np.uint64)` returns, for all windows together, by NumPy's algorithm,
    which it promises to keep. Every number is below 2^32. Source: O'Neill, seed_seq_fe.
    """
    pool: Ints = np.zeros((4, len(windows)), dtype=np.uint32)
    # (4, n): the entropy, with a fourth word of 0.
    pool[0], pool[1], pool[2] = seed, epoch, windows
    pool = _hash(pool, _MIX[:5])
    # Each word is mixed into the three others: hashed for each of them, multiplied with it, and the
    # upper half of the bits added to the lower one. The hash above has used up 4 constants, those
    # for each word 3 more; a hash of m rows also needs the constant after them.
    for source in range(4):
        targets = [word for word in range(4) if word != source]
        hashed = _hash(pool[source], _MIX[4 + 3 * source :][:4])
        mixed = pool[targets] * _LEFT - hashed * _RIGHT
        pool[targets] = mixed ^ (mixed >> _HALF)
    # `generate_state` draws 8 words from the 4 of the pool: after the last, it begins again.
    words = _hash(np.concatenate([pool, pool]), _DRAW)
    # Two words of 32 bits make one of 64, the first of them its low half.
    low, high = words[0::2].astype(np.uint64), words[1::2].astype(np.uint64)
    return np.ascontiguousarray((low | high << np.uint64(32)).T)


def _hash(numbers: Ints, constants: Ints) -> Ints:
    hashed = (numbers ^ constants[:-1, None]) * constants[1:, None]
    return hashed ^ (hashed >> _HALF)


def _powers(first: int, factor: int, n: int) -> Ints:
    return np.array([first * pow(factor, k, 2**32) % 2**32 for k in range(n)], dtype=np.uint32)


# The constants of NumPy's SeedSequence: XSHIFT; MIX_MULT_L and MIX_MULT_R; powers of MULT_A ×
# INIT_A (1 + 4 + 4 × 3 are used), and of MULT_B × INIT_B (1 + 8).
_HALF = np.uint32(16)
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_MIX = _powers(0x43B0D7E5, 0x931E8875, 17)
_DRAW = _powers(0x8B51F9DD, 0x58F38DED, 9)


def plan_windows(
    strategy: Strategy, samples: Epoch, *, seed: int, epoch: int, together: int = 1
) -> Iterator[BatchPlan]:
    """Yield the plans of the epoch's windows in turn; their `samples` are record numbers. A window
    is the strategy's `read_ahead` consecutive samples, or all of them; the last may be short, and
    no batch spans two windows. Window k draws from `default_rng((seed, epoch, k))`.
    """
    for windows, part in _windows(strategy, samples, seed, epoch, together):
        yield _with_records(strategy.plan_together(windows), part)


def tabulate_windows(
    strategy: Strategy, samples: Epoch, *, seed: int, epoch: int
) -> Iterator[BatchTable]:
    """Yield the batches of `plan_windows` as tables, counted without single samples if possible."""
    for windows, part in _windows(strategy, samples, seed, epoch, TOGETHER):
        table = None if part.is_split else strategy.summary_together(windows)
        # Parts of split samples, or a strategy whose batches only a plan knows.
        if table is None:
            table = BatchTable.of([_with_records(strategy.plan_together(windows), part)])
        yield table


def _windows(
    strategy: Strategy, samples: Epoch, seed: int, epoch: int, together: int
) -> Iterator[tuple[Windows, InMemoryEpoch]]:
    """Yield windows of an epoch, small ones several at a time, and the part they are made of."""
    n = samples.count
    # No window size: the whole epoch is one window.
    size = strategy.window_size or max(n, 1)
    n_windows = max(1, together // size)
    generators = WindowGenerators(seed, epoch)
    first_window = 0
    for part in samples.pieces(size * n_windows):
        rng = partial(generators.of_window, first_window)
        first_window += n_windows
        last = first_window * size >= n
        yield Windows(part.lengths, size, rng, last, seed + epoch, part.starts, epoch), part


def _with_records(plan: BatchPlan, part: InMemoryEpoch) -> BatchPlan:
    """Return the plan of a part of an epoch with record numbers, and first tokens where split."""
    part.samples.max(initial=0)  # read in sequence, to have in the cache what `take` reads
    samples, starts = part.samples.take(plan.samples), plan.starts
    if part.starts is not None:
        first_tokens = part.starts[plan.samples]
        # A strategy that splits the part of a sample again counts from the beginning of that part.
        starts = first_tokens if starts is None else first_tokens + starts
    return replace(plan, samples=samples, starts=starts)
