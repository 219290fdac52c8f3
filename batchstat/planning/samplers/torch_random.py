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

    torch shuffles in n steps, one swap after the other: step i swaps the numbers at the positions i
    and `partner[i]`, which is i or later. So position i is final after step i, and gets what its
    partner held: the partner's own number, or what the last step before with the same partner left
    there, which is what that step's position held, and so on. A loop of swaps takes four times as
    long as following the chains of all positions together, in as many rounds as the logarithm of
    the longest.
    """
    if n < 2:
        return np.arange(n)
    steps = np.arange(n)
    choices = np.arange(n, 1, -1, dtype=np.uint64)
    partner = np.append((_raw(n - 1, seed) % choices).astype(np.int64), 0) + steps
    # Steps by their partners, and of equal ones by themselves, in one sort of one number each.
    by_partner = np.sort(partner << _STEP_BITS | steps)
    step, position = by_partner & (1 << _STEP_BITS) - 1, by_partner >> _STEP_BITS
    same_partner = np.flatnonzero(position[1:] == position[:-1]) + 1
    step_before = np.full(n, -1)  # the last step before each that had the same partner
    step_before[step[same_partner]] = step[same_partner - 1]
    last_of_partner = np.flatnonzero(np.append(position[1:] != position[:-1], True))
    # A step that is its own partner swaps nothing, and its position keeps what is there.
    is_own = step[last_of_partner] == position[last_of_partner]
    written_by = steps.copy()  # the step that wrote what each position holds when its own comes
    written_by[position[last_of_partner[~is_own]]] = step[last_of_partner[~is_own]]
    unswapped = position[last_of_partner[is_own]]
    first_of_all = step_before[unswapped] < 0
    written_by[unswapped] = np.where(first_of_all, unswapped, step_before[unswapped])
    while not np.array_equal(further := written_by[written_by], written_by):
        written_by = further
    shuffled: Ints = np.where(step_before < 0, partner, written_by[step_before])
    shuffled[unswapped] = written_by[unswapped]
    return shuffled


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
        largest: Ints = np.argsort(-(weights / waits), kind="stable")[:count]
        return largest
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
