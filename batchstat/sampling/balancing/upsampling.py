"""`upsampling`: every class raised to the largest."""

from dataclasses import dataclass

from batchstat.sampling.balancing.counted import Counted
from batchstat.sampling.classes import Classes


@dataclass(frozen=True, kw_only=True)
class Upsampling(Counted):
    """As many of every class as the largest has, with replacement in the classes that have fewer
    (Catalyst's BalanceClassSampler): some of their samples come often, some never. With `even`
    each of them comes as often as any other, or once more.
    """

    even: bool = False

    def counts(self, classes: Classes, epoch: int) -> list[int]:  # noqa: ARG002
        """The largest class's size, for each."""
        return [int(classes.sizes.max())] * len(classes.names)
