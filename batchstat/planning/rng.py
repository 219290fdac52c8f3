"""Random streams by name: each depends on the seed, the epoch and its purpose, and on nothing else.
Windows draw from `(seed, epoch, window)`. `SeedSequence` pads its entropy with zeros, so that
`(seed, epoch)` alone would be the stream of window 0: all other streams have spawn keys.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_ORDER, _DISTRIBUTION, _SAMPLER, _RANK_SAMPLER, _ESTIMATE = range(5)


def window_rng(seed: int, epoch: int, window: int) -> np.random.Generator:
    """Return the generator with which a strategy shuffles a window's batches or draws buckets."""
    return np.random.default_rng((seed, epoch, window))


def order_rng(seed: int, epoch: int) -> np.random.Generator:
    """Return the generator of the order of an epoch."""
    return np.random.default_rng(_sequence(_ORDER, seed, epoch))


def distribution_rng(seed: int, epoch: int) -> np.random.Generator:
    """Return the generator that distributes batches of similar cost to ranks."""
    return np.random.default_rng(_sequence(_DISTRIBUTION, seed, epoch))


def sampler_rng(seed: int, epoch: int) -> np.random.Generator:
    """Return the generator of a sampler's draw."""
    return np.random.default_rng(_sequence(_SAMPLER, seed, epoch))


def estimate_rng(seed: int) -> np.random.Generator:
    """Return the generator that draws the samples of an estimate."""
    return np.random.default_rng(_sequence(_ESTIMATE, seed))


def rank_sampler_seed(seed: int, epoch: int) -> int:
    """Return a seed below 2^32 for the random modules that a wrapped sampler may use."""
    return int(_sequence(_RANK_SAMPLER, seed, epoch).generate_state(1)[0])


def _sequence(purpose: int, *entropy: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(entropy, spawn_key=(purpose,))


@contextmanager
def unchanged_random_state(loader: Any = None) -> Iterator[None]:
    """Restore the random state of Python, NumPy, torch and a loader's generator at the end. To read
    a loader or a sampler draws random numbers, on which the training after it must not depend.
    """
    torch = sys.modules.get("torch")  # not imported for this
    generator: Any = getattr(loader, "generator", None)  # that the user gave the loader, if any
    python_state, numpy_state = random.getstate(), np.random.get_state()
    torch_state = None if torch is None else torch.get_rng_state()
    loader_state = generator.get_state() if hasattr(generator, "get_state") else None
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        if torch is not None:
            torch.set_rng_state(torch_state)
        if generator is not None and loader_state is not None:
            generator.set_state(loader_state)
