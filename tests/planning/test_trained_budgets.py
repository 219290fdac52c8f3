"""Batches filled, and ranks balanced, by trained tokens: against plain loops."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchstat
from batchstat import BatchSampler
from batchstat.planning.distribution import BALANCED_TURNS
from batchstat.planning.strategies.cutting import most_within

RNG = np.random.default_rng(4)
N = 400
LENGTHS = RNG.integers(2, 60, N)
TRAINED = (LENGTHS * RNG.random(N) * RNG.random(N)).astype(int)
MAX_LENGTH = 45


@pytest.fixture(scope="module")
def profile() -> batchstat.Profile:
    """Of samples whose last tokens are trained."""
    frame = pd.DataFrame({"n": LENGTHS, "trained": TRAINED})
    return batchstat.profile(frame, length_column="n", trained_column="trained")


def kept(record: int) -> int:
    return min(int(LENGTHS[record]), MAX_LENGTH)


def trained(record: int) -> int:
    """Trained tokens that `max_length` leaves, but for the first token of the sample."""
    first = max(1, int(LENGTHS[record] - TRAINED[record]))
    return max(0, kept(record) - first)


def cut(records: list[int], total: int, most: int, limit: int, *, padded: bool) -> list[list[int]]:
    """Add samples to a batch while it stays within all three limits."""
    found: list[list[int]] = []
    for record in records:
        batch = [*(found[-1] if found else []), record]
        tokens = len(batch) * max(map(kept, batch)) if padded else sum(map(kept, batch))
        fits = tokens <= total and len(batch) <= most and sum(map(trained, batch)) <= limit
        if found and fits:
            found[-1].append(record)
        else:
            found.append([record])
    return found


@pytest.mark.parametrize("limit", [1, 12, 40, 10_000])
@pytest.mark.parametrize("most", [3, 1000])
def test_a_batch_ends_where_any_limit_is_reached(profile, limit, most):
    settings = {
        "tokens_per_batch": 200,
        "max_length": MAX_LENGTH,
        "trained_per_batch": limit,
        "max_samples": most,
        "order": "file",
    }
    spec = "token-budget:read_ahead=64,shuffle_batches=false"
    expected = []
    for first in range(0, N, 64):
        window = sorted(range(first, min(first + 64, N)), key=lambda record: -kept(record))
        expected += cut(window, 200, most, limit, padded=True)
    assert list(BatchSampler(profile, spec, **settings)) == expected
    expected = cut(list(range(N)), 200, most, limit, padded=False)
    assert list(BatchSampler(profile, "padding-free", **settings)) == expected


@pytest.mark.parametrize("order", ["file", "shuffled", "blocks"])
@pytest.mark.parametrize("overflow", ["truncate", "drop", "split"])
def test_a_comparison_measures_what_the_sampler_yields(profile, order, overflow):
    settings = {
        "tokens_per_batch": 300,
        "max_length": MAX_LENGTH,
        "budget_by": "trained",
        "trained_per_batch": 30,
        "order": order,
        "overflow": overflow,
        "world_size": 2,
    }
    for name in ("token-budget", "padding-free"):
        counts = batchstat.compare(profile, strategies=name, **settings)[name].counts
        ranks = [
            list(BatchSampler(profile, name, rank=rank, **settings).batches()) for rank in range(2)
        ]
        batches = [batch for own in ranks for batch in own]
        assert counts.batches == len(batches)
        assert counts.total_tokens == sum(len(b.rows) * b.width for b in batches)
        assert all(b.trained_tokens <= 30 or len(b.records) == 1 for b in batches)


def test_without_a_number_a_batch_holds_what_the_budget_holds_on_average(profile):
    found = batchstat.compare(profile, strategies="token-budget", budget_by="trained")
    share = sum(max(0, min(t, n - 1)) for t, n in zip(TRAINED, LENGTHS, strict=True)) / sum(LENGTHS)
    assert found.basis.trained_per_batch == round(16_384 * share)
    # A strategy's own parameter wins, and reaches its samples.
    own = batchstat.compare(profile, strategies="token-budget:trained_per_batch=20")
    assert max(Counter(map(len, BatchSampler(profile, trained_per_batch=20)))) == (
        own.best.counts.max_samples_per_batch
    )


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


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_most_within_is_the_longest_run(numbers, limit):
    found = most_within(np.array(numbers, dtype=np.int64), limit)
    for first, size in enumerate(found.tolist()):
        rest = numbers[first:]
        if sum(rest) < limit:
            assert size >= len(rest)
            continue
        fits = [k for k in range(len(rest) + 1) if sum(rest[:k]) <= limit]
        assert size == max(1, fits[-1])
