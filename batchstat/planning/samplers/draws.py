"""Random draws of samples by class."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.planning.classes import Classes
from batchstat.planning.samples import check_room

MOST_DRAWN = 10**9  # samples of an epoch: more are a mistyped number


def draw_counts(
    classes: Classes, counts: Sequence[int], rng: np.random.Generator, *, even: bool = False
) -> Ints:
    """Draw `counts[i]` samples of class i. Returns them all, ascending. A class with enough samples
    is drawn from without replacement. One with fewer is drawn from with replacement, as in
    Catalyst's BalanceClassSampler; or, if `even`, each sample as often as any other, or once more.
    """
    check_total(sum(counts))
    of_classes = []
    for members, count in zip(classes.members, counts, strict=True):
        if count > len(members) and not even:
            of_classes.append(members[rng.integers(0, len(members), count)])
            continue
        # Each member so many times, which is 0 if not all are needed; some of them once more.
        times, n_once_more = divmod(count, len(members))
        once_more = rng.choice(members, n_once_more, replace=False, shuffle=False)
        of_classes += [np.repeat(members, times), once_more]
    drawn = np.concatenate(of_classes)
    drawn.sort()
    return drawn


def check_total(samples: int) -> None:
    """Raise InputError for more samples than an epoch can have."""
    if samples > MOST_DRAWN:
        raise InputError(
            f"the sampler draws {samples:,} samples per epoch", f"set at most {MOST_DRAWN:,}"
        )
    check_room("the sampler draws", samples, "set fewer")


def draw_distinct(sizes: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Return (n, count) numbers: row i below sizes[i], all different if sizes[i] is large enough.
    Source: Robert Floyd's sampling (J. Bentley, R. Floyd, A sample of brilliance, CACM 1987), for
    all rows at once; then each row is shuffled.
    """
    drawn = np.empty((len(sizes), count), dtype=np.int64)
    # Below too small a size there are not enough different numbers: these rows repeat some.
    is_small = sizes < count
    drawn[is_small] = rng.integers(0, sizes[is_small, None], (int(is_small.sum()), count))
    large_sizes = sizes[~is_small]
    # Floyd's way compares each number with all before it in its row: many are faster row by row.
    if count > 64:
        for row, size in zip(np.flatnonzero(~is_small).tolist(), large_sizes.tolist(), strict=True):
            drawn[row] = rng.choice(size, count, replace=False)
    else:
        # Step k draws up to a bound, or takes that, which no earlier one could, for a repeated one.
        numbers = np.full((len(large_sizes), count), -1)
        for k in range(count):
            upper = large_sizes - count + k
            number = rng.integers(0, upper + 1)
            is_taken = (numbers[:, :k] == number[:, None]).any(axis=1)
            numbers[:, k] = np.where(is_taken, upper, number)
        drawn[~is_small] = rng.permuted(numbers, axis=1)
    return drawn


def round_shares(shares: Sequence[float], total: int) -> list[int]:
    """Return whole numbers in proportion to `shares` that add up to `total`, by the largest
    remainder: shares 1, 1, 1 and a total of 10 make 4, 3, 3. Of equal remainders, the first is
    rounded up. `shares` are not negative, nor all 0. Fractions are exact.
    """
    fractions = [Fraction(share) for share in shares]
    per_share = total / sum(fractions)
    exact = [fraction * per_share for fraction in fractions]
    whole = [int(number) for number in exact]
    # whole − exact is the negative remainder.
    largest_remainder_first = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for i in largest_remainder_first[: total - sum(whole)]:
        whole[i] += 1
    return whole
