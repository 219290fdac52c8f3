"""What a batch costs in time and in memory, as a function of its shape."""

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, kw_only=True)
class BatchCost:
    """The work of a batch in one unit: tokens, a model's operations or a device's picoseconds."""

    per_step: int = 0
    per_batch: int = 0
    per_token: int = 1
    per_pair: int = 0
    per_shape: int = 0
    memory: "BatchMemory | None" = None  # what a batch takes in memory


TOTAL_TOKENS = BatchCost()  # the work where neither a model nor a device is known: 1 for each token


@dataclass(frozen=True, kw_only=True)
class BatchMemory:
    """The peak memory of training on a batch, in bytes."""

    fixed: int
    per_token: float  # bytes of each token of its rows, padding included
    per_pair: float  # bytes of each pair of tokens, for attention that stores its scores
    least: int

    def peak(self, varying: float) -> int:
        """Return the bytes at the peak, given the bytes of all tokens and pairs together."""
        return max(self.least, self.fixed + ceil(varying))
