"""torch's random draws without torch: its CPU generator and the two draws that samplers use. The
generator is MT19937 seeded as NumPy's legacy seeding does, with the lower 32 bits of the seed.
Source: torch's randperm_cpu and multinomial kernels; equal to them in every case tried.
"""

import numpy as np
import numpy.typing as npt

from batchstat.lengths.arrays import Floats, Ints

_STEP_BITS = 31  # bits of a step in a sort of partners and steps: n is below 2^31


def torch_permutation(n: int, seed: int) -> Ints:
    """Return (n,) the result of `torch.randperm(n, generator=torch.Generator().manual_seed(seed))`,
    for n up to 214 million, above which torch draws 64 bits per position. torch starts with 0 … n −
    1 and shuffles in steps: step i swaps the numbers at the positions i and `partner[i]`, which is
    i or later. So position i is final after step i, and gets what its partner held then. That is
    the partner's own number; or, if an earlier step had the same partner, what the position of the
    last such step held before it. With the partners [2, 2, 2], step 0 makes [2, 1, 0], and step 1
    [2, 0, 1]: position 1 gets the 0 that step 0 left at 2. A loop of swaps takes four times as long
    as following these chains for all positions together.
    """
    if n < 2:
        return np.arange(n)
    steps = np.arange(n)
    # Step i chooses among n − i positions; the last step has no choice.
    choices = np.arange(n, 1, -1, dtype=np.uint64)
    partner = np.append((_raw(n - 1, seed) % choices).astype(np.int64), 0) + steps
    # Steps by partner, then by number: as one number, partner × 2^31 + step, taken apart again.
    partner_and_step = np.sort(partner << _STEP_BITS | steps)
    step, partner_of_step = partner_and_step & (1 << _STEP_BITS) - 1, partner_and_step >> _STEP_BITS
    # In that sequence: whether the next step has the same partner, and the last of each partner.
    same_as_next = partner_of_step[:-1] == partner_of_step[1:]
    step_before = np.full(n, -1)  # the last step before each that had the same partner
    step_before[step[1:][same_as_next]] = step[:-1][same_as_next]
    is_last = np.append(~same_as_next, True)
    last_step, its_partner = step[is_last], partner_of_step[is_last]
    # For each position, the step that wrote what it holds when its own step comes: the last step
    # that had it as a partner. Itself, if none wrote there: it still holds its own number.
    written_by = steps.copy()
    written_by[its_partner] = last_step
    # A step that is its own partner keeps what the step before with that partner wrote, if any.
    unswapped = its_partner[last_step == its_partner]
    never_written = step_before[unswapped] < 0
    written_by[unswapped] = np.where(never_written, unswapped, step_before[unswapped])
    # Position i holds what written_by[i] held, which holds what its writer held, and so on: each
    # round doubles the length of the chains followed, until all end at a number that never moved.
    while not np.array_equal(two_links := written_by[written_by], written_by):
        written_by = two_links
    # Position i gets its partner's number; if an earlier step had the same partner, what that step
    # left there. A position that is not swapped keeps what it holds.
    shuffled: Ints = np.where(step_before < 0, partner, written_by[step_before])
    shuffled[unswapped] = written_by[unswapped]
    return shuffled


def torch_seeds(count: int, seed: int) -> list[int]:
    """Return the first `count` seeds that torch's RandomSampler draws for itself, one for each
    iteration, after `torch.manual_seed(seed)`: their lower 32 bits. Each is `torch.empty((),
    dtype=torch.int64).random_()`, of which generators use these bits.
    """
    # 64 bits are two draws of 32, of which the second is the lower half.
    drawn: list[int] = _raw(2 * count, seed)[1::2].tolist()
    return drawn


def torch_multinomial(weights: Floats, count: int, seed: int, *, replacement: bool) -> Ints:
    """Return (count,) what `torch.multinomial` draws in double precision by (n,) `weights`, which
    are not negative, nor all 0; without replacement, at least `count` are above 0.
    """
    # torch makes a single draw as it does without replacement.
    if not replacement or count == 1:
        # The larger weight / (an exponential waiting time), the sooner an index is drawn.
        waiting_times = -np.log1p(-_uniform(len(weights), seed))
        soonest_first: Ints = np.argsort(-(weights / waiting_times), kind="stable")
        return soonest_first[:count]
    # Each index has a range in [0, 1] as wide as its share; a random number falls in one.
    range_ends = np.cumsum(weights)
    range_ends /= range_ends[-1]
    range_ends[-1] = 1
    return np.searchsorted(range_ends, _uniform(count, seed))


def _raw(n: int, seed: int) -> npt.NDArray[np.uint64]:
    generator = np.random.MT19937()
    generator._legacy_seeding(seed & 0xFFFFFFFF)
    return generator.random_raw(n)


def _uniform(n: int, seed: int) -> Floats:
    raw = _raw(2 * n, seed)
    bits = (raw[0::2] << np.uint64(32)) | raw[1::2]
    return (bits & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53
