"""`Samples`: what of a corpus an epoch can visit."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import LengthStats
from batchstat.planning.classes import Classes


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of a corpus, in its order.

    Attributes:
        lengths: (n,) tokens of each, whole.
        records: (n,) where each stood in its corpus, rising.
        classes: of each; None where there are no labels.
        known: their lengths' statistics, where they are known already.
    """

    lengths: Ints
    records: Ints
    classes: Classes | None = None
    known: LengthStats | None = None

    @cached_property
    def stats(self) -> LengthStats:
        """Their lengths."""
        return self.known or LengthStats.of(self.lengths)

    @cached_property
    def is_unbroken(self) -> bool:
        """Whether no record is skipped, so that a sample's number is its record's."""
        return len(self.records) == 0 or int(self.records[-1]) == len(self.records) - 1

    def __len__(self) -> int:
        """How many."""
        return len(self.lengths)

    def places(self, records: Ints) -> Ints:
        """(n,) which of the samples each record is."""
        if self.is_unbroken:
            return records
        return np.searchsorted(self.records, records)
