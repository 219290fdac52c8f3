"""Candidates for a `max_length`: what each truncates and costs, which is suggested, and `Lost`."""

from dataclasses import astuple, dataclass
from operator import add

import numpy as np

from batchstat.lengths.arrays import round_up
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import described
from batchstat.records import Amount, Count, Record, told

_STEP, _MOST_MULTIPLES = 64, 10
_FINER_ABOVE = 2_048  # above this, powers of two are too far apart: one between two is added
_OUTLIER = 4  # outliers are longer than so many times the 99th percentile
_ONE_OUTLIER_IN = 500  # at most one sample in so many is an outlier: more of them are a tail
USUAL_BATCH_SIZE = 8  # what Hugging Face's Trainer has by default


@described("What one max_length would truncate.")
class Truncation(Record):
    max_length: Count
    samples: Count = told("Samples that it would truncate.")
    tokens: Count = told("Tokens that would be lost.")
    trained_tokens: Count | None = told(
        "Trained tokens that would be lost; null where they are unknown.", default=None
    )
    untrained_samples: Count | None = told(
        "Samples that would have no trained token; null where these are unknown.", default=None
    )
    compute: Amount = told(
        "Expected total tokens of random batches of 8, padded to their longest sample, over those "
        "without a max_length.",
        default=1.0,
    )


@dataclass(frozen=True)
class Outliers:
    """The few samples that are far longer than all others."""

    samples: int  # how many
    tokens: int  # tokens in them
    limit: int  # they are longer than this


def candidate_lengths(stats: LengthStats, stated_max: int | None) -> list[int]:
    """Return the candidates for a `max_length`, ascending. They are multiples of 64 that truncate
    at most half of the samples, up to the first that truncates none: powers of two if these are
    many, with one between each two above 2,048; multiples of 8 for short samples. A tokenizer's
    maximum that truncates any is the last.
    """
    median, longest = max(1, stats.percentile(thousandths=500)), max(1, stats.max)
    step = _STEP if longest > _STEP else _STEP // 8
    # From the first multiple at or above the median to the first one at or above the longest.
    multiples = range(round_up(median, step), round_up(longest, step) + 1, step)
    if len(multiples) <= _MOST_MULTIPLES:
        candidates = set(multiples)
    else:
        # The same with powers of two: (n - 1).bit_length() is the exponent of the first from n on.
        exponents = range((median - 1).bit_length(), (longest - 1).bit_length() + 1)
        powers = [2**exponent for exponent in exponents]
        between = [power * 3 // 4 for power in powers[1:] if power > _FINER_ABOVE]
        candidates = {*powers, *between}
        # Of those that truncate nothing, only the first.
        enough = min(length for length in candidates if length >= longest)
        candidates = {length for length in candidates if length <= enough}
    if stated_max is not None and stated_max < longest:
        candidates = {length for length in candidates if length < stated_max}
        candidates.add(stated_max)
    return sorted(candidates)


def batch_cost(stats: LengthStats, max_length: int) -> float:
    """Return the expected width of a batch of `USUAL_BATCH_SIZE` random, truncated samples."""
    # All of k samples are among the `n` that are no longer than a value: the first with probability
    # n / count, the next with (n - 1) / (count - 1), and so on.
    n = np.cumsum(stats.counts)
    drawn = range(min(USUAL_BATCH_SIZE, stats.count))
    none_longer = np.prod([np.maximum(n - i, 0) / (stats.count - i) for i in drawn], axis=0)
    return float(np.minimum(stats.values, max_length) @ np.diff(none_longer, prepend=0.0))


def usual_padding(stats: LengthStats) -> float:
    """Return the expected padding ratio of the random batches that `batch_cost` is about."""
    width = batch_cost(stats, stats.max)
    return 1 - stats.sum / stats.count / width if width else 0.0


def outliers_of(stats: LengthStats) -> Outliers | None:
    """Return the outliers of a corpus; None if it has none, or too many to be called so."""
    limit = _OUTLIER * stats.percentile(thousandths=990)
    samples, beyond = stats.above(limit)
    if not 0 < samples <= max(1, stats.count // _ONE_OUTLIER_IN):
        return None
    return Outliers(samples, beyond + samples * limit, limit)


def lost_without(stats: LengthStats, max_length: int, outliers: Outliers | None) -> tuple[int, int]:
    """Return the tokens that a `max_length` truncates, and all tokens, both without outliers."""
    lost, whole = stats.above(max_length)[1], stats.sum
    if outliers is None:
        return lost, whole
    # What is cut off of the outliers: nothing of one that is not longer.
    of_outliers = max(outliers.tokens - outliers.samples * max_length, 0)
    return (lost - of_outliers if max_length <= outliers.limit else 0), whole - outliers.tokens


@dataclass(frozen=True)
class Lost:
    """What is lost of samples that are truncated or dropped."""

    truncated_samples: int = 0  # number of truncated samples
    truncated_tokens: int = 0  # tokens lost by truncation
    dropped_samples: int = 0  # number of samples dropped
    dropped_tokens: int = 0  # tokens of the dropped samples

    @classmethod
    def of(cls, longer: int, excess: int, max_length: int, overflow: str) -> "Lost":
        """Return what `overflow` loses of the samples that are longer than `max_length`."""
        if overflow == "truncate":
            return cls(truncated_samples=longer, truncated_tokens=excess)
        if overflow == "drop":
            # A dropped sample loses its first `max_length` tokens too.
            return cls(dropped_samples=longer, dropped_tokens=excess + longer * max_length)
        return cls()

    def __add__(self, other: "Lost") -> "Lost":
        return Lost(*map(add, astuple(self), astuple(other)))


NOTHING = Lost()
