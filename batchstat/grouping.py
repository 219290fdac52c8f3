"""The price of grouping: how far batches are from random ones."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Grouping:
    """What it costs in randomness that samples of like length meet; None where it has no meaning.

    Training shows it as a loss that goes up and down with the length of the batch.

    Attributes:
        neighbour_correlation: Pearson's correlation of a step's mean length with that of the next,
            in [-1, 1]: near 1 where neighbours are alike.
        length_separation: share of the variance of lengths that lies between batches, beyond what
            it is in batches at random: about 0 there, 1 where every batch holds one length. This
            is Kelley's epsilon squared (1935).
        samples_per_batch_spread: standard deviation / mean of the samples of a batch.
        tokens_per_step_spread: standard deviation / mean of the real tokens of a step.
    """

    neighbour_correlation: float | None
    length_separation: float | None
    samples_per_batch_spread: float
    tokens_per_step_spread: float

    @classmethod
    def of(
        cls, samples: Ints, tokens: Ints, squares: int, means: Floats, step_tokens: Ints
    ) -> "Grouping":
        """The grouping of batches in their sequence.

        Args:
            samples: (n_batches,) entries of each, at least 1.
            tokens: (n_batches,) real tokens of each.
            squares: sum of the squared lengths of all entries.
            means: (n_steps,) mean length of the entries of each step.
            step_tokens: (n_steps,) real tokens of each step, of all ranks.
        """
        return cls(
            neighbour_correlation=_correlation(means),
            length_separation=_separation(samples, tokens, squares),
            samples_per_batch_spread=_spread(samples),
            tokens_per_step_spread=_spread(step_tokens),
        )


_LEAST_STEPS = 4


def _correlation(means: Floats) -> float | None:
    if len(means) < _LEAST_STEPS or np.ptp(means[:-1]) == 0 or np.ptp(means[1:]) == 0:
        return None
    return float(np.corrcoef(means[:-1], means[1:])[0, 1])


def _separation(samples: Ints, tokens: Ints, squares: int) -> float | None:
    n, batches = int(samples.sum()), len(samples)
    all_tokens = int(tokens.sum())
    spread = squares * n - all_tokens**2  # n² times the variance, in whole numbers
    if n == batches or spread == 0:
        return None
    mean = all_tokens / n
    between = float((samples * (tokens / samples - mean) ** 2).sum()) * n / spread
    by_chance = (batches - 1) / (n - 1)
    return (between - by_chance) / (1 - by_chance) if by_chance < 1 else None


def _spread(numbers: Ints) -> float:
    return float(numbers.std() / numbers.mean())
