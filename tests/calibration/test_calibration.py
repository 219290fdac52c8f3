import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import batchstat
from batchstat.calibration.calibration import (
    PER_SECOND,
    Calibration,
    load_calibration,
    save_calibration,
)
from batchstat.calibration.cost_model import CostModel
from batchstat.calibration.fit import fit_calibration, non_negative_least_squares
from batchstat.calibration.measured import Shape
from batchstat.calibration.measuring import measure_device
from batchstat.calibration.setup import Setup
from batchstat.documents.comparison import comparison_document
from batchstat.errors import InputError, OptionError
from batchstat.storage.sealed_records import seal
from calibration.devices import KnownDevice
from tables import in_turn


def calibration_of(device: KnownDevice, widest: int = 512, **more) -> Calibration:
    setup = Setup(model="known", shape=CostModel(hidden=64, layers=2))
    measured = measure_device(device, widest, **more)
    time, memory = fit_calibration(measured.points, device.fixed, device.gradients)
    return Calibration(
        created="2026-01-01T00:00:00+00:00",
        setup=setup,
        hardware=device.hardware,
        points=measured.points,
        time=time,
        memory=memory,
        fits=measured.fits,
        too_large=measured.too_large,
        is_complete=measured.is_complete,
    )


KNOWN = calibration_of(KnownDevice(memory=100_000_000))
TIMES = ("per_step", "per_batch", "per_token", "per_pair", "per_shape", "residual", "worst")


@given(
    st.lists(st.lists(st.floats(-10, 10), min_size=3, max_size=3), min_size=3, max_size=12),
    st.data(),
)
def test_least_squares_are_no_worse_than_any_other_coefficients(columns, data):
    matrix = np.array(columns)
    n = len(matrix)
    values = np.array(data.draw(st.lists(st.floats(-10, 10), min_size=n, max_size=n)))
    found = non_negative_least_squares(matrix, values)
    assert (found >= 0).all()
    least = np.linalg.norm(matrix @ found - values)
    for other in itertools.product([0.0, 0.3, 1.0, 3.0], repeat=3):
        assert least <= np.linalg.norm(matrix @ np.array(other) - values) + 1e-9


def test_a_file_is_read_back(tmp_path):
    calibration = calibration_of(KnownDevice(memory=100_000_000, noise=0.01))
    path = tmp_path / "known.json"
    path.write_text(save_calibration(calibration))
    assert load_calibration(path) == calibration
    assert load_calibration(str(path)).cost == calibration.cost


@in_turn(
    ("change", "message"),
    [
        (lambda text: text[:100], "write it again with batchstat calibrate"),
        (lambda text: text.replace('"width": 512', '"width": 513', 1), "damaged or edited"),
        (lambda text: text.replace("calibration/1", "calibration/9"), "batchstat.calibration/9"),
        (lambda text: text.replace("batchstat.calibration/1", "batchstat.profile/6"), "profile/6"),
        (lambda _: "[1, 2]", "is not an object"),
        (lambda _: "\x00", "write it again"),
    ],
)
def test_another_file_is_refused(tmp_path, change, message):
    path = tmp_path / "known.json"
    path.write_text(change(save_calibration(calibration_of(KnownDevice()))))
    with pytest.raises(InputError, match=message) as caught:
        load_calibration(path)
    assert str(path.as_posix()) in str(caught.value)
    assert "\n" not in str(caught.value)


@in_turn(
    ("place", "number"),
    [
        (("time", "per_batch"), -1),
        (("time", "per_shape"), 1e300),
        (("time", "per_shape"), 2**63 - 1),
        (("time", "per_pair"), 1.5),
        (("time", "residual"), -1),
        (("memory", "per_token"), 2.0**63),
        (("memory", "per_pair"), -1),
        (("memory", "fixed"), 2**51),
        (("hardware", "memory"), 2**51),
        (("points", 0, "samples_per_row"), 2**30),
        (("points", 0, "seconds"), 1e9),
        (("points", 0, "width"), 0),
        (("time",), dict.fromkeys(TIMES, 0)),
    ],
)
def test_constants_that_no_device_has_are_refused(tmp_path, place, number):
    """A digest can be computed again: it is no proof of what was measured."""
    record = json.loads(save_calibration(calibration_of(KnownDevice(memory=100_000_000))))
    del record["digest"]
    part = record
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = number
    (tmp_path / "known.json").write_text(json.dumps(seal(record)))
    with pytest.raises(InputError, match=r"must be between|samples in a row|no batch takes time"):
        load_calibration(tmp_path / "known.json")


@given(data=st.data())
def test_the_largest_constants_are_counted(data):
    """Compute in picoseconds is more than 64 bits hold, and memory more than any device has."""
    extreme = st.sampled_from([0.0, 1e-12, 1.0])
    seconds = st.sampled_from([0.0, 86_400.0])
    known = KNOWN
    time = replace(
        known.time,
        **{name: data.draw(seconds) for name in ("per_step", "per_batch", "per_shape")},
        per_token=data.draw(extreme),
        per_pair=data.draw(st.sampled_from([1e-12, 1.0])),
    )
    each = st.sampled_from([0.0, 2.0**40])
    memory = replace(known.memory, per_token=data.draw(each), per_pair=data.draw(each))
    found = batchstat.compare(
        np.random.default_rng(0).integers(1, 400, 200),
        calibration=replace(known, time=time, memory=memory),
        tokens_per_batch=2048,
        world_size=data.draw(st.sampled_from([1, 3])),
    )
    document = json.loads(json.dumps(comparison_document(found)))
    assert all(row["compute"] >= 0 for row in document["strategies"])


@pytest.mark.parametrize("content", [b"", b"\x89PNG\xff", b"{", b"not JSON"])
def test_what_is_no_json_is_no_calibration(tmp_path, content):
    path = tmp_path / "known.json"
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"known.json is not a calibration, .*batchstat calibrate$"
    ):
        load_calibration(path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_calibration(3), "calibration=3: must be a Calibration, or the file of one"),
        (lambda: batchstat.compare([5], calibration=3), "calibration=3: must be a Calibration, or"),
        (lambda: batchstat.compare([5], model=3), "model=3: must be a CostModel, or the name"),
        (lambda: batchstat.calibrate(3), "model=3: pass the folder of a config.json"),
        (lambda: batchstat.estimate_memory(5), "model=5: pass a CostModel"),
    ],
)
def test_wrong_types_are_option_errors(call, message):
    with pytest.raises(OptionError, match=message):
        call()


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file: .*write it with batchstat calibrate"):
        load_calibration(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read"):
        load_calibration(tmp_path)


def test_costs_are_the_fit_in_picoseconds():
    device = KnownDevice()
    calibration = calibration_of(device)
    cost = calibration.cost
    shape = Shape(3, 100)
    work = cost.per_batch + cost.per_token * shape.tokens + cost.per_pair * shape.pairs
    assert work / PER_SECOND == pytest.approx(device.seconds(shape), rel=1e-3)
    assert work / PER_SECOND == pytest.approx(calibration.seconds(shape), rel=1e-3)
    assert cost.per_step / PER_SECOND == pytest.approx(device.per_step)
    assert calibration.bytes(shape) == pytest.approx(device.peak(shape), rel=1e-2, abs=1_000_000)
    assert json.loads(save_calibration(calibration))["time"]["per_token"] == pytest.approx(2e-6)


@given(
    capacity=st.integers(50_000_000, 5_000_000_000),
    max_length=st.integers(1, 4_096),
    rows=st.integers(1, 4_000),
    width=st.integers(1, 4_096),
)
def test_every_batch_within_the_tokens_that_fit_does(capacity, max_length, rows, width):
    device = KnownDevice(memory=capacity)
    calibration = calibration_of(device)
    most = calibration.tokens_that_fit(max_length)
    assert most is not None
    width = min(width, max_length)
    rows = min(rows, max(1, most // width))
    if rows * width <= most:
        assert device.peak(Shape(rows, width)) <= capacity


GIB, MIB = 2**30, 2**20


def of_80_gib(**more) -> KnownDevice:
    return KnownDevice(
        memory=80 * GIB,
        state=5 * GIB,
        bytes_per_token=3 * MIB,
        bytes_per_pair=0.0,
        update_bytes=0,
        **more,
    )


def test_an_exact_device_comes_out_exactly():
    calibration = calibration_of(of_80_gib(), 512)
    assert calibration.tokens_that_fit(512) == 25_600
    assert calibration.tokens_that_fit(5_120) == 25_600


@given(
    noise=st.floats(0.001, 0.1),
    state=st.integers(1, 75),
    widest=st.sampled_from([512, 1_000, 2_048]),
    wanted=st.none() | st.integers(512, 20_000),
)
@example(noise=0.09375, state=74, widest=1_000, wanted=992)  # noise hides the bytes of a token
def test_what_ran_fits_whatever_the_noise_of_the_fit(noise, state, widest, wanted):
    device = of_80_gib(memory_noise=noise)
    device.state = state * GIB
    try:
        calibration = calibration_of(device, widest, tokens_per_batch=wanted)
    except InputError:
        return
    for point in calibration.points:
        shape = point.shape
        peak = calibration.bytes(shape)
        assert calibration.fits_memory(peak, shape.tokens, shape.width, packed=False)
        if calibration.fits is not None:
            assert calibration.tokens_that_fit(shape.width) >= shape.tokens


@in_turn(
    ("tokens", "width", "fits"),
    [
        (4_096, 512, True),
        (4_000, 100, True),
        (4_097, 512, None),
        (4_096, 513, None),
        (25_600, 512, None),
        (25_601, 512, False),
    ],
)
def test_a_search_that_ended_at_a_budget_has_not_found_what_fits(tokens, width, fits):
    """Nothing ran out of memory: what is larger than what ran may fit or not, up to all memory."""
    calibration = calibration_of(of_80_gib(), 512, tokens_per_batch=4_096)
    assert calibration.fits is None
    assert calibration.most_bytes is None
    assert calibration.tokens_that_fit(512) is None
    peak = calibration.bytes(Shape(1, tokens))
    assert calibration.fits_memory(peak, tokens, width, packed=False) is fits


def test_packed_rows_fit_if_larger_ones_of_longer_samples_ran():
    calibration = calibration_of(of_80_gib(), 512, tokens_per_batch=4_096, packed=True)
    peak = calibration.bytes(Shape(1, 4_096))
    assert calibration.fits_memory(peak, 4_096, 512, packed=True)
    assert calibration.fits_memory(peak, 4_097, 512, packed=True) is None
    plain = calibration_of(of_80_gib(), 512, tokens_per_batch=4_096)
    assert plain.fits_memory(peak, 4_096, 512, packed=True)
    assert plain.fits_memory(peak, 4_096, 513, packed=True) is None
    assert calibration.fits_memory(peak, 4_096, 4_096, packed=False) is None


@given(
    gradients=st.integers(0, 70),
    noise=st.floats(0.001, 0.1),
    widest=st.sampled_from([512, 2_048]),
    tokens=st.integers(1, 40_000),
    samples=st.integers(1, 8),
)
def test_what_is_said_to_fit_fits(gradients, noise, widest, tokens, samples):
    """The largest number of tokens that fits does so by every strategy, with gradients kept too."""
    device = of_80_gib(memory_noise=noise)
    device.gradients = gradients * GIB
    calibration = calibration_of(device, widest)
    for accumulates in (False, True):
        kept = calibration.kept_gradients(accumulates)
        assert kept == accumulates * device.gradients
        fitting = calibration.tokens_that_fit(widest, accumulates=accumulates)
        assert fitting is not None
        tokens = min(tokens, fitting)
        longest = min(tokens, widest) // samples
        if not longest:
            continue
        for packed, row in ((True, longest), (False, min(tokens, widest))):
            shape = Shape(max(1, tokens // row), row)
            peak = calibration.bytes(shape) + kept
            fits = calibration.fits_memory(
                peak, shape.tokens, row, packed=packed, accumulates=accumulates
            )
            assert fits


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "512", None])
def test_rows_of_no_tokens_are_refused(wrong):
    with pytest.raises(OptionError, match="max_length="):
        calibration_of(KnownDevice()).tokens_that_fit(wrong)


def test_what_was_measured_is_known():
    calibration = calibration_of(KnownDevice(), 512, tokens_per_batch=4_096, packed=True)
    assert calibration.most_tokens == 4_096
    assert calibration.widest == 512
    assert calibration.has_packed
    assert not calibration.is_estimate
    assert calibration.tokens_that_fit(512) is None
