"""`token-budget`: as many samples per batch as the budget of total tokens holds."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints, round_up
from batchstat.lengths.stats import LengthStats
from batchstat.planning.strategies.cutting import Falling, cut_by_budget
from batchstat.planning.strategies.histogram import BatchSummary, RowRuns
from batchstat.planning.strategies.longest_first import LongestFirst


@dataclass(frozen=True, kw_only=True)
class TokenBudget(LongestFirst):
    """Each window is sorted longest first; a batch takes as many samples as its longest allows.

    That is `tokens_per_batch` // width, at least 1 and at most `max_samples`; the window's batches
    are then shuffled. Source: infinibatch's BucketedReadaheadBatchIterator with a size that
    depends on the first sample.
    """

    in_short: ClassVar[str] = "equal tokens"
    samples_per_second: ClassVar[int] = 10_000_000

    tokens_per_batch: int
    read_ahead: int
    max_samples: int | None = None
    shuffle_batches: bool = True

    def cut(self, falling: Falling, window: int, *, keep_short: bool) -> Ints:
        """Cut by the budget."""
        padded = falling.all()
        if self.pad_to_multiple_of > 1:
            padded = round_up(padded.astype(np.int64), self.pad_to_multiple_of)
        return cut_by_budget(
            padded, self.tokens_per_batch, self.max_samples, window, keep_short=keep_short
        )

    def summary(self, stats: LengthStats, rng: np.random.Generator) -> BatchSummary | None:
        """Return the batches of all lengths sorted together."""
        if stats.count > self.read_ahead:
            return None
        rows = RowRuns.of_samples(stats)
        offsets = rows.within(
            self.tokens_per_batch,
            self.pad_to_multiple_of,
            self.max_samples,
            keep_short=not self.drop_last,
        )
        return rows.cut(offsets, self.pad_to_multiple_of, rng if self.shuffle_batches else None)
