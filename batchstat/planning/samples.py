"""`Samples`: the part of a corpus that an epoch is drawn from."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import LengthStats
from batchstat.lengths.trained import TrainedTokens
from batchstat.planning.classes import Classes


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of a corpus, in its order.

    Attributes:
        lengths: (n,) tokens of each, before `max_length`.
        records: (n,) record number of each in its corpus, ascending.
        classes: the class of each; None if there are no labels.
        known: statistics of the lengths, if already known.
        trained: the tokens of each that carry loss; None if they are unknown.
    """

    lengths: Ints
    records: Ints
    classes: Classes | None = None
    known: LengthStats | None = None
    trained: TrainedTokens | None = None

    @cached_property
    def stats(self) -> LengthStats:
        """Statistics of the lengths."""
        return self.known or LengthStats.of(self.lengths)

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether no record is skipped, so that a sample's number is its record's."""
        return len(self.records) == 0 or int(self.records[-1]) == len(self.records) - 1

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.lengths)

    def places(self, records: Ints) -> Ints:
        """Return (n,) the index of each record among the samples."""
        if self.is_contiguous:
            return records
        return np.searchsorted(self.records, records)
