import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchstat.calibration.fit import fit_calibration
from batchstat.calibration.measured import Shape, design
from batchstat.calibration.measuring import MeasuringProgress, measure_device
from batchstat.errors import InputError
from calibration.devices import KnownDevice
from tables import in_turn


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


@pytest.mark.parametrize("per_batch", [0.0, -3600.0])
def test_a_clock_that_stands_still_or_was_set_back_is_an_error(per_batch):
    device = KnownDevice(per_batch=per_batch, per_token=0.0, per_pair=0.0)
    with pytest.raises(InputError, match=r"took (0|-3600) seconds by the clock of this machine"):
        measure_device(device, 64, tokens_per_batch=512)


def most_rows(device: KnownDevice, width: int, wanted: int | None) -> int:
    rows = 0
    while device.peak(Shape(rows + 1, width)) <= device.memory:
        if wanted is not None and (rows + 1) * width > wanted:
            break
        rows += 1
    return rows


@given(
    capacity=st.integers(10_000_000, 2_000_000_000),
    widest=st.integers(64, 2_048),
    wanted=st.none() | st.integers(64, 100_000),
)
def test_the_largest_batch_that_fits_is_found(capacity, widest, wanted):
    """To a sixteenth of its tokens, as rows of the widest or narrower ones."""
    device = KnownDevice(memory=capacity)
    if wanted is not None:
        widest = min(widest, wanted)
    if device.peak(Shape(1, widest)) > capacity:
        with pytest.raises(InputError, match=f"one row of {widest:,} tokens does not fit Known"):
            measure_device(device, widest, tokens_per_batch=wanted)
        return
    measured = measure_device(device, widest, tokens_per_batch=wanted)
    most = most_rows(device, widest, wanted) * widest
    peaks = {shape: device.peak(shape) for shape in device.ran}
    largest = max(shape.tokens for shape, peak in peaks.items() if peak <= capacity)
    assert most - max(widest // 16, most // 16) <= largest
    assert all(point.shape.tokens <= largest for point in measured.points)
    if max(peaks.values()) <= capacity:
        assert measured.fits is None
        assert wanted - max(1, widest // 16) < largest <= wanted
    else:
        assert measured.fits == max(peak for peak in peaks.values() if peak <= capacity)


@pytest.mark.parametrize(("tokens", "widest"), [(9_728, 4_096), (4_096, 4_096), (7_000, 4_096)])
def test_rows_narrower_than_the_widest_fill_what_it_leaves(tokens, widest):
    """61 GiB of 90.5 GiB are weights and optimizer state, and a token takes 3 MiB."""
    fixed, per_token = 61 * 2**30, 3 * 2**20
    device = KnownDevice(
        memory=fixed + tokens * per_token,
        state=fixed,
        bytes_per_token=per_token,
        bytes_per_pair=0.0,
        update_bytes=0,
    )
    measured = measure_device(device, widest)
    found = (measured.fits - fixed) / per_token
    assert tokens * 15 / 16 <= found <= tokens


@pytest.mark.parametrize("memory", [None, 200_000_000])
def test_peaks_have_the_state_that_the_first_update_makes(memory):
    device = KnownDevice(memory=memory)
    measured = measure_device(device, 512, tokens_per_batch=4_096)
    assert all(point.peak == device.peak(point.shape) for point in measured.points)


@pytest.mark.parametrize("memory", [None, 2_000_000_000])
@pytest.mark.parametrize("tokens", [3_000, 4_096, 6_000])
def test_the_largest_batch_has_as_many_tokens_as_asked_for(memory, tokens):
    measured = measure_device(KnownDevice(memory=memory), 4_096, tokens_per_batch=tokens)
    largest = max(point.shape.tokens for point in measured.points)
    assert tokens - 256 < largest <= tokens


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_constants_are_recovered(noise):
    device = KnownDevice(noise=noise, memory=200_000_000)
    measured = measure_device(device, 2_048)
    time, memory = fit_calibration(measured.points, device.fixed)
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
    time, _ = fit_calibration(measured.points, None)
    assert time.per_pair == pytest.approx(device.per_pair, rel=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("per_shape", [0.0, 0.1, 3.0])
def test_a_new_shape_takes_what_its_first_run_takes_longer(per_shape, noise):
    """Compiled or not: an H200 takes 0.1 s for each shape without torch.compile."""
    measured = measure_device(KnownDevice(per_shape=per_shape, noise=noise), 512)
    time, _ = fit_calibration(measured.points, None)
    assert time.per_shape == pytest.approx(per_shape, rel=0.05)
    assert time.per_batch + time.per_token < 0.01


def test_a_first_run_that_was_watched_says_nothing_of_new_shapes():
    class Watched(KnownDevice):
        def warm_up(self, shape):
            return super().warm_up(shape)._replace(seconds=None)

    measured = measure_device(Watched(per_shape=3.0), 512)
    assert all(point.first_seconds == point.seconds for point in measured.points)
    time, _ = fit_calibration(measured.points, None)
    assert time.per_shape == 0.0


def test_a_few_first_runs_that_allocate_memory_are_no_cost_of_shapes():
    class Allocating(KnownDevice):
        def warm_up(self, shape):
            first = super().warm_up(shape)
            return first._replace(seconds=first.seconds + (len(self.ran) < 4))

    time, _ = fit_calibration(measure_device(Allocating(), 512).points, None)
    assert time.per_shape == 0.0


def test_all_shapes_are_timed_in_turn():
    device = KnownDevice()
    measured = measure_device(device, 512, tokens_per_batch=4_096)
    order = design(4_096, 512)
    assert device.ran.pop(0) == Shape(1, 512)
    warm = 2 * len(order)
    assert device.ran[:warm] == [shape for shape in order for _ in range(2)]
    rounds = "".join(chr(order.index(shape) + 65) for shape in device.ran[warm:])
    squeezed = [letter for i, letter in enumerate(rounds) if i == 0 or rounds[i - 1] != letter]
    assert squeezed == [chr(i + 65) for i in range(len(order))] * 3
    assert measured.is_complete
    assert measured.fits is None


@in_turn("after", range(0, 200, 7))
def test_what_is_measured_outlives_an_interrupt(after):
    """Each shape that ran twice, first to warm up; where there are enough of them. One step runs
    before all."""
    device = KnownDevice(interrupted_after=after)
    twice = set(design(8_192, 512)[: max(0, after - 1) // 2])
    try:
        measured = measure_device(device, 512, tokens_per_batch=8_192)
    except KeyboardInterrupt:
        assert len(twice) < 4
        return
    assert not measured.is_complete
    assert {point.shape for point in measured.points} == twice
    assert len(twice) >= 4
    time, memory = fit_calibration(measured.points, device.fixed)
    assert time.residual < 1e-9
    assert memory is not None


@pytest.mark.parametrize(
    ("device", "widest", "tokens", "message"),
    [
        (
            KnownDevice(memory=100_000_000, state=60_000_000, halved_after=10),
            512,
            None,
            "Known ran out of memory in .* batches, and only [0-3] batch(es)? of different shapes",
        ),
        (
            KnownDevice(),
            1,
            1,
            "^only 1 batch of different shapes can be made, and 4 are needed: raise --tokens-per-b",
        ),
    ],
)
def test_too_few_batches_are_said_by_cause(device, widest, tokens, message):
    with pytest.raises(InputError, match=message):
        measure_device(device, widest, tokens_per_batch=tokens)


@in_turn("after", range(8, 200, 7))
def test_what_fitted_once_may_not_fit_again(after):
    device = KnownDevice(halved_after=after, memory=100_000_000)
    found: list[MeasuringProgress] = []
    measured = measure_device(device, 512, on_progress=found.append)
    assert measured.is_complete
    [designed] = {each.of for each in found if each.stage == "warming up"}
    assert measured.too_large == designed - len(measured.points)
    assert measured.fits is not None
    assert measured.fits <= 100_000_000
    time, _ = fit_calibration(measured.points, device.fixed)
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


@pytest.mark.parametrize("after", range(45, 80, 7))
def test_what_later_ran_out_of_memory_is_not_said_to_fit(after):
    device = KnownDevice(halved_after=after, memory=100_000_000)
    measured = measure_device(device, 512)
    assert measured.too_large > 0
    assert all(device.peak(point.shape) <= 50_000_000 for point in measured.points)
    assert measured.fits <= 50_000_000


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (3_000_000, "weights, gradients and optimizer state alone do not fit Known: pass --dtype"),
        (3_100_000, "one row of 512 tokens does not fit Known: lower --max-length"),
    ],
)
def test_where_nothing_fits_the_remedy_is_of_its_cause(memory, words):
    with pytest.raises(InputError, match=words):
        measure_device(KnownDevice(memory=memory), 512)
