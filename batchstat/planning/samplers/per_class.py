"""Base of the samplers that set how many samples of each class there are; the simplest ones."""

from abc import abstractmethod
from dataclasses import dataclass

from batchstat.lengths.arrays import Ints
from batchstat.parameters import described, parameter
from batchstat.planning.classes import Classes
from batchstat.planning.rng import sampler_rng
from batchstat.planning.samplers.base import Sampler
from batchstat.planning.samplers.draws import draw_counts


class PerClassSampler(Sampler):
    """A given number of random samples of each class."""

    @abstractmethod
    def counts(self, classes: Classes, epoch: int) -> list[int]:
        """Return (n_classes,) the number of samples of each class in an epoch. Raises InputError:
        these classes cannot be drawn like this.
        """

    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:
        """Draw `counts` samples of each class: see `draw_counts`."""
        counts = self.counts(classes, epoch)
        rng = sampler_rng(seed, epoch)
        # `even` is a parameter of some samplers only.
        return draw_counts(classes, counts, rng, even=vars(self).get("even", False))


@described(
    """Every sample comes once, including those without a label; with `keep_labels`, only samples
    with these labels.
    """
)
@dataclass(frozen=True, kw_only=True)
class NoSampling(Sampler):
    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:  # noqa: ARG002
        """Return all samples that have a class: those with a label in `keep_labels`."""
        return classes.all_members


@described(
    """Every class gets as many samples as the smallest has, without replacement (Catalyst's
    BalanceClassSampler).
    """
)
@dataclass(frozen=True, kw_only=True)
class Downsampling(PerClassSampler):
    def counts(self, classes: Classes, epoch: int) -> list[int]:  # noqa: ARG002
        """Return the size of the smallest class, for each class."""
        return [int(classes.sizes.min())] * len(classes.names)


@described(
    """Every class gets as many samples as the largest has, with replacement in classes with fewer
    (Catalyst's BalanceClassSampler): some of their samples come often, some never. With `even`,
    each of them comes as often as any other, or once more.
    """
)
@dataclass(frozen=True, kw_only=True)
class Upsampling(PerClassSampler):
    even: bool = parameter(
        "Whether the samples of a class that has too few are all repeated equally often, so that "
        "none is missed.",
        False,
    )

    def counts(self, classes: Classes, epoch: int) -> list[int]:  # noqa: ARG002
        """Return the size of the largest class, for each class."""
        return [int(classes.sizes.max())] * len(classes.names)


@described(
    """Every class gets `count` samples, with replacement in classes with fewer (Catalyst's
    BalanceClassSampler); `even` as in upsampling.
    """
)
@dataclass(frozen=True, kw_only=True)
class Count(PerClassSampler):
    count: int = parameter("Samples of each class.")
    even: bool = False

    def counts(self, classes: Classes, epoch: int) -> list[int]:  # noqa: ARG002
        """Return `count`, for each class."""
        return [self.count] * len(classes.names)
