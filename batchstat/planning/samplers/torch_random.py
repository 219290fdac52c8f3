"""torch's random draws without torch: its CPU generator and the two draws that samplers use.

The generator is MT19937 seeded as NumPy's legacy seeding does, with the lower 32 bits of the seed.
Source: torch's randperm_cpu and multinomial kernels; equal to them in every case tried.
"""

import numpy as np
import numpy.typing as npt

from batchstat.lengths.arrays import Floats, Ints


def torch_permutation(n: int, seed: int) -> Ints:
    """Return (n,) the result of `torch.randperm(n, generator=torch.Generator().manual_seed(seed))`.

    For n up to 214 million, above which torch draws 64 bits per position.

    Step i of the shuffle swaps what the positions i and `there[i]` hold. A position's number, once
    its own step has come, is final: it was written by the last step before that went there, with
    what that step's own position held, and so on. These chains are followed for all at once.
    """
    if n < 2:
        return np.arange(n)
    steps = np.arange(n)
    left = np.arange(n, 1, -1, dtype=np.uint64)
    there = np.append((_raw(n - 1, seed) % left).astype(np.int64), 0) + steps
    order = np.sort(there << _STEP_BITS | steps)
    step, position = order & (1 << _STEP_BITS) - 1, order >> _STEP_BITS
    again = np.flatnonzero(position[1:] == position[:-1]) + 1
    before = np.full(n, -1)  # the last step before each that went to the same position
    before[step[again]] = step[again - 1]
    last = np.flatnonzero(np.append(position[1:] != position[:-1], True))
    stays = step[last] == position[last]
    written_by = steps.copy()  # by which step the number of each position is, when its own comes
    written_by[position[last[~stays]]] = step[last[~stays]]
    staying = position[last[stays]]
    written_by[staying] = np.where(before[staying] < 0, staying, before[staying])
    while not np.array_equal(further := written_by[written_by], written_by):
        written_by = further
    found: Ints = np.where(before < 0, there, written_by[before])
    found[staying] = written_by[staying]
    return found


_STEP_BITS = 31


def torch_seeds(count: int, seed: int) -> list[int]:
    """Return the lower 32 bits of the seeds that torch's RandomSampler draws for itself, one for
    each iteration, after `torch.manual_seed(seed)`.

    Each is `torch.empty((), dtype=torch.int64).random_()`, of which generators use these bits.
    """
    drawn: list[int] = _raw(2 * count, seed)[1::2].tolist()
    return drawn


def torch_multinomial(weights: Floats, count: int, seed: int, *, replacement: bool) -> Ints:
    """Return (count,) what `torch.multinomial` draws in double precision, as in
    WeightedRandomSampler.

    Args:
        weights: (n,) not negative, not all 0; without replacement at least `count` above 0.
        count: number of draws.
        seed: seed of the generator.
        replacement: whether an index can be drawn again.
    """
    # torch makes a single draw as it does without replacement.
    alone = not replacement or count == 1
    drawn = _uniform(len(weights) if alone else count, seed)
    if alone:
        waits = -np.log1p(-drawn)
        found: Ints = np.argsort(-(weights / waits), kind="stable")[:count]
        return found
    upto = np.cumsum(weights)
    upto /= upto[-1]
    upto[-1] = 1
    return np.searchsorted(upto, drawn)


def _raw(n: int, seed: int) -> npt.NDArray[np.uint64]:
    generator = np.random.MT19937()
    generator._legacy_seeding(seed & 0xFFFFFFFF)
    raw: npt.NDArray[np.uint64] = generator.random_raw(n)
    return raw


def _uniform(n: int, seed: int) -> Floats:
    """Return (n,) doubles in [0, 1) from the lower 53 of 64 bits each."""
    raw = _raw(2 * n, seed)
    bits = (raw[0::2] << np.uint64(32)) | raw[1::2]
    doubles: Floats = (bits & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53
    return doubles
