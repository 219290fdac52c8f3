"""Steps regrouped: the same samples in every step, fewer tokens on the slowest rank."""

from collections import Counter, defaultdict
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat import BatchSampler, OptionError
from batchstat.planning import rank_plans, samples
from batchstat.planning.rank_batches import Batch
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import StrategySpec

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=150)
SETUPS = [
    *("static", "bucketed", "token-budget", "fixed", "hf-trainer", "hf-group-by-length", "trl"),
    "lhotse",
]
SETTINGS = st.fixed_dictionaries(
    {
        "world_size": st.sampled_from([1, 2, 3, 5]),
        "gradient_accumulation_steps": st.integers(1, 4),
        "batch_size": st.integers(1, 5),
        "max_length": st.sampled_from([20, 60]),
        "overflow": st.sampled_from(["truncate", "split", "drop"]),
        "order": st.sampled_from(["file", "shuffled", "blocks", "torch"]),
        "distribute": st.sampled_from(["batches", "samples", "independent", "chunks", "balanced"]),
        "remainder": st.sampled_from(["repeat", "drop", "fill"]),
        "wait": st.sampled_from(["step", "micro-batch"]),
        "drop_last": st.booleans(),
        "pad_to_multiple_of": st.sampled_from([1, 8]),
        "epoch": st.integers(0, 2),
        "seed": st.integers(0, 2),
        "read_ahead": st.integers(5, 60),
    }
)
Steps = dict[int, list[list[Batch]]]
"""For each step, the batches of each rank."""


def steps_of(lengths: list[int], spec: str, **settings: Any) -> Steps:
    steps: Steps = defaultdict(lambda: [[] for _ in range(settings["world_size"])])
    for rank in range(settings["world_size"]):
        for batch in BatchSampler(lengths, spec, rank=rank, **settings).batches():
            steps[batch.step][rank].append(batch)
    return dict(steps)


def samples_of(step: list[list[Batch]]) -> Counter[tuple[int, int, int]]:
    """Record, first token and end of every sample of a step, or part of one."""
    return Counter(
        sample
        for rank in step
        for batch in rank
        for sample in zip(batch.records, batch.starts, batch.stops, strict=True)
    )


def tokens(batch: Batch) -> int:
    return len(batch.rows) * batch.width


def slowest(step: list[list[Batch]], wait: str) -> int:
    """What the slowest rank computes, wherever ranks wait for each other."""
    if wait == "step":
        return max(sum(map(tokens, rank)) for rank in step)
    n_turns = max(map(len, step))
    return sum(max(tokens(rank[t]) for rank in step if t < len(rank)) for t in range(n_turns))


@pytest.mark.parametrize("setup", SETUPS)
@given(lengths=LENGTHS, settings=SETTINGS)
def test_every_step_keeps_its_samples_and_is_no_slower(setup, lengths, settings):
    settings = settings | {"remainder": "repeat"} if setup == "lhotse" else settings
    try:
        now = steps_of(lengths, setup, **settings)
    except batchstat.BatchstatError:  # nothing is left to batch
        return
    new = steps_of(lengths, f"regrouped:of={setup}", **settings)
    assert new.keys() == now.keys()
    basis = Settings(**settings).resolve(max(lengths), None)
    largest = max(tokens(batch) for step in now.values() for rank in step for batch in rank)
    row_length = basis.max_length if setup == "fixed" else 0
    for number, step in new.items():
        today = now[number]
        assert samples_of(step) == samples_of(today)
        # Ranks with unlike numbers of batches, where each plans its own samples, get equally many.
        per_rank = max(map(len, today))
        n_samples = sum(samples_of(today).values())
        if slowest(step, settings["wait"]) != slowest(today, settings["wait"]):
            assert {len(rank) for rank in step} == {min(per_rank, n_samples // len(step))}
        fits_today = all(tokens(b) <= basis.tokens_per_batch for rank in today for b in rank)
        if fits_today:
            assert slowest(step, settings["wait"]) <= slowest(today, settings["wait"])
        for batch in (batch for rank in step for batch in rank):
            longest = max(b - a for a, b in zip(batch.starts, batch.stops, strict=True))
            multiple = settings["pad_to_multiple_of"]
            assert batch.width == -(-max(longest, row_length) // multiple) * multiple
            assert tokens(batch) <= max(basis.tokens_per_batch, largest)
            assert batch.rows == [1] * len(batch.rows)


@pytest.mark.parametrize("setup", ["static", "bucketed:batch_size=3"])
@given(lengths=LENGTHS, settings=SETTINGS, budget=st.integers(1, 150))
def test_a_step_is_changed_only_to_compute_less_or_to_fit(setup, lengths, settings, budget):
    """Whatever the budget: today's batches may be above it, and so may the new ones."""
    settings = settings | {"tokens_per_batch": budget}
    try:
        now = steps_of(lengths, setup, **settings)
    except batchstat.BatchstatError:
        return
    new = steps_of(lengths, f"regrouped:of={setup}", **settings)

    def largest(step: list[list[Batch]]) -> int:
        return max(tokens(batch) for rank in step for batch in rank)

    for number, step in new.items():
        today, wait = now[number], settings["wait"]
        if [[batch.records for batch in rank] for rank in step] == [
            [batch.records for batch in rank] for rank in today
        ]:
            continue
        assert sum(samples_of(today).values()) >= len(step)  # a rank without a batch stays so
        can_be = max(budget, max(batch.width for rank in today for batch in rank))
        comes_to_fit = largest(step) <= can_be < largest(today)
        assert comes_to_fit or slowest(step, wait) < slowest(today, wait)


def test_a_smaller_budget_makes_no_step_compute_more():
    settings = {"gradient_accumulation_steps": 2, "tokens_per_batch": 5, "order": "file"}
    steps = steps_of(
        [1, 20, 1, 1, 10, 10], "regrouped:of=bucketed:batch_size=3", **settings, world_size=1
    )
    assert sorted(tokens(batch) for batch in steps[0][0]) == [3, 60]


@given(lengths=LENGTHS, settings=SETTINGS)
def test_what_is_repeated_and_dropped_stays_so(lengths, settings):
    def counts(spec: str) -> tuple[int, ...]:
        report = batchstat.compare(lengths, strategies=[spec], current=spec, **settings)
        of = report.strategies[0].counts
        return (of.samples, of.real_tokens, of.steps, of.dropped_samples, of.duplicated_samples)

    try:
        now = counts("static")
    except batchstat.BatchstatError:
        return
    assert counts("regrouped:of=static") == now


@given(lengths=st.lists(st.integers(1, 60), min_size=30, max_size=150))
def test_an_epoch_in_pieces_is_the_epoch(lengths):
    """In the order of the file, steps are planned as they are read."""
    settings = {"world_size": 2, "gradient_accumulation_steps": 2, "batch_size": 2, "order": "file"}

    def planned() -> list[list[list[int]]]:
        return [
            list(BatchSampler(lengths, "regrouped", rank=rank, **settings)) for rank in range(2)
        ]

    whole = planned()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_plans, "ROUND_UNITS", 1)
        patch.setattr(rank_plans, "BALANCED_TURNS", 1)
        assert planned() == whole


@given(lengths=LENGTHS, settings=SETTINGS, pairs=st.integers(1, 500))
def test_attention_counts_where_it_takes_time(lengths, settings, pairs):
    """No step is slower by tokens and pairs of tokens, of which it may compute more of one."""
    spec = f"regrouped:pairs={pairs},of=static"
    try:
        now = steps_of(lengths, "static", **settings)
    except batchstat.BatchstatError:
        return
    new = steps_of(lengths, spec, **settings)

    def work(step: list[list[Batch]]) -> int:
        costs = [[tokens(b) * (pairs + b.width) for b in rank] for rank in step]
        if settings["wait"] == "step":
            return max(map(sum, costs))
        turns = range(max(map(len, costs)))
        return sum(max(rank[t] for rank in costs if t < len(rank)) for t in turns)

    assert all(work(new[number]) <= work(step) for number, step in now.items())


@given(lengths=LENGTHS, settings=SETTINGS)
def test_equal_sizes_stay_equal(lengths, settings):
    """In steps of one size, and all others stay as they are."""
    try:
        now = steps_of(lengths, "static", **settings)
    except batchstat.BatchstatError:
        return
    new = steps_of(lengths, "regrouped:equal_sizes=true,of=static", **settings)
    assert new.keys() == now.keys()
    for number, step in new.items():
        today, wait = now[number], settings["wait"]
        sizes_now = [[len(batch.rows) for batch in rank] for rank in today]
        assert [[len(batch.rows) for batch in rank] for rank in step] == sizes_now
        assert samples_of(step) == samples_of(today)
        if [[b.records for b in rank] for rank in step] == [
            [b.records for b in rank] for rank in today
        ]:
            continue
        assert len({size for sizes in sizes_now for size in sizes}) == 1
        assert slowest(step, wait) < slowest(today, wait)
        assert max(tokens(b) for rank in step for b in rank) <= max(
            tokens(b) for rank in today for b in rank
        )


def test_an_epoch_that_does_not_fit_in_memory_is_refused_in_a_line(monkeypatch):
    monkeypatch.setattr(samples, "_memory", lambda: 500 * 192)
    settings = {"strategies": ["regrouped"], "batch_size": 2, "world_size": 2, "order": "file"}
    assert batchstat.compare([9, 5] * 250, **settings)
    with pytest.raises(batchstat.InputError, match="regrouped follows 600 samples per epoch, but"):
        batchstat.compare([9, 5] * 300, **settings)
    # Step by step, where no sample is repeated.
    assert batchstat.compare([9, 5] * 300, remainder="drop", **settings)


def test_widths_are_rounded_as_the_setup_rounds_them():
    """Its collator pads whatever batches it is given."""
    settings = {"world_size": 2, "gradient_accumulation_steps": 2, "batch_size": 3}
    setup = "static:pad_to_multiple_of=64,drop_last=true"
    steps = steps_of(list(range(1, 101)), f"regrouped:of={setup}", **settings)
    assert {b.width for step in steps.values() for rank in step for b in rank} == {64, 128}
    assert sum(len(b.rows) for step in steps.values() for rank in step for b in rank) == 102


def test_steps_are_cut_by_rounded_widths():
    """By their lengths, two of 128 and six of 66 tokens would be the cheapest, rounded to 128."""
    settings = {"world_size": 1, "gradient_accumulation_steps": 2, "batch_size": 4, "order": "file"}
    lengths = [65, 20, 128, 1, 64, 100, 10, 66]
    steps = steps_of(lengths, "regrouped", pad_to_multiple_of=64, **settings)
    assert [(len(b.rows), b.width) for b in steps[0][0]] == [(4, 128), (4, 64)]


def test_batches_of_unlike_size_take_fewer_tokens():
    lengths = [100, 100, 9, 9, 9, 9, 9, 9] * 4
    report = batchstat.compare(
        lengths, strategies=["static", "regrouped"], batch_size=4, gradient_accumulation_steps=2,
        order="file",
    )  # fmt: skip
    now, new = report.strategies
    assert now.counts.total_tokens == 8 * (4 * 100 + 4 * 9) / 2
    # The two long ones of each step share a batch.
    assert new.counts.total_tokens == 4 * (2 * 100 + 6 * 9)
    assert new.counts.max_batch_tokens <= now.counts.max_batch_tokens


@pytest.mark.parametrize(
    ("spec", "settings", "message"),
    [
        ("regrouped:of=packed", {}, "rows are already full; see rank idle"),
        ("regrouped:of=trl:packing=bfd", {}, "rows are already full"),
        ("regrouped:of=regrouped", {}, "its steps are regrouped already"),
        ("regrouped:of=asym", {"batch_size": 4}, "different numbers of batches"),
        ("regrouped:of=boundaries:boundaries=32,pad=edge", {}, "edges of buckets"),
        ("regrouped:of=fairseq", {}, "remainder=dummy"),
        ("regrouped:of=static", {"remainder": "uneven"}, "remainder=uneven"),
        ("regrouped:of=static", {"remainder": "dummy"}, "remainder=dummy"),
        ("regrouped:of=nothing", {}, "nothing"),
        ("regrouped:of=static:size=3", {}, "size"),
        ("regrouped:setup=static", {}, "setup"),
    ],
)
def test_what_cannot_be_regrouped_says_why(spec, settings, message):
    with pytest.raises(OptionError, match=message):
        BatchSampler([5, 9, 12], spec, world_size=2, **settings)


@pytest.mark.parametrize(
    ("text", "of", "budget"),
    [
        ("regrouped", "static", 100),
        ("regrouped:equal_sizes=true,of=static:batch_size=4", "static:batch_size=4", 100),
        (
            "regrouped:of=static:batch_size=3,drop_last=true",
            "static:batch_size=3,drop_last=true",
            100,
        ),
        (
            "regrouped:tokens_per_batch=64,of=token-budget:read_ahead=5",
            "token-budget:read_ahead=5",
            64,
        ),
    ],
)
def test_what_follows_of_is_its_own(text, of, budget):
    basis = Settings(tokens_per_batch=100).resolve(50, None)
    spec = StrategySpec.parse(text)
    made = spec.strategy(vars(basis))
    equal = {"equal_sizes": "equal_sizes=true" in text}
    assert made.parameters == {"of": of, "tokens_per_batch": budget, "pairs": None, **equal}
    assert made.setup == StrategySpec.parse(of).strategy(vars(basis))
    changed = spec.with_parameter("tokens_per_batch", 32)
    assert StrategySpec.parse(changed.text).strategy(vars(basis)).parameters == {
        **made.parameters,
        "tokens_per_batch": 32,
    }


def test_resuming_in_the_middle_of_an_epoch():
    lengths = np.random.default_rng(0).integers(1, 90, 200)
    settings = {"world_size": 2, "gradient_accumulation_steps": 3, "batch_size": 4, "rank": 1}
    whole = list(BatchSampler(lengths, "regrouped:of=hf-trainer", **settings))
    sampler = BatchSampler(lengths, "regrouped:of=hf-trainer", **settings)
    iterator = iter(sampler)
    first = [next(iterator) for _ in range(7)]
    resumed = BatchSampler(lengths, "regrouped:of=hf-trainer", **settings)
    resumed.load_state_dict(sampler.state_dict())
    assert first + list(resumed) == whole
    other = BatchSampler(lengths, "regrouped:of=static", **settings)
    with pytest.raises(OptionError, match="strategy"):
        other.load_state_dict(sampler.state_dict())
