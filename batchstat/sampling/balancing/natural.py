"""`none`: the corpus as it is."""

from dataclasses import dataclass

from batchstat.sampling.balancing.sampler import Ints, Sampler
from batchstat.sampling.classes import Classes


@dataclass(frozen=True, kw_only=True)
class Natural(Sampler):
    """Every sample once, those without a label too; only samples of the labels that are kept, where
    some are named.
    """

    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:  # noqa: ARG002
        """All samples of the classes: what is left where only some labels are kept."""
        return classes.all_members
