"""The lengths of an epoch, for whoever plans it again with other settings."""

from dataclasses import dataclass

from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import LengthStats
from batchstat.planning.rules import SHUFFLED
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import draw_samples, in_sequence

MOST_IN_ORDER = 100_000
"""Samples whose lengths are kept one by one: some 2 bytes each."""

_DISTRIBUTE = ("batches", "balanced")
_REMAINDER = ("repeat", "drop", "uneven", "dummy")


@dataclass(frozen=True, eq=False)
class EpochLengths:
    """The whole lengths of the samples that an epoch draws, before `max_length`.

    Attributes:
        stats: their statistics.
        lengths: (n,) the lengths; None for more than `MOST_IN_ORDER`.
        order: the order that applies to `lengths`; `file` if they are in sequence already.
        refusal: why the epoch cannot be planned from them; empty if it can be.
    """

    stats: LengthStats
    lengths: Ints | None
    order: str
    refusal: str = ""

    @classmethod
    def of(
        cls, samples: Samples, settings: ResolvedSettings, *, is_estimate: bool
    ) -> "EpochLengths":
        """Return the lengths that an epoch of `samples` draws.

        Args:
            samples: the corpus.
            settings: the settings of the epoch.
            is_estimate: whether the samples are a subsample of the corpus.
        """
        refusal = _refusal(settings, is_estimate)
        if settings.draws_all or refusal:
            lengths, order, stats = samples.lengths, settings.order, samples.stats
        else:
            drawn, order = in_sequence(draw_samples(samples, settings), settings)
            lengths = samples.lengths[drawn]
            stats = LengthStats.of(lengths)
        few = len(lengths) <= MOST_IN_ORDER
        if not (few or refusal or order in SHUFFLED):
            refusal = (
                f"it needs the order of the samples, and these are {len(lengths):,}: a report has "
                f"room for {MOST_IN_ORDER:,} lengths in order"
            )
        return cls(stats, lengths.copy() if few and not refusal else None, order, refusal)


def _refusal(settings: ResolvedSettings, is_estimate: bool) -> str:
    if is_estimate:
        return "the report is an estimate from a subsample"
    if settings.distribute not in _DISTRIBUTE:
        return f"with distribute={settings.distribute} each rank has its own plan"
    if settings.trained_per_batch is not None or settings.balance_by == "trained":
        return "batches depend on which tokens are trained"
    if settings.order == "torch":
        return "order=torch needs torch's random numbers"
    if settings.remainder not in _REMAINDER:
        return f"remainder={settings.remainder} changes the last batches of every plan"
    return ""
