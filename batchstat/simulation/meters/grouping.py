"""How far batches are from random ones: the cost of grouping samples by length."""

from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from batchstat.documents.grouping import Grouping
from batchstat.lengths.arrays import Floats, Ints
from batchstat.lengths.exact import total


@dataclass
class Moments:
    """Total weight, mean and sum of squared deviations of numbers that are added group by group.
    Source: Chan, Golub and LeVeque, Updating formulae … for computing sample variances (1979).
    """

    weight: float = 0
    mean: float = 0.0
    deviations: float = 0.0

    def add(self, numbers: Floats | Ints, weights: Ints | None = None) -> None:
        """Add a group of numbers (n,), each with its weight; by default each weighs 1."""
        if len(numbers) == 0:
            return
        numbers = np.asarray(numbers, dtype=np.float64)
        weight = float(len(numbers) if weights is None else weights.sum())
        # Equal numbers must have no deviation, but rounding may give their average one.
        are_equal = numbers.min() == numbers.max()
        mean = float(numbers[0] if are_equal else np.average(numbers, weights=weights))
        squares = (numbers - mean) ** 2
        deviations = float(squares.sum() if weights is None else (weights * squares).sum())
        # Merge the moments of this group with those of the groups before it.
        total_weight = self.weight + weight
        delta = mean - self.mean
        self.deviations += deviations + delta**2 * self.weight * weight / total_weight
        self.mean += delta * weight / total_weight
        self.weight = total_weight

    @property
    def spread(self) -> float:
        """Population standard deviation / mean."""
        return sqrt(self.deviations / self.weight) / self.mean


@dataclass
class Neighbours:
    """Accumulates the correlation between each number of a sequence and the next one."""

    _last: float | None = None  # the last number added, which the next group follows
    _before: Moments = field(default_factory=Moments)  # moments of the first of each pair
    _after: Moments = field(default_factory=Moments)  # moments of the second ones
    _products: float = 0.0  # sum of the products of both deviations, for the correlation

    def add(self, numbers: Floats) -> None:
        """Add the next numbers (n,) of the sequence."""
        if self._last is not None:
            numbers = np.concatenate([[self._last], numbers])
        if len(numbers) == 0:
            return
        self._last = float(numbers[-1])
        before, after = numbers[:-1], numbers[1:]
        if len(before) == 0:  # the first number of all has no neighbour yet
            return
        products = float(((before - before.mean()) * (after - after.mean())).sum())
        # Merge with the groups before: both sums of products, and what their means' distance adds.
        distance_before = float(before.mean()) - self._before.mean
        distances = distance_before * (float(after.mean()) - self._after.mean)
        pairs, new_pairs = self._before.weight, len(before)
        self._products += products + distances * pairs * new_pairs / (pairs + new_pairs)
        self._before.add(before)
        self._after.add(after)

    @property
    def correlation(self) -> float | None:
        """Pearson's correlation; None for fewer than four numbers, or if they do not differ."""
        # Two pairs always correlate by 1 or −1: that says nothing. Four numbers are three pairs.
        has_enough = self._before.weight >= 3
        spread = sqrt(self._before.deviations) * sqrt(self._after.deviations)
        if not has_enough or spread == 0:
            return None
        # Rounding may exceed 1.
        return float(min(1.0, max(-1.0, self._products / spread)))


@dataclass
class GroupingMeter:
    """Accumulates the `Grouping` of an epoch from batches that are added round by round."""

    _neighbours: Neighbours = field(default_factory=Neighbours)  # mean lengths of steps
    _means: Moments = field(default_factory=Moments)  # of mean lengths, by samples of batches
    _samples: Moments = field(default_factory=Moments)  # moments of the samples per batch
    _step_tokens: Moments = field(default_factory=Moments)  # moments of the real tokens per step
    _squares: int = 0  # sum of the squared lengths of all samples
    _tokens: int = 0  # sum of their lengths

    def add(
        self, samples: Ints, tokens: Ints, squares: int, means: Floats, step_tokens: Ints
    ) -> None:
        """Add the next batches: (n_batches,) entries of each, at least 1, and real tokens; the sum
        of the squared lengths of all entries; and of each step (n_steps,) the mean length of its
        entries, and its real tokens on all ranks.
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
        """How much of the variance of lengths lies between batches, beyond that of random batches
        (epsilon squared): 0 for random batches, 1 where every batch holds one length. None if every
        batch has one sample, or all lengths are equal.
        """
        samples, batches = int(self._means.weight), int(self._samples.weight)
        # samples² × the variance of lengths, as a whole number: exactly 0 if all are equal.
        scaled_variance = self._squares * samples - self._tokens**2
        if samples == batches or scaled_variance == 0:
            return None
        # The share of the variance between the means of batches, and of random batches.
        between = self._means.deviations * samples / scaled_variance
        by_chance = (batches - 1) / (samples - 1)
        # There are fewer batches than samples: only rounding could make the share 1.
        return (between - by_chance) / (1 - by_chance) if by_chance < 1 else None
