"""`downsampling`: every class cut to the smallest."""

from dataclasses import dataclass

from batchstat.sampling.balancing.counted import Counted
from batchstat.sampling.classes import Classes


@dataclass(frozen=True, kw_only=True)
class Downsampling(Counted):
    """As many of every class as the smallest has, without replacement (Catalyst's
    BalanceClassSampler).
    """

    def counts(self, classes: Classes, epoch: int) -> list[int]:  # noqa: ARG002
        """The smallest class's size, for each."""
        return [int(classes.sizes.min())] * len(classes.names)
