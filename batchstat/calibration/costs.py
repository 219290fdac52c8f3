"""What a batch costs in time and in memory, as a function of its shape."""

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, kw_only=True)
class BatchCost:
    """The work of a batch: a whole number in a unit of its own.

    Attributes:
        per_step: of each optimizer step, on each rank.
        per_batch: of each batch, whatever is in it.
        per_token: of each token of its rows, padding included.
        per_pair: of each pair of tokens that attention computes: width² per row, or length² per
            sample where attention stays within samples.
        per_shape: of each (rows, width) that an epoch has, once.
        memory: what it takes in memory; None where that is not known.
    """

    per_step: int = 0
    per_batch: int = 0
    per_token: int = 1
    per_pair: int = 0
    per_shape: int = 0
    memory: "BatchMemory | None" = None


TOTAL_TOKENS = BatchCost()
"""The work where neither a model nor a device is known."""


@dataclass(frozen=True, kw_only=True)
class BatchMemory:
    """The peak memory of training on a batch, in bytes.

    Attributes:
        fixed: weights, gradients, optimizer state and buffers.
        per_token: of each token of its rows, padding included.
        per_pair: of each pair of tokens, for attention that stores its scores.
        least: what a step takes whatever the batch is, as the optimizer's own buffers; at least
            `fixed`.
    """

    fixed: int
    per_token: float
    per_pair: float
    least: int

    def peak(self, varying: float) -> int:
        """Return the bytes at the peak, given what tokens and pairs take together."""
        return max(self.least, self.fixed + ceil(varying))
