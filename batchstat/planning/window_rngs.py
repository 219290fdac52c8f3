"""`WindowGenerators`: the generators of an epoch's windows, seeded many at a time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from batchstat.lengths.arrays import Ints
from batchstat.planning.rng import window_rng

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
