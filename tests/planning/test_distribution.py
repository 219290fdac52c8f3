"""Ranks: what is distributed to them, held against plain loops and torch itself."""

from itertools import islice, pairwise, product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat import BatchSampler, InputError, OptionError
from batchstat.planning.distribution import (
    balance_turns,
    contiguous,
    round_robin,
)
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.rank_plans import spread_remainder
from batchstat.planning.samplers.torch_random import torch_multinomial, torch_permutation
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Settings
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.planning.strategies.spec import StrategySpec
from conftest import needs, packed, plan_epoch
from tables import in_pairs

SEEDS = [0, 1, 7, 2**31, 2**32 - 1, 2**32 + 5, 2**40 + 3]
REMAINDERS = ["repeat", "drop", "uneven", "dummy"]
SIZES = st.integers(1, 60)
SKEWED = np.random.default_rng(0).lognormal(4, 1, 3000).astype(int).clip(1, 512)

FREE = [name for name, kind in STRATEGIES.items() if kind.distribute is None]
"""Strategies that the settings distribute."""


@pytest.mark.torch
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 100, 5000])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_permutation_is_torchs(n, seed):
    torch = needs("torch")
    generator = torch.Generator().manual_seed(seed)
    expected = torch.randperm(n, generator=generator).tolist()
    assert torch_permutation(n, seed).tolist() == expected


def test_permutations_of_torch_that_were_noted():
    """torch 2.13: randperm(10) with seeds 0 and 1."""
    assert torch_permutation(10, 0).tolist() == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]
    assert torch_permutation(10, 1).tolist() == [5, 6, 1, 2, 0, 8, 9, 3, 7, 4]


@pytest.mark.torch
@in_pairs(n=[1, 3, 50, 1000], seed=SEEDS[:4], replacement=[True, False])
def test_weighted_draws_are_torchs(n, seed, replacement):
    torch = needs("torch")
    weights = np.random.default_rng(seed).random(n)
    sampler = torch.utils.data.WeightedRandomSampler(
        weights.tolist(),
        200 if replacement else n,
        replacement,
        generator=torch.Generator().manual_seed(seed),
    )
    count = 200 if replacement else n
    found = torch_multinomial(weights, count, seed, replacement=replacement)
    assert found.tolist() == list(sampler)


@pytest.mark.torch
@in_pairs(
    n=[1, 2, 5, 10, 49, 64],
    world_size=[1, 2, 3, 4, 8],
    epoch=[0, 3],
    drop_last=[False, True],
    shuffle=[False, True],
)
def test_samples_are_distributed_as_by_distributed_sampler(
    n, world_size, epoch, drop_last, shuffle
):
    torch = needs("torch")
    if drop_last and n < world_size:
        return  # torch refuses to say how long that is
    settings = Settings(
        world_size=world_size,
        distribute="samples",
        remainder="drop" if drop_last else "repeat",
        order="shuffled" if shuffle else "file",
        seed=5,
        epoch=epoch,
    )
    basis = settings.resolve(10, None)
    work = make_shares(Samples(np.full(n, 3), np.arange(n)), basis)
    for rank, share in enumerate(work.shares):
        sampler = torch.utils.data.DistributedSampler(
            range(n), world_size, rank, shuffle=shuffle, seed=5, drop_last=drop_last
        )
        sampler.set_epoch(epoch)
        assert share.samples.tolist() == list(sampler)


@given(SIZES, st.integers(1, 9), st.sampled_from(REMAINDERS))
def test_round_robin_is_the_plain_loop(n, world_size, remainder):
    ranks: list[list[int]] = [[] for _ in range(world_size)]
    work = list(range(n))
    if remainder == "drop":
        work = work[: n // world_size * world_size]
    place = 0
    while remainder == "repeat" and len(work) % world_size:
        work.append(place % n)
        place += 1
    for i, unit in enumerate(work):
        ranks[i % world_size].append(unit)
    found = round_robin(n, world_size, remainder)
    assert [[unit for unit in rank if unit >= 0] for rank in found.T.tolist()] == ranks


@given(SIZES, st.integers(1, 9), st.sampled_from(REMAINDERS))
def test_parts_are_consecutive(n, world_size, remainder):
    parts = [part.tolist() for part in contiguous(n, world_size, remainder)]
    assert len(parts) == world_size
    sizes = [len(part) for part in parts]
    if remainder in ("uneven", "dummy"):
        assert [i for part in parts for i in part] == list(range(n))
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) - min(sizes) <= 1
    else:
        assert len(set(sizes)) == 1
        assert sizes[0] == (n // world_size if remainder == "drop" else -(-n // world_size))
    assert set(range(n)) >= {i for part in parts for i in part}
    assert remainder == "drop" or set(range(n)) == {i for part in parts for i in part}


@given(st.lists(st.integers(1, 99), min_size=1, max_size=300), st.integers(1, 5))
def test_balanced_work_is_the_same_work(costs, world_size):
    for remainder in REMAINDERS:
        plain = round_robin(len(costs), world_size, remainder)
        found = balance_turns(plain.copy(), np.array(costs), np.random.default_rng(0))
        assert sorted(found.ravel().tolist()) == sorted(plain.ravel().tolist())

        def waited(turns) -> int:
            held = np.where(turns < 0, 0, np.array(costs)[turns])
            return int((held.max(axis=1) * world_size - held.sum(axis=1)).sum())

        assert waited(found) <= waited(plain)


@in_pairs(name=FREE, distribute=["batches", "samples", "chunks", "balanced"], remainder=REMAINDERS)
def test_nothing_is_lost_or_gained_unseen(name, distribute, remainder):
    lengths = SKEWED[:997]
    settings = {
        "tokens_per_batch": 2048,
        "distribute": distribute,
        "remainder": remainder,
        "gradient_accumulation_steps": 2,
    }
    one = batchstat.compare(lengths, strategies=[name], tokens_per_batch=2048).strategies[0].counts
    if remainder == "drop" and distribute in ("batches", "balanced") and one.batches < 4:
        with pytest.raises(InputError, match="no batches left"):
            batchstat.compare(lengths, strategies=[name], world_size=4, **settings)
        return
    made = batchstat.compare(lengths, strategies=[name], world_size=4, **settings)
    row = made.strategies[0].counts
    assert row.samples - row.duplicated_samples + row.dropped_samples == 997
    assert row.real_tokens - row.duplicated_tokens + row.dropped_tokens == sum(lengths)
    if distribute == "batches":
        batches = one.steps if name == "asym" else one.batches
        rounds = batches // 4 if remainder == "drop" else -(-batches // 4)
        assert row.steps == -(-rounds // 2)
        assert row.ranks.step_gap == 0 or remainder == "uneven"
    if remainder in ("uneven", "dummy"):
        assert row.duplicated_samples == row.dropped_samples == 0
    if remainder == "repeat" and distribute != "chunks":
        assert row.dropped_samples == 0
    assert 0 <= row.rank_idle < 1
    assert 0 <= row.rank_idle_quadratic < 1


def test_rank_idle_is_the_plain_loop():
    made = batchstat.compare(
        SKEWED,
        strategies=["static"],
        world_size=3,
        gradient_accumulation_steps=2,
        tokens_per_batch=2048,
    )
    row, basis = made.strategies[0].counts, made.basis
    work = make_shares(Samples(SKEWED, np.arange(len(SKEWED))), basis)
    sequence = work.epoch.lengths.tolist()
    size = basis.batch_size
    batches = [sequence[i : i + size] for i in range(0, len(sequence), size)]
    batches += batches[: -len(batches) % 3]
    costs = [len(batch) * max(batch) for batch in batches]
    squares = [len(batch) * max(batch) ** 2 for batch in batches]
    for cost, idle in ((costs, row.rank_idle), (squares, row.rank_idle_quadratic)):
        slowest = total = 0
        worst = (-1.0, 0)
        for step in range(0, len(cost), 6):
            ranks = [sum(cost[step + rank : step + 6 : 3]) for rank in range(3)]
            slowest += max(ranks)
            total += sum(ranks)
            worst = max(worst, (max(ranks) - sum(ranks) / 3, -step // 6))
        assert idle == pytest.approx(1 - total / (3 * slowest))
        if cost is costs:
            found, first = row.ranks.worst, -worst[1] * 6
            assert found.step == -worst[1]
            its = [i for i in range(first, first + 6) if (i - first) % 3 == found.rank]
            largest = max((i for i in its if i < len(costs)), key=lambda i: (costs[i], -i))
            assert (found.rows, found.width) == (len(batches[largest]), max(batches[largest]))
            absent = sum(first + rank >= len(costs) for rank in range(3))
            assert found.ranks_without == absent


def test_neighbours_are_what_ranks_have_at_the_same_time():
    """Sorted batches distributed to two ranks: each turn is like the next."""
    lengths = np.repeat(np.arange(1, 101), 4)
    row = batchstat.compare(
        lengths,
        strategies=["static"],
        batch_size=2,
        order="file",
        world_size=2,
    ).strategies[0]
    means = np.arange(1, 101)
    expected = np.corrcoef(means[:-1], means[1:])[0, 1]
    assert row.counts.grouping.neighbour_correlation == pytest.approx(expected)


def test_balanced_waits_less():
    rows = ["static", "bucketed", "token-budget"]
    plain, balanced = (
        batchstat.compare(
            SKEWED, strategies=rows, world_size=4, tokens_per_batch=2048, distribute=distribute
        ).strategies
        for distribute in ("batches", "balanced")
    )
    for one, other in zip(plain, balanced, strict=True):
        assert other.counts.rank_idle < one.counts.rank_idle
        assert other.counts.total_tokens == pytest.approx(one.counts.total_tokens, rel=0.02)


def test_forty_nine_samples_on_two_ranks():
    """The published evaluation: 25 each, one of them twice."""
    made = batchstat.compare([9] * 49, strategies=["static"], world_size=2, distribute="samples")
    row = made.strategies[0].counts
    assert (row.samples, row.duplicated_samples, row.dropped_samples) == (50, 1, 0)
    dropped = batchstat.compare(
        [9] * 49, strategies=["static"], world_size=2, distribute="samples", remainder="drop"
    )
    assert dropped.strategies[0].counts.dropped_samples == 1


def test_unequal_steps_are_warned_of():
    made = batchstat.compare(SKEWED, world_size=4, distribute="samples", tokens_per_batch=2048)
    uneven = [row.label for row in made.strategies if row.counts.ranks.step_gap]
    message = next(w.message for w in made.warnings if w.id == "ranks/unequal-steps")
    assert uneven
    assert all(label in message for label in uneven)
    assert "ranks/unequal-steps" not in {
        w.id for w in batchstat.compare(SKEWED, world_size=4).warnings
    }


@pytest.mark.parametrize("distribute", ["batches", "samples", "chunks", "balanced"])
@pytest.mark.parametrize("remainder", REMAINDERS)
def test_more_ranks_than_samples(distribute, remainder):
    try:
        made = batchstat.compare(
            [5, 6], strategies=["static"], world_size=8, distribute=distribute, remainder=remainder
        )
    except batchstat.InputError as error:
        reason = str(error)
        made = None
    if made is None:
        assert remainder == "drop"
        assert "no batches left" in reason
        return
    row = made.strategies[0].counts
    assert row.samples - row.duplicated_samples + row.dropped_samples == 2
    assert row.ranks.max_steps >= 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"world_size": 0}, "world_size=0"),
        ({"distribute": "batch"}, "unknown distribute 'batch': did you mean 'batches'"),
        ({"remainder": "dropped"}, "unknown remainder 'dropped': did you mean 'drop'"),
    ],
)
def test_settings_that_cannot_be_meant(settings, message):
    with pytest.raises(OptionError, match=message):
        batchstat.compare([1, 2], **settings)


def test_the_command_shows_the_ranks_and_check_holds_them(run, tmp_path):
    (tmp_path / "a.csv").write_text("n\n" + "\n".join(map(str, SKEWED)) + "\n")
    lengths = ["a.csv", "--length-column", "n", "--tokens-per-batch", 2048]
    shown = run("compare", *lengths, "--world-size", 4, "--no-plots").stdout
    assert "4 ranks, distribute batches" in shown
    assert "idle" in shown
    detailed = run("compare", *lengths, "--world-size", 4, "--no-plots", "--details").stdout
    assert any(line.startswith("ranks    rank idle") for line in detailed.splitlines())
    static = [*lengths, "--current", "static", "--world-size", 4]
    failed = run("check", *static, "--max-rank-idle", "1%", "--max-duplicated", "0%")
    assert failed.returncode == 1
    assert "the share of time that ranks wait is" in failed.stdout
    budget = [*lengths, "--current", "token-budget", "--world-size", 4, "--equal-steps"]
    assert run("check", *budget).returncode == 0
    uneven = run("check", *budget, "--distribute", "samples")
    assert uneven.returncode == 1
    assert "the difference between the ranks' numbers of steps" in uneven.stdout


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "asym"])
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=60),
    world_size=st.integers(1, 9),
    multiple=st.sampled_from([1, 8]),
)
def test_the_last_batches_are_spread_over_all_ranks(name, lengths, world_size, multiple):
    """The rows of the last batches in a plain loop, as lhotse splits the cuts of its last ones."""
    settings = Settings(tokens_per_batch=96, pad_to_multiple_of=multiple)
    basis = settings.resolve(max(lengths), None)
    strategy = StrategySpec.parse(packed(name)).strategy(vars(basis))
    visits = InMemoryEpoch(np.arange(len(lengths)), np.array(lengths))
    plan = plan_epoch(strategy, visits, seed=0, epoch=0)
    if len(plan) == 0:
        return
    batches = listed(plan)
    rest = len(batches) % world_size
    expected = batches[: len(batches) - rest]
    if rest:
        rows = [row for batch, _ in batches[len(batches) - rest :] for row in batch]
        while len(rows) < world_size:
            rows += rows[: world_size - len(rows)]
        for rank in range(world_size):
            size = len(rows) // world_size + (rank < len(rows) % world_size)
            first = sum(len(rows) // world_size + (r < len(rows) % world_size) for r in range(rank))
            batch = rows[first : first + size]
            width = max(sum(length for _, length in row) for row in batch)
            expected.append((batch, -(-width // multiple) * multiple))
    assert listed(spread_remainder(plan, world_size, multiple)) == expected


def listed(plan) -> list[tuple[list[list[tuple[int, int]]], int]]:
    """Batches of rows of (sample, length), with their widths."""
    entries = list(zip(plan.samples.tolist(), plan.lengths.tolist(), strict=True))
    rows = [entries[a:b] for a, b in pairwise(plan.row_offsets.tolist())]
    edges = pairwise(plan.batch_offsets.tolist())
    return [(rows[a:b], width) for (a, b), width in zip(edges, plan.widths.tolist(), strict=True)]


@pytest.mark.torch
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_the_trainers_batches_are_accelerates_with_torch(world_size, drop_last):
    """Its seeded order, and what it makes of the samples that do not divide evenly."""
    torch, loading = needs("torch"), needs("accelerate.data_loader")
    for n, size, seed, epoch in product((1, 3, 8, 13, 29, 64, 65), (1, 4, 8), (0, 42), (0, 2)):
        drawn = loading.SeedableRandomSampler(range(n), generator=torch.Generator(), data_seed=seed)
        drawn.set_epoch(epoch)
        whole = torch.utils.data.BatchSampler(drawn, size, drop_last)
        for rank in range(world_size):
            expected = list(whole)
            drawn.set_epoch(epoch)
            if world_size > 1:
                sharded = loading.BatchSamplerShard(whole, world_size, rank)
                expected = list(sharded)
                drawn.set_epoch(epoch)
            settings = {"world_size": world_size, "drop_last": drop_last}
            sampler = BatchSampler(
                np.arange(n) + 1,
                f"hf-trainer:batch_size={size}",
                rank=rank,
                seed=seed,
                epoch=epoch,
                **settings,
            )
            if expected:
                assert list(sampler) == expected
            else:
                with pytest.raises(InputError, match="no batches left"):
                    list(sampler)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 6), st.booleans())
def test_batches_are_filled_up_from_the_start(n, size, world_size, drop_last):
    """Samples follow each other on and on, until every rank has as many full batches."""
    settings = {"world_size": world_size, "remainder": "fill", "order": "file"}
    samplers = [
        BatchSampler(
            np.arange(n) + 1, "static", batch_size=size, rank=rank, drop_last=drop_last, **settings
        )
        for rank in range(world_size)
    ]
    each = n // (size * world_size) if drop_last else -(-n // (size * world_size))
    if world_size == 1 and not drop_last:
        assert list(samplers[0]) == [list(range(n))[i : i + size] for i in range(0, n, size)]
        return
    if each == 0:
        with pytest.raises(InputError, match="no batches left"):
            list(samplers[0])
        return
    records = (i % n for i in range(n * size * world_size))
    ranks = [list(sampler) for sampler in samplers]
    for turn in range(each):
        for batches in ranks:
            assert batches[turn] == list(islice(records, size))
    compared = batchstat.compare(
        np.arange(n) + 1, strategies="static", batch_size=size, drop_last=drop_last, **settings
    )
    counts = compared["static"].counts
    assert counts.batches == each * world_size
    assert counts.samples == each * world_size * size
    assert counts.samples - counts.duplicated_samples + counts.dropped_samples == n


@pytest.mark.parametrize("remainder", ["fill", "spread"])
def test_rows_of_one_width_keep_it(remainder):
    """Also those of the batches that are made for the ranks, by a multiple of 8."""
    settings = {"batch_size": 4, "max_length": 50, "pad_to_multiple_of": 8, "world_size": 4}
    for rank in range(4):
        sampler = BatchSampler(SKEWED[:21], "fixed", rank=rank, remainder=remainder, **settings)
        assert {batch.width for batch in sampler.batches()} == {56}


@pytest.mark.parametrize("name", [*FREE, "lhotse"])
@pytest.mark.parametrize("distribute", ["batches", "balanced"])
def test_spread_batches_lose_nothing(name, distribute):
    row = batchstat.compare(
        SKEWED[:997],
        strategies=[name],
        world_size=4,
        distribute=distribute,
        remainder="spread",
        gradient_accumulation_steps=2,
    )
    counts = row.strategies[0].counts
    assert counts.samples - counts.duplicated_samples + counts.dropped_samples == 997
    assert counts.dropped_samples == 0
    assert counts.ranks.step_gap == 0


def test_each_framework_has_its_own_way_to_the_ranks():
    """101 batches of one sample on 4 ranks."""
    made = batchstat.compare(
        np.full(101, 5),
        strategies=["static", "fairseq", "lhotse", "axolotl:sample_packing=true", "infinibatch"],
        tokens_per_batch=5,
        world_size=4,
        distribute="samples",
    )
    trainer = batchstat.compare(
        np.full(9, 5), strategies=["hf-trainer"], world_size=4, distribute="samples"
    ).strategies[0]
    # Two batches, of eight samples and of one, which is filled up; then two more of eight.
    assert (trainer.distribute, trainer.remainder, trainer.counts.duplicated_samples) == (
        "batches",
        "fill",
        7 + 2 * 8,
    )
    rows = {row.label: row for row in made.strategies}
    found = {
        label: (
            row.distribute,
            row.remainder,
            row.counts.duplicated_samples,
            row.counts.dropped_samples,
        )
        for label, row in rows.items()
    }
    assert found == {
        "static": ("samples", "repeat", 3, 0),
        "fairseq": ("batches", "dummy", 0, 1),  # its last batch, which is no multiple of 8
        "lhotse": ("batches", "spread", 3, 0),
        "axolotl:sample_packing=true": ("batches", "drop", 0, 1),
        "infinibatch": ("chunks", "uneven", 0, 0),
    }
    assert rows["fairseq"].counts.ranks.step_gap == 0
    assert rows["infinibatch"].counts.ranks.step_gap == 1


def test_remedies_for_what_ranks_wait_for(run, tmp_path):
    (tmp_path / "a.csv").write_text("n\n" + "\n".join(map(str, SKEWED)) + "\n")
    check = ["check", "a.csv", "--length-column", "n", "--tokens-per-batch", 2048]
    check += ["--world-size", 4, "--current", "bucketed"]
    waiting = run(*check, "--max-rank-idle", "8%")
    assert waiting.returncode == 1
    shown = " ".join(waiting.stdout.split())
    assert "then pass --current static:distribute=balanced,batch_size=4 result" in shown
    hanging = run(*check, "--distribute", "samples", "--current", "token-budget", "--equal-steps")
    assert hanging.returncode == 1
    shown = " ".join(hanging.stdout.split())
    assert "--batch-size 4 gives 0, with 188 steps instead of 35; then pass --current" in shown
    assert "use --distribute batches" in hanging.stderr


@pytest.mark.parametrize("distribute", ["samples", "independent", "chunks"])
def test_only_distributed_batches_can_be_spread(distribute):
    with pytest.raises(
        OptionError,
        match=f"remainder=spread needs distribute=batches or balanced, not {distribute}",
    ):
        Settings(distribute=distribute, remainder="spread")


@pytest.mark.parametrize("remainder", ["uneven", "dummy"])
def test_balanced_ranks_are_short_only_at_the_end(remainder):
    """A rank has no turn without work before its last one: it would not wait, but go on."""
    for n in range(1, 200, 7):
        turns = balance_turns(round_robin(n, 3, remainder), np.arange(n), np.random.default_rng(n))
        assert (turns[:-1] >= 0).all()


def test_steps_of_unlike_numbers_of_batches_are_warned_of():
    settings = {
        "strategies": ["static"],
        "batch_size": 1,
        "world_size": 2,
        "gradient_accumulation_steps": 2,
    }
    made = batchstat.compare([5] * 11, remainder="uneven", **settings)
    assert made.strategies[0].counts.ranks.step_gap == 0
    assert "static 5 to 6" in next(
        warning.message for warning in made.warnings if warning.id == "ranks/unequal-batches"
    )
    assert "ranks/unequal-batches" not in {
        warning.id
        for warning in batchstat.compare([5] * 12, remainder="uneven", **settings).warnings
    }


def test_a_framework_is_shown_with_its_own_way_to_the_ranks():
    made = batchstat.compare(SKEWED, strategies=["fairseq"], world_size=4, distribute="independent")
    assert "ranks/independent" not in {warning.id for warning in made.warnings}


def test_more_ranks_than_batches_and_a_dropped_remainder():
    with pytest.raises(batchstat.InputError, match="remainder=drop.*lower world_size"):
        batchstat.compare([5] * 9, strategies=["static"], world_size=20, remainder="drop")
