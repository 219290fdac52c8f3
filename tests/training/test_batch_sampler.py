"""What is trained on is what was simulated; what is resumed is what was not interrupted."""

import json
import random
from collections import Counter
from itertools import islice, product

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

import batchstat
from batchstat import (
    BatchSampler,
    ClassBalancedSampler,
    InputError,
    OptionError,
    RankSampler,
    StreamBatcher,
    WeightedClassSampler,
)
from batchstat.planning.strategies.registry import FRAMEWORKS
from conftest import SAMPLE_DATA, SPECS, resealed
from tables import in_pairs, in_turn, pairs_of

LENGTHS = np.random.default_rng(0).lognormal(4, 0.9, 211).astype(int).clip(1, 400)
LABELS = np.random.default_rng(1).choice(["a", "b", "c"], 211, p=[0.8, 0.15, 0.05]).tolist()
SETTINGS = {"tokens_per_batch": 1024, "max_length": 256, "read_ahead": 64}


def samplers(strategy: str, world_size: int, **settings) -> list[BatchSampler]:
    """One a rank."""
    labels = LABELS if settings.get("sampler", "none") != "none" else None
    return [
        BatchSampler(LENGTHS, strategy, labels=labels, rank=rank, world_size=world_size, **settings)
        for rank in range(world_size)
    ]


GRID = [
    (name, distribute, balance, world_size, remainder, gradient_accumulation_steps, overflow)
    for name, distribute, balance, (
        world_size,
        remainder,
    ), gradient_accumulation_steps, overflow in product(
        [
            *SPECS,
            *("packed:method=wrapped", "packed:method=next-fit"),
        ],
        ["batches", "samples", "independent", "chunks", "balanced"],
        ["none", "upsampling"],
        [(1, "repeat"), (3, "repeat"), (3, "spread")],
        [1, 3],
        ["truncate", "split", "drop"],
    )
    if (remainder != "spread" or distribute in ("batches", "balanced"))
    # A framework has its own way to the ranks.
    and (distribute == "batches" or name.partition(":")[0] not in FRAMEWORKS)
    # Which samples an epoch draws is decided before steps are made of its batches.
    and (balance == "none" or gradient_accumulation_steps == 3)
    # What is cut or left out is decided before anything is distributed.
    and (overflow == "truncate" or (distribute == "batches" and gradient_accumulation_steps == 3))
]


@in_turn(
    (
        "name",
        "distribute",
        "balance",
        "world_size",
        "remainder",
        "gradient_accumulation_steps",
        "overflow",
    ),
    pairs_of(GRID),
)
def test_what_is_trained_on_is_what_was_simulated(
    name, distribute, balance, world_size, remainder, gradient_accumulation_steps, overflow
):
    """Batches, padding, repeats and steps counted while iterating equal the report."""
    settings = SETTINGS | {
        "overflow": overflow,
        "distribute": distribute,
        "sampler": balance,
        "remainder": remainder,
    }
    settings |= {"gradient_accumulation_steps": gradient_accumulation_steps, "epoch": 2}
    row = batchstat.compare(
        LENGTHS, labels=LABELS, strategies=[name], world_size=world_size, **settings
    ).strategies[0]
    counts = row.counts
    ranks = [list(each.batches()) for each in samplers(name, world_size, **settings)]
    every = [batch for rank in ranks for batch in rank if batch.rows]
    assert len(every) == counts.batches
    assert sum(len(batch.rows) * batch.width for batch in every) == counts.total_tokens
    real = sum(sum(batch.stops) - sum(batch.starts) for batch in every)
    assert real == counts.real_tokens
    assert max(rank[-1].step for rank in ranks) + 1 == counts.steps
    assert counts.ranks.max_steps == max(sum(b.ends_step for b in rank) for rank in ranks)
    assert counts.ranks.min_steps == min(sum(b.ends_step for b in rank) for rank in ranks)
    times = Counter(
        record
        for batch in every
        for record, start in zip(batch.records, batch.starts, strict=True)
        if start == 0
    )
    assert sum(times.values()) == counts.samples
    assert dict(counts.sample_coverage.times) == Counter(times.values())
    repeated = sum(
        again
        for batch in every
        for start, again in zip(batch.starts, batch.repeated, strict=True)
        if start == 0
    )
    assert repeated == counts.duplicated_samples
    tokens = np.zeros((counts.steps, world_size), dtype=int)
    for rank, batches in enumerate(ranks):
        for batch in batches:
            tokens[batch.step, rank] += len(batch.rows) * batch.width
            assert sum(batch.rows) == len(batch.records)
    if world_size > 1:
        assert np.array_equal(tokens, row.meetings)


@in_pairs(
    remainder=["repeat", "drop", "uneven", "dummy"],
    gradient_accumulation_steps=[1, 2],
    name=["token-budget", "asym", "static"],
)
def test_weights_make_the_mean_of_the_step(name, remainder, gradient_accumulation_steps):
    """Means of batches, weighted, summed on each rank and averaged over ranks, in a plain loop."""
    value = np.random.default_rng(5).random(len(LENGTHS))
    ranks = [
        list(each.batches())
        for each in samplers(
            name,
            3,
            remainder=remainder,
            gradient_accumulation_steps=gradient_accumulation_steps,
            **SETTINGS,
        )
    ]
    for step in range(max(batches[-1].step for batches in ranks) + 1):
        mine = [[b for b in batches if b.step == step] for batches in ranks]
        every = [record for batches in mine for batch in batches for record in batch.records]
        found = sum(
            batch.weight * value[batch.records].mean()
            for batches in mine
            for batch in batches
            if batch.records
        )
        assert found / 3 == pytest.approx(value[every].mean())
        tokens = np.minimum(LENGTHS, 256) - 1  # nothing predicts the first
        by_tokens = sum(
            batch.token_weight * np.average(value[batch.records], weights=tokens[batch.records])
            for batches in mine
            for batch in batches
            if batch.records
        )
        assert by_tokens / 3 == pytest.approx(np.average(value[every], weights=tokens[every]))
        assert all(sum(b.ends_step for b in batches) == 1 for batches in mine if batches)
        assert all(batches[-1].ends_step for batches in mine if batches)


@given(
    name=st.sampled_from(["token-budget", "static", "bucketed", "packed", "asym"]),
    rank=st.integers(0, 2),
    epoch=st.integers(0, 3),
    data=st.data(),
)
def test_resumed_is_uninterrupted(name, rank, epoch, data):
    """Stopped after any batch, in any epoch, on any rank; the state in a file meanwhile."""
    remainder = data.draw(st.sampled_from(["repeat", "uneven", "dummy"]))
    made, other = (
        BatchSampler(LENGTHS, name, rank=rank, world_size=3, remainder=remainder, **SETTINGS)
        for _ in range(2)
    )
    made.set_epoch(epoch)
    whole = list(made)
    assert len(whole) == len(made)
    stop = data.draw(st.integers(0, len(whole)))
    assert list(islice(iter(made), stop)) == whole[:stop]
    state = json.loads(json.dumps(made.state_dict(consumed=stop)))
    if stop:
        assert made.state_dict()["batches"] == stop
    other.load_state_dict(state)
    assert other.epoch == epoch
    other.set_epoch(epoch)
    assert list(other) == whole[stop:]
    assert list(other) == whole
    other.load_state_dict(state)
    assert [batch.records for batch in other.batches()] == whole[stop:]
    other.load_state_dict(state)
    other.set_epoch(epoch + 1)
    made.set_epoch(epoch + 1)
    assert list(other) == list(made)
    assert len(other) == len(made)


def test_the_state_is_that_of_the_iterator_started_last():
    """Another epoch may be chosen, or another iterator begun, while one is running."""
    sampler = BatchSampler(LENGTHS, **SETTINGS)
    whole = list(sampler)
    place = lambda: tuple(sampler.state_dict()[key] for key in ("epoch", "batches"))  # noqa: E731
    running = iter(sampler)
    assert list(islice(running, 3)) == whole[:3]
    sampler.set_epoch(1)
    assert place() == (1, 0)
    assert next(running) == whole[3]
    assert place() == (0, 4)
    assert sampler.state_dict(consumed=2)["epoch"] == 0
    assert list(running) == whole[4:]
    assert place() == (0, len(whole))
    later = iter(sampler)
    first = next(later)
    assert place() == (1, 1)
    assert first not in (whole[0], whole[3])
    older = sampler.batches()
    next(older)
    newest = sampler.batches()
    next(newest)
    assert len(list(older)) == len(sampler) - 1
    assert place() == (1, 1)
    sampler.load_state_dict(sampler.state_dict(consumed=5))
    next(newest)
    assert place() == (1, 5)
    assert len(list(newest)) == len(sampler) - 2
    assert len(list(sampler)) == len(sampler) - 5


def test_the_end_of_an_epoch_leaves_a_later_one_as_it_is():
    sampler = BatchSampler(LENGTHS, epoch=1, **SETTINGS)
    end = sampler.state_dict(consumed=len(sampler))
    sampler.set_epoch(2)
    whole = list(sampler)
    sampler.load_state_dict(end)
    assert list(sampler) == whole
    sampler.set_epoch(0)
    sampler.load_state_dict(end)
    assert list(sampler) == []
    assert sampler.epoch == 1


def test_a_state_that_is_refused_changes_nothing():
    sampler = BatchSampler(LENGTHS, **SETTINGS)
    state = sampler.state_dict(consumed=4)
    sampler.load_state_dict(state)
    for broken in (
        *({"batches": value} for value in (-1, 10**6, 2**63 - 1, 2**70, 1.0, "3", None, True)),
        *({"epoch": value} for value in (-1, 2**31, 2**70, 1.5, "0", None, False)),
        *({"epoch": 2, "batches": 10**6}, {"fingerprint": {}}, {"fingerprint": []}),
    ):
        with pytest.raises(OptionError):
            sampler.load_state_dict(state | broken)
        assert sampler.epoch == 0
        assert sampler.state_dict() == state
    assert len(list(sampler)) == len(sampler) - 4


def read_ahead(sampler, batches: int):
    """What a loader's workers do: so many batches are taken before the first is handed out."""
    source = iter(sampler)
    taken = list(islice(source, batches))
    while taken:
        yield taken.pop(0)
        taken += list(islice(source, 1))


@pytest.mark.parametrize("left", [1, 3, 9])
def test_batches_run_beside_a_loader_that_reads_ahead(left):
    """After a resume too, and a state that is counted by `number` resumes again."""
    sampler = BatchSampler(LENGTHS, **SETTINGS)
    whole = list(sampler)
    n = len(whole)
    sampler.load_state_dict(sampler.state_dict(consumed=n - left))
    pairs = list(zip(read_ahead(sampler, 4), sampler.batches(), strict=True))
    assert [records for records, _ in pairs] == whole[n - left :]
    assert [batch.records for _, batch in pairs] == whole[n - left :]
    assert [batch.number for _, batch in pairs] == list(range(n - left, n))
    assert [batch.records for batch in sampler.batches()] == whole
    again = BatchSampler(LENGTHS, **SETTINGS)
    again.load_state_dict(sampler.state_dict(consumed=pairs[0][1].number + 1))
    assert list(again) == whole[n - left + 1 :]
    assert list(again) == whole
    again.load_state_dict(again.state_dict(consumed=n))
    assert list(again) == []


def test_states_are_json_whatever_numbers_are_given():
    sampler = BatchSampler(LENGTHS, **SETTINGS)
    sampler.set_epoch(np.int64(2))
    assert json.loads(json.dumps(sampler.state_dict(consumed=np.int64(3))))["epoch"] == 2


def test_other_labels_of_the_same_codes_are_another_state():
    names = {"a": "b", "b": "a", "c": "c"}
    settings = SETTINGS | {"sampler": "weights=a:9,b:1,c:1"}
    one = BatchSampler(LENGTHS, labels=LABELS, **settings)
    other = BatchSampler(LENGTHS, labels=[names[label] for label in LABELS], **settings)
    with pytest.raises(OptionError, match="labels differ"):
        other.load_state_dict(one.state_dict())


@pytest.mark.parametrize("library", ["pandas", "arrow", "numpy"])
def test_labels_of_any_library(library):
    values = ["a", None, "b", "b", "a", "b"]
    labels = {
        "pandas": lambda: pd.array(values, dtype="string"),
        "arrow": lambda: pa.array(values),
        "numpy": lambda: np.array(values, dtype=object),
    }[library]()
    assert sorted(ClassBalancedSampler(labels, "downsampling", seed=1))[:1] == [0]
    assert 1 not in set(ClassBalancedSampler(labels, "upsampling"))
    assert len(WeightedClassSampler(pa.array([0, 1, 1]), {0: 1, 1: 1}, 4)) == 4


@in_turn(
    ("changed", "message"),
    [
        ({"tokens_per_batch": 999}, "tokens_per_batch 1024 then, 999 now"),
        ({"seed": 7}, "seed 0 then, 7 now"),
        ({"world_size": 2}, "world_size 1 then, 2 now"),
        ({"strategy": "static"}, "'name': 'token-budget'"),
        ({"strategy": "token-budget:read_ahead=5"}, "'read_ahead': 64"),
        ({"lengths": LENGTHS + 1}, "lengths differ"),
        ({"lengths": LENGTHS[:-1]}, "lengths differ"),
        ({"labels": LABELS}, "labels differ"),
    ],
)
def test_a_state_of_something_else_says_what(changed, message):
    state = BatchSampler(LENGTHS, **SETTINGS).state_dict()
    given_ = {"lengths": LENGTHS, **SETTINGS} | changed
    other = BatchSampler(given_.pop("lengths"), **given_)
    with pytest.raises(OptionError, match="the state is from a different sampler") as raised:
        other.load_state_dict(state)
    assert message in str(raised.value)


def test_no_state():
    sampler = BatchSampler(LENGTHS, **SETTINGS)
    with pytest.raises(OptionError, match="int is not a sampler state"):
        sampler.load_state_dict(3)
    with pytest.raises(OptionError, match=r"batchstat\.sampler/9.*expected batchstat\.samp"):
        sampler.load_state_dict(sampler.state_dict() | {"schema": "batchstat.sampler/9"})
    with pytest.raises(OptionError, match="unsupported state version"):
        sampler.load_state_dict(sampler.state_dict() | {"schema": np.array(["a", "b"])})
    state = sampler.state_dict()
    del state["epoch"]
    with pytest.raises(OptionError, match="has no epoch"):
        sampler.load_state_dict(state)
    with pytest.raises(OptionError, match="consumed=99999"):
        sampler.state_dict(consumed=99999)


@in_turn(
    ("changed", "message"),
    [
        ({"lengths": [3, 0, 4]}, "record 1 has length 0"),
        ({"lengths": [3, -1]}, r"lengths\[1\] is -1"),
        ({"lengths": [3.5]}, "lengths must be whole numbers"),
        ({"labels": ["a"]}, "1 labels for 211 lengths"),
        ({"rank": 2, "world_size": 2}, "rank=2: must be below world_size=2"),
        ({"rank": -1}, "rank=-1"),
        ({"world_size": 0}, "world_size=0"),
        ({"strategy": "statc"}, "did you mean 'static'"),
        ({"strategy": None}, "strategy=None: must be text"),
        ({"seeds": 3}, "unknown argument 'seeds': did you mean 'seed'"),
    ],
)
def test_bad_use(changed, message):
    given_ = {"lengths": LENGTHS} | changed
    with pytest.raises(OptionError, match=message):
        BatchSampler(given_.pop("lengths"), **given_)


def test_nothing_for_any_rank():
    with pytest.raises(InputError, match="no batches left.*remainder=drop"):
        len(BatchSampler([5, 6], "static", world_size=9, remainder="drop"))


def test_samples_in_parts_need_their_starts():
    sampler = BatchSampler([300, 20], "static", max_length=128, overflow="split")
    with pytest.raises(InputError, match=r"iterate batches\(\)"):
        list(sampler)
    parts = [
        part
        for batch in sampler.batches()
        for part in zip(batch.records, batch.starts, batch.stops, strict=True)
    ]
    assert sorted(parts) == [(0, 0, 128), (0, 128, 256), (0, 256, 300), (1, 0, 20)]


def test_a_dataset_that_has_changed():
    sampler = BatchSampler(LENGTHS, **SETTINGS)
    sampler.check(range(211))
    with pytest.raises(InputError, match="has 210 samples, but lengths were computed for 211"):
        sampler.check(range(210))


@in_pairs(
    remainder=["repeat", "drop", "uneven", "dummy", "spread"],
    distribute=["batches", "samples"],
    name=["token-budget", "static:batch_size=5", "asym"],
    accumulate=[1, 3],
)
def test_steps_are_checked_for_loops_of_others(name, distribute, remainder, accumulate):
    """Refused on every rank, where a step has another number of batches or ranks differ."""
    if remainder == "spread" and distribute == "samples":
        pytest.skip("not allowed together")
    ranks = samplers(
        name,
        3,
        distribute=distribute,
        remainder=remainder,
        gradient_accumulation_steps=accumulate,
        **SETTINGS,
    )
    steps = [Counter(b.step for b in rank.batches() if b.records) for rank in ranks]
    last = max(map(max, steps))
    full = all(rank[step] == accumulate for rank in steps for step in range(last))
    fits = full and len({rank[last] for rank in steps}) == 1
    for rank in ranks:
        assert rank.gradient_accumulation_steps == accumulate
        assert (rank.rank, rank.world_size) == (ranks.index(rank), 3)
        if fits:
            rank.check_steps()
        else:
            with pytest.raises(InputError, match="different numbers of batches"):
                rank.check_steps()


def test_a_profile_plans_what_compare_measured(run, tmp_path):
    """lengths.parquet brings the maximum, the labels, and the records of what was not skipped."""
    corpus = tmp_path / "a.csv"
    rows = [f"{'word ' * (n % 700)},{'ab'[n % 3 == 0]}" for n in range(300)]
    corpus.write_text("text,label\n" + "\n".join(rows) + "\n")
    assert run("compare", "a.csv", "--label-column", "label", "--no-plots").returncode == 0
    results = tmp_path / "batchstat-results"
    record = json.loads((results / "compare.json").read_text())
    row = next(each for each in record["strategies"] if each["name"] == "token-budget")
    sampler = BatchSampler(results / "lengths.parquet")
    batches = list(sampler.batches())
    assert len(batches) == row["batches"]
    assert sum(len(batch.rows) * batch.width for batch in batches) == row["total_tokens"]
    records = sorted(record for batch in batches for record in batch.records)
    assert records == [n for n in range(300) if n % 700]
    with pytest.raises(InputError, match="is not a profile"):
        BatchSampler(SAMPLE_DATA / "pretokenized.parquet")
    with pytest.raises(InputError, match="nothing"):
        BatchSampler("nothing.parquet")


# --- single samples -----------------------------------------------------------------------------


def test_class_samplers_visit_what_compare_measures():
    down = ClassBalancedSampler(LABELS, seed=3)
    down.set_epoch(2)
    found = list(down)
    counts = Counter(LABELS[place] for place in found)
    assert set(counts.values()) == {min(Counter(LABELS).values())}
    assert len(found) == len(down) == len(set(found))
    sampler = BatchSampler(
        LENGTHS, "static", labels=LABELS, sampler="downsampling", seed=3, epoch=2, batch_size=1
    )
    assert [batch[0] for batch in sampler] == found
    down.set_epoch(3)
    assert list(down) != found
    up = ClassBalancedSampler(LABELS, "upsampling", even=True)
    assert set(Counter(LABELS[place] for place in up).values()) == {max(Counter(LABELS).values())}
    assert set(up) == set(range(211))
    assert len(ClassBalancedSampler(LABELS, 7)) == 21
    weighted = WeightedClassSampler([1, 0, 0, 1, 0, None], {0: 3, 1: 1}, 40)
    assert Counter([1, 0, 0, 1, 0, None][place] for place in weighted) == {0: 30, 1: 10}
    with pytest.raises(OptionError, match="unknown mode 'up'"):
        ClassBalancedSampler(LABELS, "up")
    with pytest.raises(InputError, match="no sample is of class 'z'"):
        WeightedClassSampler(LABELS, {"z": 1})


class Unseeded:
    """As people write them: random numbers from wherever."""

    def __iter__(self):
        places = list(range(50))
        random.shuffle(places)
        yield from np.random.permutation(places).tolist()

    def __len__(self):
        return 50


@pytest.mark.parametrize("remainder", ["repeat", "drop", "uneven"])
@pytest.mark.parametrize("world_size", [1, 3, 64])
def test_ranks_never_overlap(remainder, world_size):
    for inner in (Unseeded, lambda: list(range(50)), lambda: ClassBalancedSampler(LABELS, 17)):
        ranks = []
        for rank in range(world_size):
            random.seed(rank)
            np.random.seed(rank)
            sampler = RankSampler(inner(), rank, world_size, remainder=remainder, seed=1)
            sampler.set_epoch(4)
            before = random.getstate()
            ranks.append(list(sampler))
            assert random.getstate() == before
            assert len(sampler) == len(ranks[-1])
        sizes = {len(rank) for rank in ranks}
        assert len(sizes) == 1 or remainder == "uneven"
        times = Counter(place for rank in ranks for place in rank)
        whole = RankSampler(inner(), 0, 1, seed=1)
        whole.set_epoch(4)
        drawn = Counter(whole)
        if remainder == "uneven":
            assert times == drawn
        elif remainder == "drop":
            assert times <= drawn
        else:
            assert times >= drawn
            assert times.total() == -(-drawn.total() // world_size) * world_size


def test_epochs_of_a_wrapped_sampler_differ():
    sampler = RankSampler(Unseeded(), 0, 2)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    with pytest.raises(OptionError, match="can be iterated only once"):
        RankSampler(iter([1, 2]), 0, 2)
    with pytest.raises(OptionError, match="rank=2"):
        RankSampler([1, 2], 2, 2)
    with pytest.raises(OptionError, match="RankSampler already shards across ranks"):
        RankSampler(RankSampler([1, 2], 0, 2), 0, 2)
    with pytest.raises(OptionError, match="must map each label to a weight"):
        WeightedClassSampler(LABELS, [1, 2])


# --- streams ------------------------------------------------------------------------------------

STREAMED = ["token-budget", "bucketed", "static", "fixed", "fairseq", "padding-free", "asym"]


@in_pairs(name=STREAMED, n=[211, 192, 1], drop_last=[False, True])
def test_a_stream_is_batched_as_the_corpus_in_file_order(name, n, drop_last):
    samples = [{"input_ids": [0] * length, "number": i} for i, length in enumerate(LENGTHS[:n])]
    settings = SETTINGS | {"drop_last": drop_last}
    if name in ("fairseq", "padding-free", "asym"):  # which look at the whole epoch
        settings |= {"read_ahead": 500}
    made = StreamBatcher(Iterated(samples), length="input_ids", strategy=name, **settings)
    found = [[sample["number"] for sample in batch] for batch in made]
    try:
        expected = list(BatchSampler(LENGTHS[:n], name, order="file", **settings))
    except InputError:
        expected = []
    assert found == expected


class Iterated:
    """A source that can be iterated anew, and no more."""

    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(self.samples)


class Restored:
    """A source that says where it stands, and counts what it hands out."""

    def __init__(self, samples):
        self.samples, self.at, self.handed = samples, 0, 0

    def __iter__(self):
        at, self.at = self.at, 0
        for place in range(at, len(self.samples)):
            self.at = place + 1
            self.handed += 1
            yield self.samples[place]
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@given(stop=st.integers(0, 60), source=st.sampled_from([Iterated, Restored]))
def test_a_stream_that_is_resumed_is_uninterrupted(stop, source):
    samples = list(enumerate(LENGTHS.tolist()))
    settings = {"length": lambda sample: sample[1], "strategy": "token-budget:read_ahead=40"}
    settings |= {"tokens_per_batch": 1024}
    whole = list(StreamBatcher(source(samples), **settings))
    stop = min(stop, len(whole))
    made = StreamBatcher(source(samples), **settings)
    assert list(islice(iter(made), stop)) == whole[:stop]
    state = json.loads(json.dumps(made.state_dict()))
    fresh = source(samples)
    other = StreamBatcher(fresh, **settings)
    other.load_state_dict(state)
    assert list(other) == whole[stop:]
    if source is Restored:
        assert fresh.handed == len(samples) - state["samples"]
    assert list(other) == whole


def test_a_stream_whose_epoch_changes_while_it_is_read():
    """The batches and the state stay those of the epoch that was begun."""
    samples = list(enumerate(LENGTHS.tolist()))
    settings = {"length": lambda sample: sample[1], "strategy": "token-budget:read_ahead=40"}
    settings |= {"tokens_per_batch": 1024}
    whole = list(StreamBatcher(samples, **settings))
    made = StreamBatcher(samples, **settings)
    running = iter(made)
    assert list(islice(running, 3)) == whole[:3]
    made.set_epoch(1)
    assert (made.state_dict()["epoch"], made.state_dict()["batches"]) == (1, 0)
    assert list(running) == whole[3:]
    state = made.state_dict()
    assert (state["epoch"], state["window"]) == (0, (len(LENGTHS) - 1) // 40)
    other = iter(made)
    next(other)
    assert made.state_dict()["epoch"] == 1
    first = _changed(state, batches=1)
    made.load_state_dict(first)
    next(other)
    assert made.state_dict() == first
    made.load_state_dict(_changed(state, batches=10**6))
    with pytest.raises(InputError, match="restart the epoch"):
        list(made)
    made.load_state_dict(_changed(state, samples=40 * 2**35, window=2**35))
    with pytest.raises(InputError, match="the state is after 1,374,389,534,720"):
        list(made)


def _changed(state, **numbers):
    """A stream's state with other numbers, as if it had been saved with them."""
    own = {key: value for key, value in state.items() if key != "source"}
    return {**resealed(own, **numbers), "source": state["source"]}


class Stays(Restored):
    """One that goes on where it was put, in every later epoch too, as `datasets` does it."""

    def __iter__(self):
        start = self.at
        for place in range(start, len(self.samples)):
            self.now = place + 1
            yield self.samples[place]

    def state_dict(self):
        return {"at": getattr(self, "now", self.at)}


def test_epochs_after_a_resumed_one_are_whole():
    samples = list(enumerate(LENGTHS.tolist()))
    settings = {"length": lambda sample: sample[1], "strategy": "token-budget:read_ahead=40"}
    settings |= {"tokens_per_batch": 1024}
    whole = list(StreamBatcher(Stays(samples), **settings))
    made = StreamBatcher(Stays(samples), **settings)
    list(islice(iter(made), 9))
    other = StreamBatcher(Stays(samples), **settings)
    other.load_state_dict(made.state_dict())
    assert list(other) == whole[9:]
    assert list(other) == whole
    other.set_epoch(1)
    assert other.state_dict()["epoch"] == 1
    assert other.state_dict()["batches"] == 0
    assert sorted(sample for batch in other for sample in batch) == samples


def test_a_source_that_cannot_be_put_back_is_read_again():
    samples = list(enumerate(LENGTHS.tolist()))
    settings = {"length": lambda sample: sample[1], "strategy": "token-budget:read_ahead=40"}
    settings |= {"tokens_per_batch": 1024, "replay": True}
    whole = list(StreamBatcher(Restored(samples), **settings))
    made = StreamBatcher(Restored(samples), **settings)
    list(islice(iter(made), 9))
    state = made.state_dict()
    assert state["source"] is None
    other = StreamBatcher(Restored(samples), **settings)
    other.load_state_dict(state)
    assert list(other) == whole[9:]


@pytest.mark.parametrize("left", [0, 1])
def test_a_source_that_has_shrunk(left):
    samples = list(enumerate(LENGTHS.tolist()))
    settings = {"length": lambda sample: sample[1], "strategy": "token-budget:read_ahead=40"}
    made = StreamBatcher(Iterated(samples), **settings)
    list(made)
    state = made.state_dict()
    other = StreamBatcher(Iterated(samples[: state["samples"] + left]), **settings)
    other.load_state_dict(state)
    with pytest.raises(InputError, match="restart the epoch"):
        list(other)


@pytest.mark.parametrize("strategy", ["asym:groups=2", "token-budget", "static"])
def test_a_window_of_which_nothing_is_left(strategy):
    lengths = [500] * 40 + [5, 9] * 20 + [500] * 40
    made = StreamBatcher(
        lengths,
        length=lambda sample: sample,
        strategy=strategy,
        max_length=100,
        overflow="drop",
        batch_size=10,
        read_ahead=40,
    )
    assert sum(len(batch) for batch in made) == 40


def test_a_state_of_another_kind():
    stream = StreamBatcher([5, 6], length=lambda sample: sample)
    sampler = BatchSampler([5, 6])
    with pytest.raises(OptionError, match=r"sampler/5 \(expected batchstat\.stream"):
        stream.load_state_dict(sampler.state_dict())
    for broken in ({"window": "x"}, {"fingerprint": None}, {"batches": -1}):
        with pytest.raises(OptionError):
            stream.load_state_dict(stream.state_dict() | broken)
    state = stream.state_dict()
    del state["lengths"]
    with pytest.raises(OptionError, match="cannot use the state: it was damaged or edited"):
        stream.load_state_dict(state)


def test_an_endless_stream():
    def endless():
        rng = np.random.default_rng(0)
        while True:
            yield rng.integers(1, 50, rng.integers(1, 90))

    made = StreamBatcher(
        iter(endless()), length=len, strategy="token-budget:read_ahead=100", tokens_per_batch=512
    )
    for batch in islice(made, 300):
        assert len(batch) * max(map(len, batch)) <= 512


def test_another_source_and_other_settings():
    samples = list(enumerate(LENGTHS.tolist()))
    settings = {"length": lambda sample: sample[1], "tokens_per_batch": 1024}
    spec = "token-budget:read_ahead=40"
    made = StreamBatcher(Iterated(samples), strategy=spec, **settings)
    list(islice(iter(made), 5))
    state = made.state_dict()
    for changed, message in (
        ([(i, length + 1) for i, length in samples], "have other lengths"),
        (samples[:3], "restart the epoch"),
    ):
        other = StreamBatcher(Iterated(changed), strategy=spec, **settings)
        other.load_state_dict(state | {"samples": min(40, state["samples"])})
        with pytest.raises(InputError, match=message):
            list(other)
    other = StreamBatcher(Iterated(samples), strategy="token-budget:read_ahead=41", **settings)
    with pytest.raises(OptionError, match="'read_ahead': 40"):
        other.load_state_dict(state)


@in_turn(
    ("settings", "message"),
    [
        ({"strategy": "packed"}, "packed needs max_length"),
        ({"strategy": "static"}, "static needs batch_size"),
        ({"strategy": "hf-group-by-length", "batch_size": 4}, "needs a whole epoch"),
        ({"overflow": "split", "max_length": 5}, "overflow=split needs a whole epoch"),
        ({"world_size": 2}, "world_size needs a whole epoch"),
        ({"sampler": "upsampling"}, "sampler needs a whole epoch"),
    ],
)
def test_what_a_stream_cannot_have(settings, message):
    with pytest.raises(OptionError, match=message):
        StreamBatcher([], length=len, **settings)


@pytest.mark.parametrize("sample", ["", [], 3, None])
def test_samples_without_a_length(sample):
    def length(sample):
        return len(sample) if isinstance(sample, list | str) else sample

    made = StreamBatcher(["a", sample] if sample != 3 else ["a", 3.5], length=length)
    with pytest.raises(InputError, match="sample 1 of the stream has length"):
        list(made)
    with pytest.raises(InputError, match="has no 'input_ids'"):
        list(StreamBatcher(["a"], length="input_ids"))
