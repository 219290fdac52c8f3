"""What would keep a limit that is exceeded: settings tried on the same lengths."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product

import numpy as np

from batchstat.batching import Strategy
from batchstat.batching.spec import parse_strategy
from batchstat.errors import BatchstatError
from batchstat.gate.limits import Limit
from batchstat.gate.quantities import Number
from batchstat.profiling import LengthStats, Profile
from batchstat.sampling.balancing.spec import sampler_name
from batchstat.settings import Basis, Settings
from batchstat.simulation import read_aheads
from batchstat.specs import with_parameter

_Change = tuple[str, str, Settings]
"""In words, with the strategy and the settings that it leads to."""

_PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p99_9": 999, "max": 1000}


@dataclass(frozen=True)
class Remedy:
    """One change, and what it gives.

    Attributes:
        change: in words, such as `read_ahead 50000`.
        value: the number that the limit is on, with this change.
        keeps: whether the limit is then kept.
    """

    change: str
    value: Number
    keeps: bool


def find_remedy(
    limit: Limit,
    value: Number,
    before: Number | None,
    profile: Profile,
    strategy: str,
    settings: Settings,
    measure: Callable[[str, Settings], Number],
) -> Remedy | None:
    """The first change that keeps a limit, or the one that comes nearest; None where none helps.

    Args:
        limit: one that is exceeded.
        value: its number.
        before: its number in the baseline, if there is one.
        profile: the corpus.
        strategy: as it is written.
        settings: as they are given.
        measure: the number that the limit is on, under another strategy or other settings.
    """
    if limit.path.startswith("lengths.") and limit.bound == "max":
        return _without_longest(limit, profile)
    if limit.path == "class_ratio" and limit.bound == "max":
        return _with_more(limit, profile)
    nearest: Remedy | None = None
    least = limit.over(value, before)
    for change, other, changed in _changes(limit.path, profile, strategy, settings):
        try:
            other_value = measure(other, changed)
        except BatchstatError:
            continue  # such as a corpus of which nothing would be left
        over = limit.over(other_value, before)
        if over <= 0:
            return Remedy(change, other_value, keeps=True)
        if over < least:
            nearest, least = Remedy(change, other_value, keeps=False), over
    return nearest


def _changes(path: str, profile: Profile, spec: str, settings: Settings) -> Iterator[_Change]:
    """Changes that bear on a number of the strategy, each by itself, the smaller ones first."""
    number = path.removeprefix("strategy.")
    if number == path:
        return
    basis = settings.decide(profile.stats.max, profile.stated_max)
    strategy = parse_strategy(spec, asdict(basis))
    if number.startswith(_SEEN):
        yield from _seeing_more(spec, settings)
    if number.startswith((*_SEEN, "truncated", "dropped")):
        yield from _losing_less(profile, spec, strategy, settings, basis)
        yield from _dealt_otherwise(spec, settings)
        return
    if number.startswith(("duplicated", "rank")):
        yield from _dealt_otherwise(spec, settings)
    elif number in ("over_budget_batches", "max_batch_tokens"):
        budget: int = getattr(strategy, "tokens_per_batch", basis.tokens_per_batch)
        longest = budget // strategy.pad_to_multiple_of * strategy.pad_to_multiple_of
        if basis.max_length > longest > 0:
            yield f"max_length {longest}", spec, replace(settings, max_length=longest)
    else:
        yield from _looking_further(profile, spec, strategy, settings)
    if not spec.startswith("token-budget"):
        yield "strategy token-budget", "token-budget", settings


_SEEN = ("coverage", "unique", "accuracy")


def _looking_further(
    profile: Profile, spec: str, strategy: Strategy, settings: Settings
) -> Iterator[_Change]:
    if settings.max_samples is not None and "max_samples=" not in spec:
        yield "no max_samples", spec, replace(settings, max_samples=None)
    if (seen := strategy.looks_ahead) is not None:
        for size in read_aheads(len(profile)):
            if size > seen:
                yield _changed(spec, "read_ahead", size, settings)


def _changed(spec: str, key: str, value: int | str, settings: Settings) -> _Change:
    """A parameter set: in the strategy's own words where these have it, as they come first."""
    changed = with_parameter(spec, key, value)
    return (f"strategy {changed}" if f"{key}=" in spec else f"{key} {value}"), changed, settings


def _dealt_otherwise(spec: str, settings: Settings) -> Iterator[_Change]:
    """Other ways to the ranks: what changes least first, and of that what loses nothing."""
    if settings.world_size == 1:
        return
    deals = list(dict.fromkeys((settings.deal, "batches", "balanced", "samples")))
    tails = list(dict.fromkeys((settings.tail, "repeat", "empty", "drop", "uneven")))

    def how_far(both: tuple[str, str]) -> tuple[int, int]:
        changed = (both[0] != settings.deal) + (both[1] != settings.tail)
        return changed, tails.index(both[1])

    for deal, tail in sorted(product(deals, tails), key=how_far):
        words = [f"deal {deal}"] if deal != settings.deal else []
        words += [f"tail {tail}"] if tail != settings.tail else []
        if words:
            yield " ".join(words), spec, replace(settings, deal=deal, tail=tail)


def _seeing_more(spec: str, settings: Settings) -> Iterator[_Change]:
    """Samplers that leave less of the corpus out."""
    name = sampler_name(settings.balance)
    if name == "upsampling":
        even = with_parameter(settings.balance, "even", "true")
        yield f"balance {even}", spec, replace(settings, balance=even)
    elif name != "none":
        yield "balance upsampling", spec, replace(settings, balance="upsampling")
    if name != "none":
        yield "balance none", spec, replace(settings, balance="none")
    if settings.keep_labels:
        yield "all labels", spec, replace(settings, keep_labels=())


def _losing_less(
    profile: Profile, spec: str, strategy: Strategy, settings: Settings, basis: Basis
) -> Iterator[_Change]:
    if strategy.drop_last:
        yield _changed(spec, "drop_last", "false", settings)
    if basis.overflow == "drop":
        yield "overflow truncate", spec, replace(settings, overflow="truncate")
    longest = profile.stated_max or profile.stats.max
    for cut in profile.truncation:
        if basis.max_length < cut.max_length <= longest:
            longer = replace(settings, max_length=cut.max_length)
            yield f"max_length {cut.max_length}", spec, longer
    if basis.overflow == "truncate":
        yield "overflow split", spec, replace(settings, overflow="split")


def _without_longest(limit: Limit, profile: Profile) -> Remedy | None:
    """The fewest of the longest samples to leave out so that a percentile is within its limit."""
    thousandths = _PERCENTILES.get(limit.path.removeprefix("lengths."))
    if thousandths is None:
        return None
    order = np.argsort(profile.lengths, kind="stable")
    rising = profile.lengths[order]

    def percentile(left_out: int) -> int:
        return LengthStats.of(rising[: len(rising) - left_out]).percentile(thousandths)

    low, high = 0, len(rising) - 1
    if percentile(high) > limit.threshold:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if percentile(middle) <= limit.threshold else (middle, high)
    longest = int(profile.records[order[-1]])
    change = f"leaving out the {high:,} longest samples (the longest is record {longest})"
    if high == 1:
        change = f"leaving out the longest sample, record {longest},"
    return Remedy(change, percentile(high), keeps=True)


def _with_more(limit: Limit, profile: Profile) -> Remedy | None:
    """How many samples more the small classes need."""
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
    return Remedy(
        f"adding {more:,} {'sample' if more == 1 else 'samples'} {where}", value, keeps=True
    )
