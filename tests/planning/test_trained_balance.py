"""Ranks balanced by trained tokens: against a plain loop."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import batchstat
from batchstat import BatchSampler
from batchstat.planning.distribution import BALANCED_TURNS

RNG = np.random.default_rng(4)
N = 400
LENGTHS = RNG.integers(2, 60, N)
TRAINED = (LENGTHS * RNG.random(N) * RNG.random(N)).astype(int)


@pytest.fixture(scope="module")
def profile() -> batchstat.Profile:
    """Of samples whose last tokens are trained."""
    frame = pd.DataFrame({"n": LENGTHS, "trained": TRAINED})
    return batchstat.profile(frame, length_column="n", trained_column="trained")


def test_ranks_are_balanced_by_trained_tokens(profile):
    """Each turn has consecutive batches of their sorting by trained tokens, 64 turns at a time."""
    world_size = 4
    settings = {"tokens_per_batch": 100, "world_size": world_size, "remainder": "drop"}
    spec = "static:batch_size=3"

    def turns(**more):
        ranks = [
            list(BatchSampler(profile, spec, rank=rank, **settings, **more).batches())
            for rank in range(world_size)
        ]
        return list(zip(*ranks, strict=True))

    plain = turns()
    own = {tuple(b.records): b.trained_tokens for turn in plain for b in turn}
    expected: Counter = Counter()
    for first in range(0, len(plain), BALANCED_TURNS):
        window = [b for turn in plain[first : first + BALANCED_TURNS] for b in turn]
        ranked = sorted(window, key=lambda b: -b.trained_tokens)
        for k in range(0, len(ranked), world_size):
            expected[frozenset(tuple(b.records) for b in ranked[k : k + world_size])] += 1
    found = turns(distribute="balanced", balance_by="trained")
    assert Counter(frozenset(tuple(b.records) for b in turn) for turn in found) == expected
    assert {tuple(b.records): b.trained_tokens for turn in found for b in turn} == own
    compared = batchstat.compare(
        profile, strategies=spec, distribute="balanced", balance_by="trained", **settings
    )
    per_rank = [b.trained_tokens for turn in found for b in turn]
    assert compared[spec].trained.per_rank.std == pytest.approx(np.std(per_rank))
