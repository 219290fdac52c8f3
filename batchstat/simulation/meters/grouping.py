"""How far batches are from random ones: the cost of grouping samples by length."""

from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from batchstat.documents.grouping import Grouping
from batchstat.lengths.arrays import Floats, Ints
from batchstat.lengths.exact import total


@dataclass
class Moments:
    """Weight, mean and squared deviations of numbers that come in groups.

    Source: Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample
    variances (1979).
    """

    weight: float = 0
    mean: float = 0.0
    deviations: float = 0.0

    def add(self, numbers: Floats | Ints, weights: Ints | None = None) -> None:
        """Add numbers (n,), each with a weight, by default 1."""
        if len(numbers) == 0:
            return
        numbers = np.asarray(numbers, dtype=np.float64)
        weight = float(len(numbers) if weights is None else weights.sum())
        alike = numbers.min() == numbers.max()  # their average could differ by rounding
        mean = float(numbers[0] if alike else np.average(numbers, weights=weights))
        apart = (numbers - mean) ** 2
        deviations = float(apart.sum() if weights is None else (weights * apart).sum())
        every = self.weight + weight
        delta = mean - self.mean
        self.deviations += deviations + delta**2 * self.weight * weight / every
        self.mean += delta * weight / every
        self.weight = every

    @property
    def spread(self) -> float:
        """Population standard deviation / mean."""
        return sqrt(self.deviations / self.weight) / self.mean


@dataclass
class Neighbours:
    """Accumulates the correlation of numbers in a sequence with their successors."""

    _last: float | None = None
    _before: Moments = field(default_factory=Moments)
    _after: Moments = field(default_factory=Moments)
    _together: float = 0.0

    def add(self, numbers: Floats) -> None:
        """Add the next numbers (n,) of the sequence."""
        if self._last is not None:
            numbers = np.concatenate([[self._last], numbers])
        if len(numbers) == 0:
            return
        self._last = float(numbers[-1])
        x, y = numbers[:-1], numbers[1:]
        if len(x) == 0:
            return
        both = float(((x - x.mean()) * (y - y.mean())).sum())
        apart = (float(x.mean()) - self._before.mean) * (float(y.mean()) - self._after.mean)
        n, more = self._before.weight, len(x)
        self._together += both + apart * n * more / (n + more)
        self._before.add(x)
        self._after.add(y)

    @property
    def correlation(self) -> float | None:
        """Pearson's correlation; None for fewer than four numbers, or if they do not differ."""
        known = self._before.weight + 1 >= _LEAST_STEPS
        spread = sqrt(self._before.deviations) * sqrt(self._after.deviations)
        if not known or spread == 0:
            return None
        return float(min(1.0, max(-1.0, self._together / spread)))


_LEAST_STEPS = 4


@dataclass
class GroupingMeter:
    """Accumulates the `Grouping` of batches that come in groups, in order."""

    _neighbours: Neighbours = field(default_factory=Neighbours)
    _means: Moments = field(default_factory=Moments)
    _samples: Moments = field(default_factory=Moments)
    _step_tokens: Moments = field(default_factory=Moments)
    _squares: int = 0
    _tokens: int = 0

    def add(
        self, samples: Ints, tokens: Ints, squares: int, means: Floats, step_tokens: Ints
    ) -> None:
        """Add the next batches.

        Args:
            samples: (n_batches,) entries of each, at least 1.
            tokens: (n_batches,) real tokens of each.
            squares: sum of the squared lengths of all entries.
            means: (n_steps,) mean length of the entries of each step.
            step_tokens: (n_steps,) real tokens of each step, of all ranks.
        """
        self._neighbours.add(means)
        self._means.add(tokens / samples, samples)
        self._samples.add(samples)
        self._step_tokens.add(step_tokens)
        self._squares += squares
        self._tokens += total(tokens)

    @property
    def grouping(self) -> Grouping:
        """The grouping of all batches added."""
        return Grouping(
            neighbour_correlation=self._neighbours.correlation,
            length_homogeneity=self._homogeneity,
            samples_per_batch_cv=self._samples.spread,
            tokens_per_step_cv=self._step_tokens.spread,
        )

    @property
    def _homogeneity(self) -> float | None:
        n, batches = int(self._means.weight), int(self._samples.weight)
        spread = self._squares * n - self._tokens**2  # n² times the variance, in whole numbers
        if n == batches or spread == 0:
            return None
        between = self._means.deviations * n / spread
        by_chance = (batches - 1) / (n - 1)
        return (between - by_chance) / (1 - by_chance) if by_chance < 1 else None
