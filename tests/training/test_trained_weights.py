"""`Batch.token_weight` where some tokens carry no loss: gradients are those of the whole step."""

import numpy as np
import pandas as pd
import pytest

import batchstat
from batchstat import BatchSampler
from tables import in_pairs

RNG = np.random.default_rng(3)
SIZES = RNG.integers(1, 60, 150)
MASKS = [RNG.random(size) < share for size, share in zip(SIZES, RNG.random(150), strict=True)]
LOSSES = [RNG.random(size) for size in SIZES]
SETTINGS = {"tokens_per_batch": 160, "max_length": 40, "read_ahead": 50}


@pytest.fixture(scope="module")
def profile() -> batchstat.Profile:
    rows = {"ids": [[1] * size for size in SIZES], "mask": [mask.tolist() for mask in MASKS]}
    return batchstat.profile(pd.DataFrame(rows), tokens_column="ids", trained_column="mask")


def losses_of(batch, joined: bool = False) -> np.ndarray:
    """Of its tokens that carry loss: a causal model does not predict the first one of a sample, or
    of a row whose samples are one text to it.
    """
    firsts = {0, *np.cumsum(batch.rows).tolist()} if joined else set(range(len(batch.records)))
    entries = zip(batch.records, batch.starts, batch.stops, strict=True)
    parts = [(i, a + (place in firsts), b) for place, (i, a, b) in enumerate(entries)]
    return np.concatenate([LOSSES[i][a:b][MASKS[i][a:b]] for i, a, b in parts] or [np.zeros(0)])


@in_pairs(
    overflow=["truncate", "split"],
    world_size=[1, 3],
    strategy=[
        *("static", "token-budget", "packed", "packed:method=wrapped", "padding-free"),
        "packed:method=wrapped,within_samples=false",
    ],
)
def test_weighted_means_are_the_mean_of_the_step(profile, strategy, world_size, overflow):
    """In a plain loop over the tokens of every batch."""
    ranks = [
        list(
            BatchSampler(
                profile,
                strategy,
                rank=rank,
                world_size=world_size,
                overflow=overflow,
                gradient_accumulation_steps=2,
                **SETTINGS,
            ).batches()
        )
        for rank in range(world_size)
    ]
    steps = max(batches[-1].step for batches in ranks) + 1
    joined = "within_samples=false" in strategy
    for step in range(steps):
        batches = [each for mine in ranks for each in mine if each.step == step]
        losses = [losses_of(each, joined) for each in batches]
        every = np.concatenate(losses)
        assert [each.trained_tokens for each in batches] == list(map(len, losses))
        means = [
            each.token_weight * own.mean()
            for each, own in zip(batches, losses, strict=True)
            if len(own)
        ]
        assert sum(means) / world_size == pytest.approx(every.mean(), rel=1e-12)


def test_what_is_weighed_is_said(profile):
    assert "token_weight of trained tokens" in repr(BatchSampler(profile, **SETTINGS))
    without = BatchSampler(profile.lengths, **SETTINGS)
    assert "token_weight of all tokens" in repr(without)
    assert next(without.batches()).trained_tokens is None
    assert "trained_tokens=None" in repr(next(without.batches()))
