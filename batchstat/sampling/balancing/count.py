"""`count`: as many of every class."""

from dataclasses import dataclass

from batchstat.sampling.balancing.counted import Counted
from batchstat.sampling.classes import Classes


@dataclass(frozen=True, kw_only=True)
class Count(Counted):
    """`count` samples of every class, with replacement in those that have fewer (Catalyst's
    BalanceClassSampler); `even` as in upsampling.
    """

    count: int
    even: bool = False

    def counts(self, classes: Classes, epoch: int) -> list[int]:  # noqa: ARG002
        """`count`, for each."""
        return [self.count] * len(classes.names)
