"""Frameworks: the golden vectors of the originals, and their names."""

from dataclasses import fields
from itertools import pairwise, product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import batchstat
from batchstat import InputError, OptionError
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.plan import BatchPlan
from batchstat.planning.strategies.registry import FRAMEWORKS
from batchstat.planning.strategies.spec import StrategySpec
from conftest import needs, packed, plan_epoch

MIXED = [5, 3, 9, 1, 7, 2, 8, 4, 6, 10, 11, 12, 15, 14, 13, 16, 2, 2, 2, 3]


def plan(name: str, lengths: list[int], changed: str = "", **settings: int) -> BatchPlan:
    """A framework's plan, unshuffled where it can be."""
    given = {"batch_size": 2, "read_ahead": 9} | settings
    parameters = {field.name: field for field in fields(FRAMEWORKS[name])}
    if FRAMEWORKS[name].usual_batch_size is not None:  # the vectors are of other sizes
        changed += f",batch_size={given['batch_size']}"
    if "shuffle_batches" in parameters:
        changed += ",shuffle_batches=false"
    strategy = StrategySpec.parse(packed(f"{name}:{changed.lstrip(',')}")).strategy(given)
    visits = InMemoryEpoch(np.arange(len(lengths)), np.array(lengths))
    return plan_epoch(strategy, visits, seed=0, epoch=0)


def batches(made: BatchPlan) -> list[list[int]]:
    edges = made.row_offsets[made.batch_offsets]
    return [made.samples[first:last].tolist() for first, last in pairwise(edges)]


def rows(made: BatchPlan) -> list[list[int]]:
    return [made.samples[first:last].tolist() for first, last in pairwise(made.row_offsets)]


def test_hf_group_by_length():
    lengths = [5, 3, 9, 1, 7, 2, 8, 4, 6, 10, 11, 12, 15, 14, 13, 16]
    made = plan("hf-group-by-length", lengths, tokens_per_batch=99, max_length=16)
    assert made.samples.tolist() == [15, 0, 1, 3, 6, 4, 7, 5, 11, 10, 9, 8, 2, 12, 13, 14]


def test_hf_group_by_length_groups_whole_steps():
    """Trainer hands its sampler batch_size x accumulation steps."""
    lengths = np.random.default_rng(0).integers(1, 99, 4000).tolist()
    made = plan(
        "hf-group-by-length",
        lengths,
        tokens_per_batch=99,
        max_length=99,
        gradient_accumulation_steps=4,
    )
    step = 2 * 4
    mega = min(4000 // (step * 4), 50) * step
    expected = [
        sorted(range(first, min(first + mega, 4000)), key=lengths.__getitem__, reverse=True)
        for first in range(0, 4000, mega)
    ]
    assert sorted(made.samples[mega : 2 * mega].tolist()) == sorted(expected[1])


def test_hf_trainer_pads_consecutive_samples():
    made = plan("hf-trainer", MIXED, tokens_per_batch=99, max_length=16, batch_size=8)
    assert batches(made) == [[*range(8)], [*range(8, 16)], [*range(16, 20)]]
    assert made.widths.tolist() == [9, 16, 3]


def test_fairseq_drops_what_makes_no_multiple_of_eight():
    made = plan("fairseq", [1] * 11, tokens_per_batch=12, max_length=16)
    assert batches(made) == [list(range(8))]
    assert batches(plan("fairseq", [1] * 5, tokens_per_batch=12, max_length=16)) == []


def test_lhotse_goes_over_the_budget_by_its_last_sample():
    changed = ",buckets=4,shuffle=false"
    made = plan("lhotse", MIXED, changed, tokens_per_batch=30, max_length=16)
    expected = [[0, 1, 3, 4], [2, 9, 10], [5, 6, 7], [8, 16, 17, 18, 19], [11], [12, 13], [14]]
    assert sorted(batches(made)) == sorted([*expected, [15]])


def test_trl():
    made = plan("trl", [5, 6, 2, 7, 3, 1, 10], batch_size=1, max_length=10)
    assert sorted(rows(made)) == [[0], [1, 2, 5], [3, 4], [6]]
    many = plan("trl", [6, 4] * 1001, batch_size=1, max_length=10)
    assert all(len({sample // 1000 for sample in row}) == 1 for row in rows(many))
    # Rows are packed by the thousand, and batched all together: 1,001 rows, 3 per batch.
    made = plan("trl", [6, 4] * 1001, batch_size=3, max_length=10)
    assert (len(made), len(rows(made))) == (-(-1001 // 3), -(-1001 // 3))
    assert (
        batchstat.compare([5] * 5000, strategies="trl:packing=bfd")["trl:packing=bfd"].shuffling
        == "blocks"
    )
    assert StrategySpec.parse("trl:packing=bfd").strategy({"batch_size": 1, "max_length": 10})


@pytest.mark.torch
@pytest.mark.parametrize("method", ["bfd", "bfd_split", "wrapped"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_trls_batches_have_its_tokens_with_torch(method, drop_last):
    """What its pack_dataset makes of a dataset, seeded and divided by accelerate."""
    torch, trl, datasets = needs("torch"), needs("trl"), needs("datasets")
    loading = needs("accelerate.data_loader")
    for n in (1, 7, 2300):
        lengths = np.random.default_rng(n).integers(1, 50, n)
        first = np.cumsum([0, *lengths])
        ids = [list(range(a, b)) for a, b in pairwise(first.tolist())]
        packed = trl.pack_dataset(datasets.Dataset.from_dict({"input_ids": ids}), 40, method)
        packed = packed["input_ids"][:]
        for ranks, size, (seed, epoch) in product((1, 2, 3), (1, 4), ((0, 0), (42, 1))):
            drawn = loading.SeedableRandomSampler(
                range(len(packed)), generator=torch.Generator(), data_seed=seed
            )
            for rank in range(ranks):
                drawn.set_epoch(epoch)
                whole = torch.utils.data.BatchSampler(drawn, size, drop_last)
                own = whole if ranks == 1 else loading.BatchSamplerShard(whole, ranks, rank)
                expected = [sorted(token for i in batch for token in packed[i]) for batch in own]
                sampler = batchstat.BatchSampler(
                    lengths,
                    f"trl:batch_size={size},packing={method.removesuffix('_split')}",
                    rank=rank,
                    world_size=ranks,
                    drop_last=drop_last,
                    seed=seed,
                    epoch=epoch,
                    max_length=40,
                    overflow="truncate" if method == "bfd" else "split",
                )
                if not expected:
                    with pytest.raises(InputError, match="no batches left"):
                        list(sampler.batches())
                    continue
                found = [
                    sorted(
                        token
                        for parts in zip(b.records, b.starts, b.stops, strict=True)
                        for token in range(first[parts[0]] + parts[1], first[parts[0]] + parts[2])
                    )
                    for b in sampler.batches()
                ]
                assert found == expected


@pytest.mark.parametrize("max_length", [16, 17])
def test_tf_data(max_length):
    """Run with TensorFlow 2.21 and tensor2tensor's edges (8, 9, … below the maximum) and sizes."""
    made = plan("tf-data", MIXED, tokens_per_batch=24, max_length=max_length)
    full = [[0, 1, 3], [4, 5, 7], [11], [12], [13], [14], [15], [8, 16, 17]]
    assert batches(made) == [*full, [18, 19], [6], [2], [9], [10]]


def test_infinibatch():
    made = plan("infinibatch", [50, 30, 20, 20, 30, 20], tokens_per_batch=60, max_length=50)
    assert batches(made) == [[0], [1, 4], [2, 3, 5]]


def test_asym_splits_steps_at_even_costs():
    lengths = np.repeat([1, 4, 16, 64], [768, 192, 48, 16])
    lengths = np.random.default_rng(0).permutation(lengths).tolist()
    made = plan("asym", lengths, tokens_per_batch=99, max_length=64, batch_size=256)
    assert sorted(set(made.widths.tolist())) == [1, 4, 16, 64]
    assert len(made.unit_offsets) - 1 == 4


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_is_a_row(name):
    lengths = np.random.default_rng(0).integers(1, 300, 3000)
    made = batchstat.compare(lengths, strategies=["static", name])
    row = made.strategies[-1]
    assert (row.label, row.name) == (name, name)
    assert row.counts.samples + row.counts.dropped_samples == 3000


EQUAL = {
    "hf-trainer": "static:batch_size=3",
    "tf-data": "boundaries:boundaries=8,9,10,11,12,13,14,15,16,17,18,19,20,exclusive=true,"
    "shuffle_batches=false",
    "infinibatch": "token-budget:read_ahead=10000",
}


@pytest.mark.parametrize("name", EQUAL)
def test_a_framework_is_one_of_batchstats_own_strategies(name):
    """By whatever the settings say, and with the order and the ranks that it has."""
    lengths = np.random.default_rng(0).integers(1, 40, 500)
    settings = {"max_length": 20, "tokens_per_batch": 120, "batch_size": 3, "read_ahead": 50}
    row = batchstat.compare(lengths, strategies=[name], world_size=3, **settings).strategies[0]
    own = row.request.settings
    ways = {"order": own.order, "distribute": own.distribute, "remainder": own.remainder}
    same = batchstat.compare(lengths, strategies=[EQUAL[name]], world_size=3, **settings, **ways)
    assert row.counts == same.strategies[0].counts


@pytest.mark.parametrize("name", ["hf-trainer", "hf-group-by-length"])
def test_the_trainer_has_8_samples_per_batch_unless_a_batch_size_is_given(name):
    def size(**given):
        rows = batchstat.compare([3] * 400, max_length=3, **given).strategies
        return next(row.params["batch_size"] for row in rows if row.name == name)

    assert size(strategies=[name]) == size(strategies=[name], tokens_per_batch=60) == 8
    assert size(strategies=["static", name]) == 8
    assert size(strategies=[name], batch_size=5) == 5
    assert size(strategies=[name], current="static:batch_size=6") == 6
    assert size(strategies=[f"{name}:batch_size=7"], batch_size=5) == 7
    assert len(batchstat.BatchSampler([3] * 400, strategy=name)) == 50
    assert len(batchstat.BatchSampler([3] * 400, strategy=name, batch_size=4)) == 100


def test_parameters_of_a_framework_can_be_set():
    row = batchstat.compare([3] * 40, strategies=["hf-trainer:batch_size=16"]).strategies[0]
    assert row.counts.batches == 3
    assert row.params["batch_size"] == 16


def test_a_framework_that_is_not_known():
    with pytest.raises(OptionError, match="unknown strategy 'farseq': did you mean 'fairseq'"):
        batchstat.compare([3, 4], strategies=["farseq"])


@pytest.mark.parametrize(
    ("name", "multiple", "size"), [("trl", 1, 8), ("axolotl", 64, 1), ("llama-factory", 8, 8)]
)
@settings(max_examples=8)  # each compares twice
@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=60), ranks=st.integers(1, 3))
def test_a_trainer_packs_only_if_it_is_asked_to(name, multiple, size, lengths, ranks):
    """By default it has the Trainer's batches, with the padding of its own collator."""
    found = batchstat.compare(lengths, strategies=name, world_size=ranks).strategies[0]
    by_trainer = f"hf-trainer:batch_size={size},pad_to_multiple_of={multiple}"
    [expected] = batchstat.compare(lengths, strategies=by_trainer, world_size=ranks).strategies
    assert not found.packs_rows
    assert found.counts.total_tokens == expected.counts.total_tokens
    assert found.counts.duplicated_samples == expected.counts.duplicated_samples
    with pytest.raises(OptionError, match="read_ahead is of packing only: add (sample_)?packing="):
        batchstat.compare(lengths, strategies=f"{name}:read_ahead=9", world_size=ranks)
