"""What a batch costs in time and in memory, as a function of its shape."""

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, kw_only=True)
class BatchCost:
    """The work of a batch, in whole numbers of one unit: tokens, operations of a model, or
    picoseconds of a device.

    Attributes:
        per_step: work of each optimizer step, on each rank.
        per_batch: work of each batch, whatever is in it.
        per_token: work of each token of its rows, padding included.
        per_pair: work of each pair of tokens that attention computes: width² pairs per row, or
            length² per sample where attention stays within samples.
        per_shape: work of each (rows, width) that an epoch has, once, such as to compile it.
        memory: what a batch takes in memory; None where that is not known.
    """

    per_step: int = 0
    per_batch: int = 0
    per_token: int = 1
    per_pair: int = 0
    per_shape: int = 0
    memory: "BatchMemory | None" = None


TOTAL_TOKENS = BatchCost()
"""The work where neither a model nor a device is known: 1 for each token."""


@dataclass(frozen=True, kw_only=True)
class BatchMemory:
    """The peak memory of training on a batch, in bytes.

    Attributes:
        fixed: weights, gradients, optimizer state and buffers.
        per_token: bytes of each token of its rows, padding included.
        per_pair: bytes of each pair of tokens, for attention that stores its scores.
        least: the peak of a step whatever the batch is, as in the optimizer's update; at least
            `fixed`.
    """

    fixed: int
    per_token: float
    per_pair: float
    least: int

    def peak(self, varying: float) -> int:
        """Return the bytes at the peak, given the bytes of all tokens and pairs together."""
        return max(self.least, self.fixed + ceil(varying))
