"""`comparison.sampler()`: what was compared is what is trained on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchstat
from batchstat import BatchSampler
from batchstat.errors import OptionError
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import StrategySpec
from conftest import SAMPLE_DATA


@settings(max_examples=8)  # each makes a sampler of every row and rank
@given(
    lengths=st.lists(st.integers(1, 60), min_size=12, max_size=40),
    batch_size=st.integers(1, 4),
    world_size=st.integers(1, 3),
    seed=st.integers(0, 9),
)
def test_batches_are_those_of_the_sampler_that_is_made_by_hand(
    lengths, batch_size, world_size, seed
):
    given_ = {"batch_size": batch_size, "world_size": world_size, "seed": seed}
    comparison = batchstat.compare(lengths, **given_)
    for row in comparison:
        for rank in range(world_size):
            made = comparison.sampler(row.label, rank=rank)
            # The current setup's batch size sets the budget of the others.
            by_hand = BatchSampler(
                lengths,
                row.label,
                rank=rank,
                tokens_per_batch=comparison.basis.tokens_per_batch,
                **given_,
            )
            assert list(made) == list(by_hand)
            assert made.state_dict() == by_hand.state_dict()


def test_the_best_row_by_default_and_its_own_settings():
    profile = batchstat.profile(SAMPLE_DATA / "corpus.txt")
    comparison = batchstat.compare(profile, current="hf-trainer", tokens_per_batch="8k")
    sampler = comparison.sampler()
    assert len(sampler) == comparison.best.counts.batches
    sampler.set_epoch(3)
    assert sampler.epoch == 3


def test_rows_that_have_no_sampler():
    lengths = [5, 90, 12, 100] * 50
    mine = batchstat.compare(lengths, strategies=[("mine", [[0, 1], [2, 3]]), "static"])
    with pytest.raises(OptionError, match="mine are batches of your own"):
        mine.sampler("mine")
    with pytest.raises(KeyError, match="packd"):
        mine.sampler("packd")
    with pytest.raises(OptionError, match="rank=1"):
        mine.sampler("static", rank=1)
    part = batchstat.compare(lengths * 500, batch_size=2, read_ahead=100, subsample=0.2)
    with pytest.raises(OptionError, match="compare all of it"):
        part.sampler()


def test_a_dataset_is_as_large_as_its_last_record_whatever_the_sequence():
    """A trainer may have shuffled the samples before they are batched."""
    samples = Samples(np.array([5, 6, 7, 8]), np.array([3, 0, 2, 1]), is_indexed=True)
    request = StrategySpec.of("static", batch_size=2).request(Settings().resolve(8, None))
    sampler = BatchSampler.of_row(samples, request, 0)
    sampler.check(range(4))
    with pytest.raises(batchstat.InputError, match="3 samples, but lengths were computed for 4"):
        sampler.check(range(3))
