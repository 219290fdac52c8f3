"""The order of samples in an epoch."""

from collections.abc import Iterator

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.parameters import one_of
from batchstat.planning.rng import order_rng
from batchstat.planning.rules import ORDERS
from batchstat.planning.samplers.torch_random import torch_permutation

BLOCK_SIZE = 1_000  # samples per block: the default of Hugging Face's streaming shuffle
_AT_ONCE = 1 << 18  # positions per piece of a streamed order


def make_order(n: int, order: str, *, seed: int, epoch: int) -> Ints:
    """Return (n,) the positions 0 … n − 1 in the order of the epoch, by the arguments alone.

    `file` keeps the corpus order, `shuffled` permutes all at random, `torch` as torch; `blocks`
    permutes blocks of `BLOCK_SIZE` consecutive samples, then inside each, as streaming loaders do.

    Raises:
        OptionError: an unknown `order`.
    """
    if one_of("order", order, ORDERS) == "file":
        return np.arange(n)
    if order == "shuffled":
        return order_rng(seed, epoch).permutation(n)
    if order == "torch":
        # As accelerate and DistributedSampler seed torch's RandomSampler.
        return torch_permutation(n, seed + epoch)
    # An empty part first: without samples there is no piece, and NumPy cannot concatenate none.
    return np.concatenate([np.arange(0), *stream_order(n, order, seed=seed, epoch=epoch)])


def stream_order(n: int, order: str, *, seed: int, epoch: int) -> Iterator[Ints]:
    """Yield the positions of `make_order` in pieces, for `file` or `blocks`."""
    if order == "file":
        for start in range(0, n, _AT_ONCE):
            yield np.arange(start, min(start + _AT_ONCE, n))
        return
    rng = order_rng(seed, epoch)
    # The first position of each block, in random sequence; the last block may be short.
    block_starts = rng.permutation(-(-n // BLOCK_SIZE)) * BLOCK_SIZE
    for i in range(0, len(block_starts), _AT_ONCE // BLOCK_SIZE):
        blocks = block_starts[i : i + _AT_ONCE // BLOCK_SIZE].tolist()
        yield np.concatenate(
            [rng.permutation(np.arange(start, min(start + BLOCK_SIZE, n))) for start in blocks]
        )
