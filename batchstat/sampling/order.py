"""The sequence of samples an epoch visits."""

import numpy as np
import numpy.typing as npt

from batchstat.options import one_of

Ints = npt.NDArray[np.integer]

ORDERS = ("file", "shuffled", "blocks")

BLOCK_SIZE = 1_000
"""Samples a block of the `blocks` order holds: the default of Hugging Face's streaming shuffle."""


def make_order(n: int, order: str, *, seed: int, epoch: int) -> Ints:
    """Positions 0 … n − 1, (n,), in the sequence of the epoch: a function of its arguments alone.

    `file` keeps the corpus order, `shuffled` is a random permutation, `blocks` permutes blocks of
    `BLOCK_SIZE` consecutive samples and then the samples inside each, as streaming loaders do.

    Raises:
        OptionError: `order` is none of these.
    """
    if one_of("order", order, ORDERS) == "file":
        return np.arange(n)
    # The spawn key keeps this stream apart from that of window 0: SeedSequence pads its entropy
    # with zeros, so (seed, epoch) and (seed, epoch, 0) alone would be the same stream.
    rng = np.random.default_rng(np.random.SeedSequence((seed, epoch), spawn_key=(0,)))
    if order == "shuffled":
        return rng.permutation(n)
    blocks = [np.arange(first, min(first + BLOCK_SIZE, n)) for first in range(0, n, BLOCK_SIZE)]
    sequence = rng.permutation(len(blocks))
    return np.concatenate([rng.permutation(blocks[i]) for i in sequence] or [np.arange(0)])
