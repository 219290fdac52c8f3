"""What the samplers share that decide how many of each class an epoch visits."""

from abc import abstractmethod
from dataclasses import dataclass

from batchstat.lengths.arrays import Ints
from batchstat.planning.classes import Classes
from batchstat.planning.samplers.base import Sampler
from batchstat.planning.samplers.draws import draw_counts
from batchstat.rng import sampler_rng


class Counted(Sampler):
    """So many samples of each class, at random."""

    @abstractmethod
    def counts(self, classes: Classes, epoch: int) -> list[int]:
        """(n_classes,) samples of each that an epoch visits.

        Raises:
            InputError: these classes cannot be drawn so.
        """

    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:
        """So many of each class: see `draw_counts`."""
        even: bool = getattr(self, "even", False)
        counts = self.counts(classes, epoch)
        return draw_counts(classes, counts, sampler_rng(seed, epoch), even=even)


@dataclass(frozen=True, kw_only=True)
class Natural(Sampler):
    """Every sample once, those without a label too; only samples of the labels that are kept, where
    some are named.
    """

    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:  # noqa: ARG002
        """All samples of the classes: what is left where only some labels are kept."""
        return classes.all_members


@dataclass(frozen=True, kw_only=True)
class Downsampling(Counted):
    """As many of every class as the smallest has, without replacement (Catalyst's
    BalanceClassSampler).
    """

    def counts(self, classes: Classes, epoch: int) -> list[int]:  # noqa: ARG002
        """The smallest class's size, for each."""
        return [int(classes.sizes.min())] * len(classes.names)


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
