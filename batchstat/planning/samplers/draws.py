"""Samples drawn class by class."""

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
    """(sum of counts,) so many samples of each class, rising.

    A class that has as many is drawn from without replacement. One that has fewer is drawn from
    with replacement, as Catalyst's BalanceClassSampler does it; or, where `even`, each of its
    samples as often as any other, or once more.
    """
    check_total(sum(counts))
    parts = [
        _drawn(classes.members(code), count, rng, even=even) for code, count in enumerate(counts)
    ]
    drawn = np.concatenate(parts)
    drawn.sort()
    return drawn


def check_total(samples: int) -> None:
    """Raises InputError: more samples than an epoch can visit."""
    if samples > MOST_DRAWN:
        raise InputError(
            f"balance draws {samples:,} samples an epoch: ask for {MOST_DRAWN:,} at most"
        )
    check_room("balance draws", samples, "ask for fewer")


MOST_DRAWN = 10**9


def _drawn(members: Ints, count: int, rng: np.random.Generator, *, even: bool) -> Ints:
    if count > len(members) and not even:
        return members[rng.integers(0, len(members), count)]
    rounds, rest = divmod(count, len(members))
    chosen = rng.choice(members, rest, replace=False, shuffle=False)
    return np.concatenate([np.repeat(members, rounds), chosen])


def draw_distinct(sizes: Ints, count: int, rng: np.random.Generator) -> Ints:
    """(n, count) of each size m, numbers below m, all different where there are as many.

    Source: Robert Floyd's sampling (J. Bentley, R. Floyd, A sample of brilliance, CACM 1987), for
    all rows at once; then each row shuffled.
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
"""Numbers of a row above which Floyd's comparisons cost more than a draw of each row alone."""


def round_shares(shares: Sequence[float], total: int) -> list[int]:
    """Whole numbers in proportion to `shares` whose sum is `total`, by the largest remainder.

    Of equal remainders the first one is rounded up. `shares` are not negative and not all 0.
    """
    parts = [Fraction(share) for share in shares]
    of_all = total / sum(parts)
    exact = [part * of_all for part in parts]
    whole = [int(number) for number in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for i in by_remainder[: total - sum(whole)]:
        whole[i] += 1
    return whole
