"""What the samplers share that decide how many of each class an epoch visits."""

from abc import abstractmethod

from batchstat.sampling.balancing.drawing import draw_counts
from batchstat.sampling.balancing.sampler import Ints, Sampler, randomness
from batchstat.sampling.classes import Classes


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
        return draw_counts(classes, counts, randomness(seed, epoch), even=even)
