"""An estimate from a part of a corpus, with a confidence interval. Blocks of consecutive samples
are drawn at random without replacement, and divided into groups that are simulated separately; the
variation between groups shows how far their mean may be off. Source: the method of random groups
for cluster samples (K. M. Wolter, Introduction to Variance Estimation, chapter 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import stdev

import numpy as np

from batchstat.documents.spreads import Interval, SampleFacts
from batchstat.errors import InputError, OptionError
from batchstat.lengths.arrays import Ints
from batchstat.planning.rng import estimate_rng
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.shares import BLOCK_SIZE
from batchstat.words import short

GROUPS = 10
CONFIDENCE = 0.95
_DEVIATIONS = 2.262157  # half-width of 95 % of Student's distribution, 9 degrees of freedom
_LEAST_BLOCKS = 2 * GROUPS


def read_share(written: str) -> float:
    """Parse a share such as `1%` or `0.01`. Raises OptionError for anything else."""
    try:
        number = float(written.removesuffix("%"))
    except ValueError:
        raise OptionError(f"subsample={written}", "must be a share, such as 1% or 0.01") from None
    return number / 100 if written.endswith("%") else number


def check_share(share: float, settings: Settings) -> float:
    """Return the share to sample. Raises OptionError if not in (0, 1), or classes are balanced."""
    if not (isinstance(share, float | int) and 0 < share < 1):
        raise OptionError(
            f"subsample={short(share)}", "must be between 0 and 1, such as 0.01 or 1%"
        )
    if settings.sampler != "none" or settings.keep_labels:
        raise OptionError(
            "subsample cannot be combined with sampler or keep_labels", "remove these"
        )
    return float(share)


@dataclass(frozen=True, eq=False)
class Drawn:
    """The part drawn from a corpus."""

    samples: Samples  # all drawn samples
    groups: tuple[Samples, ...]  # the same samples in groups
    facts: SampleFacts  # sizes of the part and the corpus

    def interval(self, ratio: float, of_groups: Sequence[float]) -> Interval:
        """Return where a ratio of the whole corpus lies with 95 % confidence, by that of all drawn
        samples and (n_groups,) that of each group: how much these vary shows how far off it may be.
        """
        # The more was drawn, the less is unknown: the finite population correction.
        not_drawn = 1 - self.facts.samples / self.facts.corpus_samples
        margin = _DEVIATIONS * stdev(of_groups) * sqrt(not_drawn / len(of_groups))
        return Interval(max(ratio - margin, 0.0), min(ratio + margin, 1.0))


def draw(samples: Samples, share: float, basis: ResolvedSettings, widest_window: int) -> Drawn:
    """Draw a `share` of a corpus, in (0, 1), in corpus order and by the seed of `basis`. In `file`
    order a block is as long as the `widest_window`, so that samples that are sorted together stay
    together. Raises InputError: too few blocks for an estimate.
    """
    size = max(BLOCK_SIZE, widest_window if basis.order == "file" else 0)
    n = len(samples)
    n_blocks = -(-n // size)
    n_drawn = round(n_blocks * share)
    if n_drawn < _LEAST_BLOCKS:
        # A larger share helps only where the corpus has enough blocks at all.
        remedy = "raise or remove it" if n_blocks >= _LEAST_BLOCKS else "remove it"
        raise InputError(
            f"subsample={share:g} is {n_drawn:,} of {n_blocks:,} blocks of {size:,} "
            f"samples, but an estimate needs {_LEAST_BLOCKS}",
            remedy,
        )
    rng = estimate_rng(basis.seed)
    blocks = rng.permutation(n_blocks)[:n_drawn]
    # Of blocks in random order, every tenth is a random group.
    groups = tuple(_samples_of(samples, np.sort(blocks[i::GROUPS]), size) for i in range(GROUPS))
    drawn = _samples_of(samples, np.sort(blocks), size)
    return Drawn(drawn, groups, SampleFacts(len(drawn), n, n_drawn, size, GROUPS, CONFIDENCE))


def _samples_of(samples: Samples, blocks: Ints, size: int) -> Samples:
    """Return the samples of some blocks of a corpus."""
    places = np.concatenate([np.arange(b * size, (b + 1) * size) for b in blocks.tolist()])
    places = places[places < len(samples)]
    records = places if samples.is_contiguous else samples.records[places].astype(np.int64)
    trained = None if samples.trained is None else samples.trained.take(places)
    return Samples(samples.lengths[places].astype(np.int64), records, trained=trained)
