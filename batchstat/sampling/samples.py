"""`Samples`: what of a corpus an epoch can visit."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from batchstat.sampling.classes import Classes

Ints = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of a corpus, in its order.

    Attributes:
        lengths: (n,) tokens of each, whole.
        records: (n,) where each stood in its corpus, rising.
        classes: of each; None where there are no labels.
    """

    lengths: Ints
    records: Ints
    classes: Classes | None = None

    def __len__(self) -> int:
        """How many."""
        return len(self.lengths)

    def places(self, records: Ints) -> Ints:
        """(n,) which of the samples each record is."""
        if len(self.records) and self.records[-1] == len(self.records) - 1:
            return records
        return np.searchsorted(self.records, records)
