import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchstat.calibration.calibration import fit_calibration
from batchstat.calibration.measuring import MeasuringProgress, measure_device
from batchstat.calibration.setup import Setup
from batchstat.calibration.shapes import Shape, design
from batchstat.errors import InputError
from calibration.devices import KnownDevice

SETUP = Setup(model="known", shape=None)


@given(st.integers(1, 200_000), st.integers(1, 8_192), st.booleans())
def test_shapes_are_within_the_largest_batch_and_come_largest_first(most, widest, packed):
    widest = min(widest, most)
    shapes = design(most, widest, packed=packed)
    assert len(set(shapes)) == len(shapes) <= 20
    assert [shape.tokens for shape in shapes] == sorted((s.tokens for s in shapes), reverse=True)
    for shape in shapes:
        assert shape.rows >= 1
        assert shape.tokens <= most
        assert sum(shape.lengths) == shape.width
        assert shape.width <= (widest if shape.samples_per_row == 1 else most)
    assert max(s.width for s in shapes if s.samples_per_row == 1) == widest


@given(st.integers(1, 50), st.integers(1, 300), st.integers(1, 300))
def test_pairs_are_those_within_samples(rows, width, samples):
    shape = Shape(rows, width, min(samples, width))
    assert len(shape.lengths) == shape.samples_per_row
    assert max(shape.lengths) - min(shape.lengths) <= 1
    assert shape.pairs == sum(length * length for length in shape.lengths for _ in range(rows))


def most_rows(device: KnownDevice, widest: int, wanted: int | None) -> int:
    rows = 1
    while device.peak(Shape(rows + 1, widest)) <= device.memory:
        if wanted is not None and (rows + 1) * widest > wanted:
            break
        rows += 1
    return rows


@given(
    capacity=st.integers(10_000_000, 2_000_000_000),
    widest=st.integers(64, 2_048),
    wanted=st.none() | st.integers(64, 100_000),
)
def test_the_largest_batch_that_fits_is_found(capacity, widest, wanted):
    device = KnownDevice(memory=capacity)
    if wanted is not None:
        widest = min(widest, wanted)
    if device.peak(Shape(1, widest)) > capacity:
        with pytest.raises(InputError, match=f"one row of {widest:,} tokens does not fit Known"):
            measure_device(device, widest, tokens_per_batch=wanted)
        return
    measured = measure_device(device, widest, tokens_per_batch=wanted)
    largest = max(measured.points, key=lambda point: point.shape.tokens).shape
    assert measured.fits is not None
    assert measured.fits <= capacity
    rows = most_rows(device, widest, wanted)
    assert rows - max(1, rows // 16) <= largest.tokens / widest <= rows


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_constants_are_recovered(noise):
    device = KnownDevice(noise=noise, memory=200_000_000)
    measured = measure_device(device, 2_048)
    time, memory = fit_calibration(measured.points, SETUP, device.fixed)
    exact = noise == 0.0
    tolerance = 1e-6 if exact else 0.15
    assert time.per_step == pytest.approx(device.per_step, rel=1e-6)
    assert time.per_batch == pytest.approx(device.per_batch, rel=tolerance)
    assert time.per_token == pytest.approx(device.per_token, rel=tolerance)
    assert time.per_pair == pytest.approx(device.per_pair, rel=tolerance)
    assert time.residual < (1e-9 if exact else 2 * noise)
    assert memory is not None
    assert memory.fixed == pytest.approx(device.state, rel=1e-3)
    assert memory.per_token == pytest.approx(device.bytes_per_token, rel=1e-3)
    assert memory.per_pair == pytest.approx(device.bytes_per_pair, rel=1e-3)
    assert memory.least == device.state + device.update_bytes


def test_packed_rows_cost_what_is_within_their_samples():
    device = KnownDevice()
    measured = measure_device(device, 512, tokens_per_batch=8_192, packed=True)
    packed = [point for point in measured.points if point.samples_per_row > 1]
    assert packed
    time, _ = fit_calibration(measured.points, SETUP, None)
    assert time.per_pair == pytest.approx(device.per_pair, rel=1e-6)


@pytest.mark.parametrize("compiles", [False, True])
def test_compile_time_is_that_of_the_first_run(compiles):
    device = KnownDevice(per_shape=3.0)
    measured = measure_device(device, 512)
    setup = Setup(model="known", shape=None, compile=compiles)
    time, _ = fit_calibration(measured.points, setup, None)
    assert time.per_shape == pytest.approx(3.0 if compiles else 0.0)


def test_all_shapes_are_timed_in_turn():
    device = KnownDevice()
    measured = measure_device(device, 512, tokens_per_batch=4_096)
    order = list(dict.fromkeys(device.ran))
    assert order == design(4_096, 512)
    rounds = "".join("".join(chr(order.index(shape) + 65) for shape in [*device.ran[len(order) :]]))
    squeezed = [letter for i, letter in enumerate(rounds) if i == 0 or rounds[i - 1] != letter]
    assert squeezed == [chr(i + 65) for i in range(len(order))] * 3
    assert measured.is_complete
    assert measured.fits is None


@pytest.mark.parametrize("after", range(0, 200, 7))
def test_what_is_measured_outlives_an_interrupt(after):
    device = KnownDevice(interrupted_after=after, memory=100_000_000)
    try:
        measured = measure_device(device, 512)
    except KeyboardInterrupt:
        timed = {shape for shape in device.ran if device.ran.count(shape) > 11}
        assert len(timed) < 4
        return
    assert not measured.is_complete
    assert len(measured.points) >= 4
    time, memory = fit_calibration(measured.points, SETUP, device.fixed)
    assert time.residual < 1e-9
    assert memory is not None


@pytest.mark.parametrize("after", range(8, 200, 7))
def test_what_fitted_once_may_not_fit_again(after):
    device = KnownDevice(halved_after=after, memory=100_000_000)
    measured = measure_device(device, 512)
    assert measured.is_complete
    assert measured.fits is not None
    assert measured.fits <= 100_000_000
    time, _ = fit_calibration(measured.points, SETUP, device.fixed)
    assert time.residual < 1e-9
    assert {point.shape for point in measured.points} < {*device.ran}


def test_progress_says_what_is_done():
    found: list[MeasuringProgress] = []
    measure_device(KnownDevice(memory=100_000_000), 512, on_progress=found.append)
    stages = list(dict.fromkeys(each.stage for each in found))
    assert stages[:3] == ["finding the largest batch", "warming up", "timing round 1 of 3"]
    assert len(stages) == 5
    assert all(each.done < each.of for each in found if each.of)
    assert found[0].shape == Shape(1, 512)
