"""How the learning rate may scale where the number of samples per step changes."""

from dataclasses import dataclass
from math import sqrt

from batchstat.simulation.meters.counts import PlanCounts

LINEAR_SOURCE = "for SGD: Goyal et al. 2017"
SQUARE_ROOT_SOURCE = "Krizhevsky 2014; for Adam: Malladi et al. 2022"


@dataclass(frozen=True)
class LearningRateHint:
    """The mean samples per step in comparison, and two rules for the learning rate.

    They are hints: each step is taken as if it had the mean number of samples.

    Example:
        >>> hint = LearningRateHint(batch_ratio=4.0)
        >>> hint.linear, hint.square_root
        (4.0, 2.0)

    Attributes:
        batch_ratio: mean samples per step / those of the current setup.
    """

    batch_ratio: float

    @classmethod
    def of(cls, current: PlanCounts, new: PlanCounts) -> "LearningRateHint":
        """Return the hint for changing from one strategy to another.

        Args:
            current: counts of the strategy for which the learning rate was tuned.
            new: counts of the strategy to train with.
        """
        # Of whole numbers, so that equal strategies have exactly 1.
        return cls((new.samples * current.steps) / (current.samples * new.steps))

    @property
    def linear(self) -> float:
        """Factor of the learning rate by the linear rule, for SGD (Goyal et al. 2017, "Accurate,
        Large Minibatch SGD", with a warm-up).
        """
        return self.batch_ratio

    @property
    def square_root(self) -> float:
        """Factor of the learning rate by the square-root rule (Krizhevsky 2014, "One weird trick
        for parallelizing convolutional neural networks"; for Adam: Malladi et al. 2022, "On the
        SDEs and Scaling Rules for Adaptive Gradient Algorithms").
        """
        return sqrt(self.batch_ratio)
