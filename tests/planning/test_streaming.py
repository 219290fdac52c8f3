"""What is never held whole: the same numbers as of what is."""

import math
import shutil
import tempfile
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

import batchstat
from batchstat.documents.comparison import comparison_document
from batchstat.errors import InputError
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import MAX_INT
from batchstat.planning import rank_plans as distributed
from batchstat.planning import shares
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.distribution import balance_turns, round_robin
from batchstat.planning.epoch import InMemoryEpoch, make_epoch
from batchstat.planning.plan import BatchPlan
from batchstat.planning.rank_plans import plan_shares
from batchstat.planning.rng import distribution_rng, window_rng
from batchstat.planning.rules import OVERFLOWS, WAITS
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Settings
from batchstat.planning.shares import StreamedEpoch, make_order, make_shares
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.planning.windows import plan_windows, tabulate_windows
from batchstat.profiling import memmap as arrays
from batchstat.profiling.parquet import read_file, save_lengths
from batchstat.simulation.meters.epoch_meter import EpochMeter, Measurement
from batchstat.simulation.meters.measure import measure
from conftest import SAMPLE_DATA, packed

LENGTHS = st.lists(st.integers(0, 60), min_size=1, max_size=150).filter(any)


@given(
    lengths=LENGTHS,
    kind=st.sampled_from(["file", "blocks"]),
    overflow=st.sampled_from(list(OVERFLOWS)),
    max_length=st.integers(1, 70),
    size=st.integers(1, 200),
    at_once=st.integers(1, 50),
    block=st.integers(1, 20),
)
def test_an_epoch_in_pieces(lengths, kind, overflow, max_length, size, at_once, block):
    records = np.cumsum(np.arange(len(lengths)) % 3 + 1)
    samples = Samples(np.array(lengths), records)
    given = {"order": kind, "overflow": overflow, "seed": 3, "epoch": 1}
    basis = Settings(max_length=max_length, **given).resolve(60, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shares, "_AT_ONCE", max(at_once, block))
        patch.setattr(shares, "BLOCK_SIZE", block)
        sequence = make_order(len(lengths), kind, seed=3, epoch=1)
        assert sorted(sequence.tolist()) == list(range(len(lengths)))
        expected = make_epoch(records[sequence], samples.lengths[sequence], max_length, overflow)
        streamed = StreamedEpoch(samples, basis)
        pieces = list(streamed.pieces(size))
        whole = [each for piece in pieces for each in entries(piece)]
        assert whole == entries(expected) == entries(streamed.whole)
        assert [each.count for each in pieces] == [each.count for each in expected.pieces(size)]
    for name in ("count", "tokens", "sample_count", "is_split", "lost"):
        assert getattr(streamed, name) == getattr(expected, name), name
    if expected.count:
        assert streamed.stats.values.tolist() == expected.stats.values.tolist()
        assert streamed.stats.counts.tolist() == expected.stats.counts.tolist()


def entries(epoch: InMemoryEpoch) -> list[tuple[int, int, int]]:
    starts = np.zeros_like(epoch.samples) if epoch.starts is None else epoch.starts
    return list(zip(epoch.samples.tolist(), epoch.lengths.tolist(), starts.tolist(), strict=True))


@given(LENGTHS, st.integers(1, 200))
def test_statistics_of_some_at_a_time(lengths, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("batchstat.lengths.stats._AT_ONCE", at_once)
        found = LengthStats.of(np.array(lengths))
    values, counts = np.unique(lengths, return_counts=True)
    assert found.values.tolist() == values.tolist()
    assert found.counts.tolist() == counts.tolist()


SPECS = [
    *("static:batch_size=3", "fixed:batch_size=2", "bucketed:batch_size=4,read_ahead=20"),
    *("token-budget:read_ahead=15", "token-budget:read_ahead=500", "bucketed:read_ahead=400"),
    *("packed", "packed:read_ahead=30", "packed:method=ffd", "packed:within_samples=true"),
    *("packed:max_samples_per_row=3", "asym", "boundaries", "fairseq", "padding-free"),
    *("token-budget:read_ahead=900,max_samples=3,shuffle_batches=false", "hf-group-by-length"),
]


@settings(max_examples=8)
@pytest.mark.parametrize("spec", SPECS)
@given(data=st.data())
def test_measured_in_groups(spec, data):
    lengths = np.array(data.draw(LENGTHS))
    world_size = data.draw(st.integers(1, 5))
    basis = Settings(
        tokens_per_batch=data.draw(st.integers(60, 200)),
        max_length=data.draw(st.sampled_from([30, 60])),
        overflow=data.draw(st.sampled_from(["truncate", "drop"])),
        order=data.draw(st.sampled_from(["file", "blocks", "shuffled"])),
        world_size=world_size,
        distribute=data.draw(st.sampled_from(["batches", "balanced"])),
        remainder=data.draw(st.sampled_from(["repeat", "drop", "uneven", "dummy"])),
        gradient_accumulation_steps=data.draw(st.integers(1, 3)),
        wait=data.draw(st.sampled_from(sorted(WAITS))),
        pad_to_multiple_of=data.draw(st.sampled_from([1, 8])),
        drop_last=data.draw(st.booleans()),
    ).resolve(60, None)
    strategy = StrategySpec.parse(spec).strategy(asdict(basis))
    assume(basis.overflow != "drop" or lengths.min() <= basis.max_length)
    work = make_shares(Samples(lengths, np.arange(len(lengths))), basis)

    def at_once() -> Measurement:
        (plans,) = plan_shares(strategy, work, basis)
        batches = BatchTable.of(plans)
        turns = round_robin(batches.n_units, world_size, basis.remainder)
        if basis.distribute == "balanced":
            costs = batches.sum_by_unit(batches.total_tokens)
            turns = balance_turns(turns, costs, distribution_rng(basis.seed, basis.epoch))
        meter = EpochMeter(RowRequest(StrategySpec.parse(spec), strategy, basis))
        meter.add(batches, turns)
        return meter.measurement(work.epoch)

    found = []
    for make in (
        at_once,
        lambda: measure(RowRequest(StrategySpec.parse(spec), strategy, basis), work),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distributed, "ROUND_UNITS", 1)
            patch.setattr(distributed, "BALANCED_TURNS", 2)
            patch.setattr("batchstat.planning.distribution.BALANCED_TURNS", 2)
            try:
                found.append(make())
            except Exception as error:
                found.append(str(error))
    one, other = found
    if isinstance(one, str):
        assert one == other
        return
    same(asdict(one.counts), asdict(other.counts))
    assert one.widths.values.tolist() == other.widths.values.tolist()
    assert one.widths.counts.tolist() == other.widths.counts.tolist()
    if world_size > 1:
        assert one.meetings.tolist() == other.meetings.tolist()


def same(one: Any, other: Any) -> None:
    """Equal, but for what sums of floats differ in."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, float):
        assert math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    else:
        assert one == other


@given(LENGTHS, st.sampled_from(["packed", "token-budget", "bucketed"]), st.booleans())
def test_batches_by_the_histogram_are_those_of_the_plan(lengths, name, shuffle):
    basis = Settings(max_length=60, tokens_per_batch=180, read_ahead=1000).resolve(60, None)
    strategy = StrategySpec.parse(f"{name}:shuffle_batches={str(shuffle).lower()}").strategy(
        asdict(basis)
    )
    visits = InMemoryEpoch(np.arange(len(lengths)), np.array(lengths))
    planned = BatchTable.of(plan_windows(strategy, visits, seed=4, epoch=2))
    told = strategy.summary(visits.stats, np.random.default_rng((4, 2, 0)))
    assert told is not None
    for column in ("rows", "widths", "entries", "samples", "tokens", "squares", "unit_offsets"):
        assert getattr(told, column).tolist() == getattr(planned, column).tolist(), column


@pytest.mark.parametrize("name", STRATEGIES)
@given(
    lengths=LENGTHS,
    size=st.integers(1, 20),
    together=st.integers(2, 300),
    drop_last=st.booleans(),
    multiple=st.sampled_from([1, 8]),
    split=st.booleans(),
)
def test_windows_planned_together_are_those_planned_alone(
    name, lengths, size, together, drop_last, multiple, split
):
    given = Settings(
        max_length=60, tokens_per_batch=180, drop_last=drop_last, pad_to_multiple_of=multiple
    )
    sized = f"{name}:read_ahead={size}" if "read_ahead" in FIELDS[name] else name
    strategy = StrategySpec.parse(packed(sized)).strategy(asdict(given.resolve(60, None)))
    starts = np.arange(len(lengths)) % 2 * 60 if split else None
    visits = InMemoryEpoch(np.arange(len(lengths)) + 7, np.array(lengths), starts)
    alone = list(plan_windows(strategy, visits, seed=4, epoch=2))
    joined = list(plan_windows(strategy, visits, seed=4, epoch=2, together=together))
    one, other = BatchPlan.concatenate(alone), BatchPlan.concatenate(joined)
    for column in ("samples", "lengths", "starts", *OFFSETS, "widths"):
        assert np.array_equal(getattr(one, column), getattr(other, column)), column
    planned = BatchTable.of(alone)
    counted = list(tabulate_windows(strategy, visits, seed=4, epoch=2))
    table = BatchTable.concatenate(counted)
    for column in ("rows", "widths", "entries", "samples", "tokens", "squares", "unit_offsets"):
        assert getattr(table, column).tolist() == getattr(planned, column).tolist(), column


OFFSETS = ("row_offsets", "batch_offsets", "unit_offsets")
FIELDS = {name: {each.name for each in fields(kind)} for name, kind in STRATEGIES.items()}


@given(st.integers(0, MAX_INT), st.integers(0, MAX_INT), st.integers(0, 2**33))
def test_a_window_draws_from_its_own_stream(seed, epoch, window):
    expected = np.random.default_rng((seed, epoch, window)).permutation(50)
    assert window_rng(seed, epoch, window).permutation(50).tolist() == expected.tolist()


def test_lengths_in_a_temporary_file(tmp_path, monkeypatch):
    corpus = [SAMPLE_DATA / "corpus.txt"]

    def made(folder: Path) -> tuple[bytes, list[dict[str, Any]]]:
        profile = replace(batchstat.profile(corpus), created="2026-01-01T00:00:00+00:00")
        folder.mkdir()
        with (folder / "lengths.parquet").open("wb") as file:
            save_lengths(profile, file)
        again = read_file(folder / "lengths.parquet")
        is_mapped = {isinstance(each.lengths, np.memmap) for each in (profile, again)}
        assert is_mapped == {arrays.HELD < 1_000}
        reports = [
            comparison_document(batchstat.compare(again, order=order, tokens_per_batch=4096))
            for order in ("file", "blocks", "shuffled")
        ]
        written = (folder / "lengths.parquet").read_bytes()
        return written, [report | {"created": ""} for report in reports]

    held = made(tmp_path / "held")
    monkeypatch.setattr(arrays, "HELD", 100)
    assert made(tmp_path / "mapped") == held


def test_no_room_for_a_temporary_file():
    """It is said before anything is written: a mapped file without room ends the process."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    with pytest.raises(InputError, match="no space for the lengths of .*No space left.*TMPDIR"):
        arrays.new_array(free // 4 + 1_000_000_000, 1)


@settings(max_examples=10)  # each compares twice
@pytest.mark.parametrize("strategy", ["static:batch_size=3", "token-budget", "packed"])
@given(
    lengths=LENGTHS,
    world_size=st.integers(1, 5),
    remainder=st.sampled_from(["repeat", "drop", "uneven", "dummy"]),
    distribute=st.sampled_from(["batches", "balanced"]),
)
def test_coverage_by_units_is_that_of_the_traced_samples(
    strategy, lengths, world_size, remainder, distribute
):
    """Samples are traced where there are labels; else the distributed units tell."""
    settings = {"world_size": world_size, "remainder": remainder, "distribute": distribute}
    settings |= {"tokens_per_batch": 130, "max_length": 60}

    def counts(labels: list[str] | None) -> Any:
        try:
            rows = batchstat.compare(lengths, labels=labels, strategies=[strategy], **settings)
        except InputError as error:
            return str(error)
        made = asdict(rows.strategies[0].counts)
        made["sample_coverage"]["mixing"] = None
        ranks = made["sample_coverage"]["ranks"]
        made["sample_coverage"]["ranks"] = [(rank.samples, rank.batches) for rank in ranks]
        return made

    same(counts(None), counts(["a"] * len(lengths)))
