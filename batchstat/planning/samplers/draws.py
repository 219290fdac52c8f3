"""Random draws of samples by class."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.planning.classes import Classes
from batchstat.planning.size_limits import check_room


def draw_counts(
    classes: Classes, counts: Sequence[int], rng: np.random.Generator, *, even: bool = False
) -> Ints:
    """Return (sum of counts,) the given number of samples of each class, ascending.

    A class with enough samples is drawn from without replacement. One with fewer is drawn from
    with replacement, as in Catalyst's BalanceClassSampler; or, if `even`, each of its samples is
    drawn as often as any other, or once more.
    """
    check_total(sum(counts))
    each_class = zip(classes.members, counts, strict=True)
    drawn = np.concatenate(
        [_drawn(members, count, rng, even=even) for members, count in each_class]
    )
    drawn.sort()
    return drawn


def check_total(samples: int) -> None:
    """Raise InputError for more samples than an epoch can have."""
    if samples > MOST_DRAWN:
        raise InputError(
            f"the sampler draws {samples:,} samples per epoch: set at most {MOST_DRAWN:,}"
        )
    check_room("the sampler draws", samples, "set fewer")


MOST_DRAWN = 10**9


def _drawn(members: Ints, count: int, rng: np.random.Generator, *, even: bool) -> Ints:
    if count > len(members) and not even:
        return members[rng.integers(0, len(members), count)]
    rounds, rest = divmod(count, len(members))
    chosen = rng.choice(members, rest, replace=False, shuffle=False)
    return np.concatenate([np.repeat(members, rounds), chosen])


def draw_distinct(sizes: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Return (n, count) random numbers below m for each size m, all different if m is large enough.

    Source: Robert Floyd's sampling (J. Bentley, R. Floyd, A sample of brilliance, CACM 1987), for
    all rows at once; then each row is shuffled.
    """
    drawn = np.empty((len(sizes), count), dtype=np.int64)
    few = sizes < count
    drawn[few] = rng.integers(0, sizes[few, None], (int(few.sum()), count))
    enough = sizes[~few]
    if count > _MANY:
        for row, size in zip(np.flatnonzero(~few).tolist(), enough.tolist(), strict=True):
            drawn[row] = rng.choice(size, count, replace=False)
    else:
        drawn[~few] = _floyd(enough, count, rng)
    return drawn


def _floyd(sizes: Ints, count: int, rng: np.random.Generator) -> Ints:
    drawn = np.full((len(sizes), count), -1)
    for place in range(count):
        upto = sizes - count + place
        number = rng.integers(0, upto + 1)
        taken = (drawn[:, :place] == number[:, None]).any(axis=1)
        drawn[:, place] = np.where(taken, upto, number)
    return rng.permuted(drawn, axis=1)


_MANY = 64
"""Numbers per row above which Floyd's comparisons cost more than drawing each row separately."""


def round_shares(shares: Sequence[float], total: int) -> list[int]:
    """Return integers proportional to `shares` that add up to `total`, by the largest remainder.

    Of equal remainders, the first is rounded up. `shares` are not negative and not all 0.
    """
    parts = [Fraction(share) for share in shares]
    of_all = total / sum(parts)
    exact = [part * of_all for part in parts]
    whole = [int(number) for number in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for i in by_remainder[: total - sum(whole)]:
        whole[i] += 1
    return whole
