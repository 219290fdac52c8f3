"""Time, memory and cost by a calibration: held against plain loops over plans."""

from dataclasses import asdict, replace
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import batchstat
from batchstat.documents.comparison import choice_of
from batchstat.errors import InputError, OptionError
from batchstat.planning.samples import Samples
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import StrategySpec
from calibrated import GIB, SHAPE, Constants, calibration, estimate, write
from conftest import plan_epoch
from tables import in_turn

LENGTHS = np.random.default_rng(3).lognormal(4, 0.8, 150).astype(int).clip(1, 600).tolist()
ROWS = (
    *("fixed", "static:batch_size=3", "bucketed", "token-budget", "boundaries:buckets=3"),
    *("packed:within_samples=true", "packed:within_samples=false", "padding-free"),
)
WIDE = "packed:max_length=2000"
CHEAP = Constants(step=0.0, batch=0.0, pair=0.0)


class Epoch:
    """What an epoch takes, by a plain loop over its batches."""

    def __init__(self, row, lengths, constants):
        basis = row.request.settings
        work = make_shares(Samples(np.array(lengths), np.arange(len(lengths))), basis)
        strategy = StrategySpec.parse(row.label).strategy(asdict(basis))
        plan = plan_epoch(strategy, work.epoch, seed=basis.seed, epoch=basis.epoch)
        batches = []
        for first, last in pairwise(plan.batch_offsets.tolist()):
            width = int(plan.widths[len(batches)])
            pairs = (last - first) * width**2
            if strategy.attends_within_samples:
                entries = plan.lengths[plan.row_offsets[first] : plan.row_offsets[last]].tolist()
                pairs = sum(length**2 for length in entries)
            batches.append((last - first, width, pairs))
        ranks, size = basis.world_size, basis.gradient_accumulation_steps
        while len(batches) % ranks:
            batches.append(batches[len(batches) % len(plan.widths)])
        turns = [batches[first : first + ranks] for first in range(0, len(batches), ranks)]
        self.seconds = constants.shape * len({(rows, width) for rows, width, _ in batches})
        self.busy = self.seconds * ranks
        together = 1 if basis.wait == "micro-batch" else size
        for first in range(0, len(turns), together):
            of_ranks = [0 if first % size else constants.step] * ranks
            for turn in turns[first : first + together]:
                for rank, (rows, width, pairs) in enumerate(turn):
                    of_ranks[rank] += constants.seconds(rows * width, pairs)
            self.seconds += max(of_ranks)
            self.busy += sum(of_ranks)
        self.idle = 1 - self.busy / (ranks * self.seconds)
        self.most_tokens = max(rows * width for rows, width, _ in batches)
        self.peak = constants.peak(self.most_tokens)


@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize(
    ("ranks", "accumulation", "wait"),
    [(1, 1, "step"), (1, 3, "micro-batch"), (3, 1, "step"), (4, 2, "step"), (4, 3, "micro-batch")],
)
def test_an_epoch_takes_what_its_batches_take(ranks, accumulation, wait, compiles):
    constants = Constants(shape=0.7 if compiles else 0.0)
    comparison = batchstat.compare(
        LENGTHS,
        strategies=ROWS,
        current="static:batch_size=3",
        tokens_per_batch=2000,
        world_size=ranks,
        gradient_accumulation_steps=accumulation,
        wait=wait,
        calibration=calibration(constants, compile=compiles),
        cost_per_hour=3.5,
    )
    found = {row.label: Epoch(row, LENGTHS, constants) for row in comparison}
    current = found[comparison.current.label].seconds
    for row in comparison:
        epoch, device = found[row.label], row.on_device
        assert device.seconds == pytest.approx(epoch.seconds, rel=1e-3)
        assert device.cost == pytest.approx(epoch.seconds / 3600 * ranks * 3.5, rel=1e-3)
        assert device.rank_idle_time == pytest.approx(epoch.idle, abs=1e-3)
        assert row.counts.peak_bytes == pytest.approx(epoch.peak, rel=1e-6)
        assert comparison.speed_up(row) == pytest.approx(current / epoch.seconds, rel=2e-3)
        assert not device.is_extrapolated


MANY = st.lists(st.integers(1, 400), min_size=5, max_size=40)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lengths=MANY, budget=st.integers(100, 3000), ranks=st.sampled_from([1, 3]))
def test_with_time_per_token_only_a_comparison_is_that_of_total_tokens(lengths, budget, ranks):
    """Speed-ups, the best row and all others that are named."""
    asked = {"tokens_per_batch": budget, "world_size": ranks}
    plain = batchstat.compare(lengths, **asked)
    timed = batchstat.compare(lengths, calibration=calibration(CHEAP), **asked)
    for before, after in zip(plain, timed, strict=True):
        assert timed.speed_up(after) == plain.speed_up(before)
        assert after.on_device.rank_idle_time == pytest.approx(before.counts.rank_idle)
    assert choice_of(plain.changes) == choice_of(timed.changes)


@settings(max_examples=5, deadline=None)
@given(lengths=MANY, factor=st.integers(2, 50))
def test_a_slower_device_takes_longer_and_changes_no_speed_up(lengths, factor):
    fast = Constants()
    slow = Constants(*(factor * each for each in (fast.step, fast.batch, fast.token, fast.pair)))
    before, after = (
        batchstat.compare(lengths, tokens_per_batch=900, calibration=calibration(each))
        for each in (fast, slow)
    )
    for row in before:
        other = after[row.label]
        assert other.on_device.seconds == pytest.approx(factor * row.on_device.seconds, rel=1e-3)
        assert after.speed_up(other) == pytest.approx(before.speed_up(row), rel=1e-3)


@settings(max_examples=8, deadline=None)
@given(lengths=MANY, budget=st.integers(200, 4000), fitting=st.integers(300, 4000))
def test_nothing_that_does_not_fit_is_recommended(lengths, budget, fitting):
    constants = Constants()
    known = calibration(constants, fits=constants.peak(fitting))
    assert known.memory.worst < 1e-6  # so that nothing below depends on the margin
    comparison = batchstat.compare(lengths, tokens_per_batch=budget, calibration=known)
    for row in comparison:
        tokens = Epoch(row, lengths, constants).most_tokens
        if tokens != fitting:  # at the edge itself, the fit's last digits decide
            assert row.on_device.fits_memory == (tokens < fitting)
    changes = comparison.changes
    for change in filter(None, (changes.star, changes.fastest, changes.packed)):
        assert change.row.on_device.fits_memory
    large = [row.label for row in comparison if not row.on_device.fits_memory]
    warned = [each for each in comparison.warnings if each.id == "device/does-not-fit"]
    assert len(warned) == bool(large)
    assert all(label in warned[0].message for label in large)
    if comparison.tokens_that_fit >= comparison.basis.widest:
        again = batchstat.compare(
            lengths,
            tokens_per_batch=comparison.tokens_that_fit,
            max_length=comparison.basis.max_length,
            calibration=known,
        )
        assert all(row.on_device.fits_memory for row in again)


@settings(max_examples=8, deadline=None)
@given(
    lengths=MANY,
    budget=st.integers(200, 3000),
    fitting=st.integers(2000, 4000),
    gradients=st.integers(0, GIB),
    accumulation=st.integers(1, 3),
)
def test_peaks_have_the_gradients_that_accumulation_keeps(
    lengths, budget, fitting, gradients, accumulation
):
    constants = Constants()
    known = calibration(constants, fits=constants.peak(fitting), gradients=gradients)
    asked = {"gradient_accumulation_steps": accumulation, "calibration": known}
    comparison = batchstat.compare(lengths, tokens_per_batch=budget, **asked)
    kept = gradients * (accumulation > 1)
    for row in comparison:
        if row.name == "regrouped":  # which a plan of one rank does not have
            continue
        needed = Epoch(row, lengths, constants).peak + kept
        assert row.counts.peak_bytes == pytest.approx(needed, rel=1e-6)
        if abs(needed - constants.peak(fitting)) > 10**6:
            assert row.on_device.fits_memory == (needed < constants.peak(fitting))


def test_gradients_that_are_not_known_are_said_to_be_missing():
    of_function = calibration(gradients=None, model="train:step", shape=None)
    for accumulation, expected in ((1, []), (2, ["device/gradients-unknown"])):
        comparison = batchstat.compare(
            [5, 90], calibration=of_function, gradient_accumulation_steps=accumulation
        )
        codes = [each.id for each in comparison.warnings]
        assert [code for code in codes if code == "device/gradients-unknown"] == expected


def test_the_worst_residual_is_a_margin():
    known = calibration(fits=Constants().peak(1000))
    known = replace(known, memory=replace(known.memory, worst=0.1))
    most = known.fits * 0.9
    # What ran fits without it.
    known = replace(known, points=tuple(each for each in known.points if each.width < 100))
    assert known.tokens_that_fit(100) == int((most - 2 * GIB) / 2**20)
    rows = batchstat.compare([100] * 50, tokens_per_batch=900, calibration=known)
    assert Constants().peak(900) > most
    assert not rows["token-budget"].on_device.fits_memory


def test_a_peak_of_the_optimizer_fits_since_it_ran():
    known = calibration(fits=3 * GIB)
    known = replace(known, memory=replace(known.memory, least=3 * GIB, worst=0.5))
    rows = batchstat.compare([10] * 50, tokens_per_batch=20, calibration=known)
    assert rows["static"].counts.peak_bytes == 3 * GIB
    assert all(row.on_device.fits_memory for row in rows)


@in_turn(
    ("lengths", "asked", "row", "is_extrapolated"),
    [
        ([100] * 50, {}, "static", False),
        ([100] * 50, {"tokens_per_batch": 5000}, "static", True),
        ([1025, 3, 4], {"tokens_per_batch": 2000}, "static", True),
        ([1025, 3, 4], {"tokens_per_batch": 2000}, "padding-free", True),
        ([1024, 3, 4], {"tokens_per_batch": 2000}, "padding-free", False),
        # Attention over a whole row is that of one sample as wide.
        (
            [900] * 9,
            {"tokens_per_batch": 3000},
            "packed:max_length=2000,within_samples=false",
            True,
        ),
        (
            [900] * 9,
            {"tokens_per_batch": 3000},
            "packed:max_length=2000,within_samples=true",
            False,
        ),
    ],
)
def test_what_lies_beyond_the_measured_batches_is_extrapolated(
    lengths, asked, row, is_extrapolated
):
    found = batchstat.compare(
        lengths, strategies=row, calibration=calibration(), **{"tokens_per_batch": 2000} | asked
    )
    assert found[row].on_device.is_extrapolated == is_extrapolated
    assert ("device/extrapolated" in {each.id for each in found.warnings}) == is_extrapolated


def test_packed_rows_are_extrapolated_where_none_was_measured():
    rows = ("static", "packed:within_samples=true", "packed:within_samples=false")
    found = batchstat.compare(
        [100] * 50,
        strategies=rows,
        tokens_per_batch=1000,
        calibration=calibration(packed=False),
    )
    assert [row.on_device.is_extrapolated for row in found] == [False, True, False]


@pytest.mark.parametrize("model", [None, SHAPE])
def test_an_estimate_has_memory_and_changes_no_compute(model):
    asked = {"tokens_per_batch": 1000, "model": model}
    plain = batchstat.compare(LENGTHS, **asked)
    found = batchstat.compare(LENGTHS, calibration=estimate(4 * GIB), **asked)
    for before, after in zip(plain, found, strict=True):
        assert after.counts.compute == before.counts.compute
        assert after.counts.peak_bytes == Constants().peak(after.counts.max_batch_tokens)
        assert (after.on_device.seconds, after.on_device.cost) == (None, None)
        assert not after.on_device.is_extrapolated
    assert not found.is_timed
    assert found.tokens_that_fit == 2 * GIB // 2**20


def test_a_file_is_a_calibration_and_a_model_may_be_named_beside_it(tmp_path):
    path = write(tmp_path / "h100.json", calibration())
    found = batchstat.compare(LENGTHS, model=SHAPE, calibration=path)
    again = batchstat.compare(LENGTHS, calibration=str(path))
    assert found.calibration == again.calibration == calibration()
    assert [row.on_device for row in found] == [row.on_device for row in again]
    assert "seconds" in found.to_frame().columns


@in_turn(
    ("asked", "error", "words"),
    [
        ({"cost_per_hour": 2.5}, OptionError, "cost_per_hour=2.5 needs the time of an epoch"),
        ({"calibration": calibration(), "cost_per_hour": 0}, OptionError, "must be a number above"),
        (
            {"calibration": calibration(), "cost_per_hour": float("nan")},
            OptionError,
            "cost_per_hour=nan: must be a number above 0",
        ),
        ({"calibration": estimate(), "cost_per_hour": 1.0}, OptionError, "only estimates memory"),
        ({"calibration": "missing.json"}, InputError, "no such file: missing.json"),
        (
            {"calibration": calibration(), "model": replace(SHAPE, layers=3)},
            InputError,
            "was measured for a-decoder, not for the model you named (layers 2, not 3)",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(asked, error, words):
    with pytest.raises(error, match=r".") as raised:
        batchstat.compare([5, 6], **asked)
    assert words in str(raised.value)


def test_a_damaged_file_is_refused(tmp_path):
    path = write(tmp_path / "h100.json", calibration())
    path.write_text(path.read_text().replace("NVIDIA H200", "NVIDIA H100"))
    with pytest.raises(InputError, match=r"h100.json: .* write it again with batchstat calibrate"):
        batchstat.compare([5, 6], calibration=path)


def test_a_function_has_no_shape_to_compare_with_a_model():
    known = calibration(model="trainer:step", shape=None)
    assert batchstat.compare([5, 6], model=replace(SHAPE, layers=9), calibration=known).is_timed


def test_models_of_the_same_compute_may_differ_in_memory():
    """GPT-2 is of BERT's size; where a shape does not say more than the compute, it may be both."""
    gpt2, bert = batchstat.load_model("gpt2"), batchstat.load_model("bert-base")
    bert = replace(bert, vocabulary=gpt2.vocabulary)
    assert bert.cost == gpt2.cost
    with pytest.raises(InputError, match=r"positions 1024, not 512, activation gelu_new, not gelu"):
        batchstat.compare([5, 6], model=bert, calibration=calibration(shape=gpt2))
    written = batchstat.CostModel(hidden=768, layers=12, heads=12, vocabulary=50_257)
    for own, named in ((gpt2, gpt2), (gpt2, written), (written, bert)):
        assert batchstat.compare([5, 6], model=named, calibration=calibration(shape=own)).is_timed


def test_balance_weighs_samplers_by_time():
    labels = ["spam"] * 20 + ["ham"] * 130
    asked = {"labels": labels, "tokens_per_batch": 1000, "world_size": 2}
    report = batchstat.balance(LENGTHS, calibration=calibration(), cost_per_hour=2, **asked)
    without = batchstat.compare(
        LENGTHS, strategies="token-budget", calibration=calibration(), **{**asked, "labels": None}
    )
    for row in report.samplers:
        device = row.row.on_device
        assert device.cost == pytest.approx(device.seconds / 3600 * 2 * 2)
        assert row.relative_compute == pytest.approx(
            device.seconds / without.best.on_device.seconds
        )


def test_times_that_are_too_noisy_are_not_used():
    """Measured beside other work: rows rank by what they compute, and nothing has a time."""
    lengths = np.random.default_rng(0).integers(1, 300, 200)
    quiet = calibration(CHEAP)
    noisy = replace(quiet, time=replace(quiet.time, residual=0.21))
    plain = batchstat.compare(lengths, current="hf-trainer")
    made = batchstat.compare(lengths, current="hf-trainer", calibration=noisy)
    assert not made.is_timed
    assert choice_of(made.changes) == choice_of(plain.changes)
    assert all(row.on_device.seconds is None for row in made)
    assert all(row.counts.peak_bytes for row in made)
    [warning] = [each.message for each in made.warnings if each.id == "device/noisy"]
    assert "are ±21%, too noisy" in warning
    assert warning.endswith("measure again on an idle device")
    with pytest.raises(InputError, match="too noisy: measure again on an idle device"):
        batchstat.compare(lengths, calibration=noisy, cost_per_hour=2)
    with pytest.raises(InputError, match="too noisy to minimise"):
        batchstat.find_buckets(lengths, buckets=3, cost="time", calibration=noisy)
    close = replace(quiet, time=replace(quiet.time, residual=0.2))
    assert batchstat.compare(lengths, calibration=close).is_timed
