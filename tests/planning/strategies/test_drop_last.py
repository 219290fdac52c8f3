"""What `drop_last` drops: samples of any length, another time others."""

import random
from itertools import pairwise, product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat import BatchSampler
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.strategies.spec import StrategySpec
from conftest import plan_epoch
from tables import pairs_of

SPECS = ("fixed", "static", "bucketed", "token-budget", "packed", "padding-free")
UNSHUFFLED = tuple(f"{name}:shuffle_batches=false" for name in ("bucketed", "token-budget"))
SORTED = ("bucketed", "token-budget", *UNSHUFFLED)
RANKS = [(1, "batches", "repeat"), (2, "batches", "drop"), (3, "balanced", "repeat")]
RANKS += [(2, "samples", "repeat"), (2, "samples", "drop"), (2, "chunks", "uneven")]
LENGTHS = np.random.default_rng(4).lognormal(4, 0.9, 211).clip(1, 500).astype(int)
SETTINGS = {"batch_size": 16, "tokens_per_batch": 3_000, "max_length": 500, "drop_last": True}


def seen(samplers: list[BatchSampler], epoch: int) -> set[int]:
    """The records of all batches of all ranks."""
    found: set[int] = set()
    for sampler in samplers:
        sampler.set_epoch(epoch)
        found |= {record for batch in sampler for record in batch}
    return found


@pytest.mark.parametrize(
    ("spec", "ranks", "distribute", "remainder", "read_ahead"),
    pairs_of(
        [
            (spec, *way, read_ahead)
            for spec, way in product([*SPECS, *UNSHUFFLED], RANKS)
            for read_ahead in ((50, 10_000) if spec in SORTED else (10_000,))
            # Ranks that drop batches drop the last ones, which were then left sorted.
            if spec not in UNSHUFFLED or way[1:] != ("batches", "drop")
        ]
    ),
)
def test_a_sample_is_as_likely_to_be_dropped_whatever_its_length(
    spec, ranks, distribute, remainder, read_ahead
):
    """By the places of what is dropped among all lengths: over many epochs, as many on each side.

    The spread is that between epochs, since samples of one batch have similar lengths.
    """
    settings = SETTINGS | {"distribute": distribute, "remainder": remainder}
    settings |= {"read_ahead": read_ahead, "seed": 11}
    if spec == "packed":
        del settings["read_ahead"]
    place = np.argsort(np.argsort(LENGTHS, kind="stable"), kind="stable") - (len(LENGTHS) - 1) / 2
    samplers = [
        BatchSampler(LENGTHS, spec, rank=rank, world_size=ranks, **settings)
        for rank in range(ranks)
    ]
    sums = []
    for epoch in range(20):
        dropped = sorted(set(range(len(LENGTHS))) - seen(samplers, epoch))
        sums.append(place[dropped].sum())
    assert np.std(sums) > 0
    assert abs(np.mean(sums)) <= 4 * np.std(sums, ddof=1) / len(sums) ** 0.5


@pytest.mark.parametrize("spec", ["static", "bucketed", "token-budget", *UNSHUFFLED])
def test_every_sample_is_trained_in_some_epoch(spec):
    """1,023 samples in batches of 64: a report of what sorting and dropping did to others."""
    rng = random.Random(1)
    lengths = [rng.randint(10, 500) for _ in range(1_023)]
    given_size = {"batch_size": 64} if "budget" not in spec else {"tokens_per_batch": 16_384}
    sampler, found = BatchSampler(lengths, spec, seed=0, drop_last=True, **given_size), set()
    for epoch in range(50):
        sampler.set_epoch(epoch)
        found |= {record for batch in sampler for record in batch}
    assert len(found) == len(lengths)


@given(
    lengths=st.lists(st.integers(0, 64), min_size=1, max_size=90),
    size=st.integers(1, 9),
    read_ahead=st.integers(1, 40),
)
def test_bucketed_drops_what_static_drops_of_its_last_window(lengths, size, read_ahead):
    settings = {"batch_size": size, "read_ahead": read_ahead, "drop_last": True}
    epoch = InMemoryEpoch(np.arange(len(lengths)), np.array(lengths))
    made = plan_epoch(StrategySpec.parse("bucketed").strategy(settings), epoch, seed=1, epoch=0)
    last = (len(lengths) - 1) // read_ahead * read_ahead
    kept = len(lengths) - (len(lengths) - last) % size
    assert sorted(made.samples.tolist()) == list(range(kept))


@pytest.mark.parametrize("spec", ["token-budget", "packed", UNSHUFFLED[1]])
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=90), seed=st.integers(0, 5))
def test_one_batch_is_dropped_and_the_others_stay(spec, lengths, seed):
    settings = {"tokens_per_batch": 64, "max_length": 40, "read_ahead": 100}
    epoch = InMemoryEpoch(np.arange(len(lengths)), np.array(lengths))
    whole, kept = (
        [made.samples[a:b].tolist() for a, b in pairwise(made.row_offsets[made.batch_offsets])]
        for drop_last in (False, True)
        for made in [
            plan_epoch(
                StrategySpec.parse(spec).strategy(settings | {"drop_last": drop_last}),
                epoch,
                seed=seed,
                epoch=0,
            )
        ]
    )
    left = [batch for batch in whole if batch not in kept]
    assert len(left) <= 1
    assert [batch for batch in whole if batch not in left] == kept


@pytest.mark.parametrize("spec", [*SPECS, *UNSHUFFLED])
def test_the_numbers_of_a_comparison_are_those_of_the_batches(spec):
    """From the histogram of lengths too, where all are sorted together."""
    for seed, multiple in ((0, 1), (1, 8)):
        settings = SETTINGS | {"seed": seed, "pad_to_multiple_of": multiple}
        [row] = batchstat.compare(LENGTHS, strategies=[spec], **settings).strategies
        batches = list(BatchSampler(LENGTHS, spec, **settings).batches())
        held = [len(batch.records) for batch in batches]
        assert row.counts.batches == len(batches)
        assert row.counts.samples == sum(held)
        assert row.counts.dropped_samples == len(LENGTHS) - sum(held)
        assert row.counts.total_tokens == sum(len(b.rows) * b.width for b in batches)
