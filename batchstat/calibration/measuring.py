"""Measurement of a device: the largest batch that fits, then the time and memory of every shape."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import NamedTuple, Protocol

from batchstat.calibration.measured import Hardware, Point, Shape, design
from batchstat.errors import InputError
from batchstat.words import counted

TIMING_ROUNDS = 3  # rounds that time all shapes in turn: other work then slows all of them alike
_LEAST_SECONDS, _MOST_REPEATS = 0.2, 10  # a shape runs until it took so long, or ran so often
_LEAST_POINTS = 4  # shapes that must run: the fit of a time has 3 coefficients, and needs one more
_EXACT = 16  # the search for the largest batch ends within a sixteenth of its tokens


class BatchTooLargeError(Exception):
    """A batch that the device has no memory for."""


class WarmUp(NamedTuple):
    """The first run of a shape."""

    seconds: float | None  # of the forward and backward pass
    peak: int | None  # bytes at the peak of the forward and backward pass
    update_peak: int | None  # bytes at the peak of the optimizer's update


class Timing(NamedTuple):
    """Another run of a shape, in seconds: the forward and backward pass, and the update."""

    seconds: float
    update_seconds: float


class Device(Protocol):
    """A device that runs training steps on batches of any shape."""

    @property
    def hardware(self) -> Hardware:
        """What it is."""

    def warm_up(self, shape: Shape) -> WarmUp:
        """Run a step on a batch of a shape for the first time. Raises BatchTooLargeError."""

    def run(self, shape: Shape) -> Timing:
        """Run and time a step on a batch whose shape ran before. Raises BatchTooLargeError."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured."""

    points: tuple[Point, ...]  # the batches that ran, one of each shape
    fits: int | None  # the highest peak of a batch that ran, in bytes
    too_large: int
    is_complete: bool


class MeasuringProgress(NamedTuple):
    """What the measurement does now."""

    stage: str
    shape: Shape
    done: int
    of: int  # number of all shapes of the stage; 0 where that is not known


OnProgress = Callable[[MeasuringProgress], object]


@dataclass
class _ShapeRuns:
    """The runs of one shape."""

    first: WarmUp
    timings: list[Timing]
    ran_out_later: bool = False

    def point(self, shape: Shape) -> Point:
        """Return the shape with its median times and its peaks, as a point of a calibration."""
        seconds = median(each.seconds for each in self.timings)
        if seconds <= 0:  # a coarse clock, or one that was set back
            raise InputError(
                f"a batch of {shape.rows:,} x {shape.width:,} tokens took {seconds:g} seconds by "
                "the clock of this machine",
                "measure a step that takes longer, or run again",
            )
        return Point(
            **asdict(shape),
            seconds=seconds,
            update_seconds=median(each.update_seconds for each in self.timings),
            first_seconds=seconds if self.first.seconds is None else self.first.seconds,
            peak=self.first.peak,
            update_peak=self.first.update_peak,
        )


def measure_device(
    device: Device,
    widest: int,
    *,
    tokens_per_batch: int | None = None,
    packed: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> Measured:
    """Measure batches of many shapes, those of the most tokens first. An interrupt ends the
    measurement; what was measured is returned if enough. Raises InputError: one row of the widest
    does not fit, or too few batches do; KeyboardInterrupt: too few batches were measured.
    """
    search = _Search(device, on_progress)
    runs: dict[Shape, _ShapeRuns] = {}  # of the shapes whose first run fitted
    missing_shapes, is_complete = 0, False
    try:
        most_tokens = search.most_tokens(widest, tokens_per_batch)
        shapes = design(most_tokens, min(widest, most_tokens), packed=packed)
        for i, shape in enumerate(shapes):
            on_progress(MeasuringProgress("warming up", shape, i, len(shapes)))
            # A batch that fitted in the search may not fit again: free memory is in pieces.
            try:
                runs[shape] = _ShapeRuns(search.first_run(shape), [device.run(shape)])
            except BatchTooLargeError:
                search.too_large += 1
                missing_shapes += 1
        _time_in_rounds(device, runs, search, on_progress)
        is_complete = True
    except KeyboardInterrupt:
        if len(runs) < _LEAST_POINTS:
            raise
    # The shapes that never ran out of memory, also where an interrupt ended the measurement.
    survivors = {shape: each for shape, each in runs.items() if not each.ran_out_later}
    if len(survivors) < _LEAST_POINTS:
        raise _too_few(device, len(survivors), search.too_large)
    lost_shapes = len(runs) - len(survivors)
    survivor_peaks = [each.first.peak for each in survivors.values() if each.first.peak is not None]
    # Only peaks of shapes that ran to the end fit surely; `fits` is known where one ran out.
    peaks = survivor_peaks if lost_shapes else search.peaks
    return Measured(
        points=tuple(each.point(shape) for shape, each in survivors.items()),
        fits=max(peaks) if search.too_large and peaks else None,
        too_large=missing_shapes + lost_shapes,
        is_complete=is_complete,
    )


def _too_few(device: Device, count: int, too_large: int) -> InputError:
    """Return the error where only `count` shapes ran, and `too_large` batches did not fit."""
    name, ran = device.hardware.name, counted(count, "batch", "batches")
    if too_large:
        return InputError(
            f"{name} ran out of memory in {counted(too_large, 'batch', 'batches')}, and only "
            f"{ran} of different shapes ran, of which {_LEAST_POINTS} are needed",
            "lower --max-length or --tokens-per-batch, or pass --gradient-checkpointing",
        )
    return InputError(
        f"only {ran} of different shapes can be made, and {_LEAST_POINTS} are needed",
        "raise --tokens-per-batch or --max-length",
    )


def _time_in_rounds(
    device: Device, runs: dict[Shape, _ShapeRuns], search: "_Search", on_progress: OnProgress
) -> None:
    """Time all shapes in turn, in several rounds, and mark those that run out of memory."""
    for number in range(TIMING_ROUNDS):
        stage = f"timing round {number + 1} of {TIMING_ROUNDS}"
        for i, (shape, shape_runs) in enumerate(runs.items()):
            on_progress(MeasuringProgress(stage, shape, i, len(runs)))
            try:
                began = time.perf_counter()
                for _ in range(_MOST_REPEATS):
                    shape_runs.timings.append(device.run(shape))
                    if time.perf_counter() - began >= _LEAST_SECONDS:
                        break
            except BatchTooLargeError:  # it fitted before, but free memory may be in pieces by now
                search.too_large += 1
                shape_runs.ran_out_later = True


class _Search:
    """The first runs of batches, and the search for the largest batch that fits."""

    def __init__(self, device: Device, on_progress: OnProgress) -> None:
        self._device, self._on_progress = device, on_progress
        self.peaks: list[int] = []
        self.too_large = 0

    def first_run(self, shape: Shape) -> WarmUp:
        first = self._device.warm_up(shape)
        if first.peak is not None:
            self.peaks.append(first.peak)
        return first

    def most_tokens(self, widest: int, wanted: int | None) -> int:
        """Return the total tokens of the largest batch that fits, at most `wanted`: in the end by
        narrow rows, as a wide one may be much of the memory. Raises InputError if not one row fits.
        """
        widest = min(widest, wanted or widest)  # no row is larger than the batch that was asked for
        # This first run also makes the optimizer's state, which is a part of all later peaks.
        if not self._fits(1, widest):
            raise self._nothing_fits(widest)
        if self._device.hardware.memory is None:  # as of a CPU
            return wanted or 16_384
        # Rows of the widest are doubled until they do not fit: `rows` fit, `too_many` do not.
        most_rows = None if wanted is None else wanted // widest
        rows, too_many = 1, None
        while too_many is None and rows != most_rows:
            more_rows = 2 * rows if most_rows is None else min(2 * rows, most_rows)
            if self._fits(more_rows, widest):
                rows = more_rows
            else:
                too_many = more_rows
        narrow = max(1, widest // _EXACT)
        if too_many is not None:
            rows, too_many = self._bisected(rows, too_many, widest)
        else:  # all rows that were asked for fit; some tokens may remain
            assert wanted is not None
            # Nothing remains, or a batch of all tokens in narrow rows fits.
            if wanted == rows * widest or self._fits(wanted // narrow, narrow):
                return wanted
            too_many = rows + 1  # a row more than was asked for
        # The search goes on between the same two numbers of tokens, in narrow rows.
        n_narrow, _ = self._bisected(rows * widest // narrow, too_many * widest // narrow, narrow)
        return max(rows * widest, n_narrow * narrow)

    def _nothing_fits(self, widest: int) -> InputError:
        """Return the error for a widest row that does not fit: it says if a single token does."""
        name = self._device.hardware.name
        if widest == 1 or not self._fits(1, 1):
            return InputError(
                f"weights, gradients and optimizer state alone do not fit {name}",
                "pass --dtype bfloat16 or --optimizer sgd, or another --device",
            )
        return InputError(
            f"one row of {widest:,} tokens does not fit {name}",
            "lower --max-length, or pass --gradient-checkpointing or --dtype bfloat16",
        )

    def _fits(self, rows: int, width: int) -> bool:
        """Run a batch of this shape for the first time; return whether memory was enough."""
        shape = Shape(rows, width)
        self._on_progress(MeasuringProgress("finding the largest batch", shape, done=0, of=0))
        try:
            self.first_run(shape)
        except BatchTooLargeError:
            self.too_large += 1
            return False
        return True

    def _bisected(self, low: int, high: int, width: int) -> tuple[int, int]:
        """Bisect between a number of rows that fits, `low`, and one that does not, `high`."""
        while high - low > max(1, low // _EXACT):
            middle = (low + high) // 2
            if self._fits(middle, width):
                low = middle
            else:
                high = middle
        return low, high
