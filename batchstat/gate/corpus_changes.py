"""Changes to a corpus that would keep a limit on its own numbers: samples removed or added."""

import math
from bisect import bisect_left

import numpy as np

from batchstat.gate.limits import Limit
from batchstat.gate.quantities import Number
from batchstat.lengths.stats import LengthStats
from batchstat.profiling.profile import Profile

_PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p99_9": 999, "max": 1000}


def leaving_out(limit: Limit, profile: Profile) -> tuple[str, Number] | None:
    """Return how many of the longest samples to remove so that a percentile is within its limit.

    In words, with the percentile of the remaining samples; None if that does not help.
    """
    thousandths = _PERCENTILES.get(limit.path.removeprefix("lengths."))
    if thousandths is None:
        return None
    order = np.argsort(profile.lengths, kind="stable")
    rising = profile.lengths[order]

    def percentile(left_out: int) -> int:
        return LengthStats.of(rising[: len(rising) - left_out]).percentile(thousandths)

    left_out = bisect_left(
        range(len(rising)), True, lo=1, key=lambda count: percentile(count) <= limit.threshold
    )
    if left_out == len(rising):
        return None
    longest = int(profile.records[order[-1]])
    change = f"removing the {left_out:,} longest samples (the longest is record {longest})"
    if left_out == 1:
        change = f"removing the longest sample, record {longest},"
    return change, percentile(left_out)


def adding_samples(limit: Limit, profile: Profile) -> tuple[str, Number] | None:
    """Return how many more samples the small classes need to keep a limit on the class ratio.

    In words, with the ratio that results; None if no number of samples helps.
    """
    counts = {each.label: each.count for each in profile.classes if each.label is not None}
    if limit.threshold < 1:
        return None
    largest = max(counts.values())
    needed = math.floor(largest / limit.threshold)
    while limit.over(largest / max(needed, 1), None) > 0:
        needed += 1
    short = {label: needed - count for label, count in counts.items() if count < needed}
    more = sum(short.values())
    where = f"of {next(iter(short))}" if len(short) == 1 else f"in the {len(short):,} small classes"
    value = largest / min(max(count, needed) for count in counts.values())
    return f"adding {more:,} {'sample' if more == 1 else 'samples'} {where}", value
