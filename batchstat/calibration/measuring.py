"""Measurement of a device: the largest batch that fits, then the time and memory of every shape."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, Protocol

from batchstat.calibration.calibration import Hardware, Point
from batchstat.calibration.shapes import Shape, design
from batchstat.errors import InputError

ROUNDS = 3
"""All shapes are timed in turn, so often, so that what else the machine does meets all of them."""

_LEAST_SECONDS, _MOST_REPEATS = 0.2, 10
"""A shape is repeated in a round until either is reached."""

_WITHOUT_LIMIT = 16_384
"""Total tokens of the largest batch where memory does not say it."""

_LEAST_POINTS = 4
"""One more than the coefficients of a batch's time."""

_EXACT = 16
"""The largest batch is found to a sixteenth of its rows."""


class BatchTooLargeError(Exception):
    """A batch that the device has no memory for."""


class WarmUp(NamedTuple):
    """The first run of a shape.

    Attributes:
        seconds: of the whole step.
        peak: bytes at the peak of the forward and backward pass; None where these are not known.
        update_peak: bytes at the peak of the optimizer's update.
    """

    seconds: float
    peak: int | None
    update_peak: int | None


class Timing(NamedTuple):
    """Another run of a shape, in seconds: the forward and backward pass, and the update."""

    seconds: float
    update_seconds: float


class Device(Protocol):
    """What runs training steps."""

    @property
    def hardware(self) -> Hardware:
        """What it is."""

    @property
    def fixed(self) -> int | None:
        """Bytes of weights and optimizer state, known after a step; None where they are not."""

    def warm_up(self, shape: Shape) -> WarmUp:
        """Run a step for the first time. Raises BatchTooLargeError."""

    def run(self, shape: Shape) -> Timing:
        """Run a step that ran before. Raises BatchTooLargeError."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured.

    Attributes:
        points: the batches.
        fits: the most bytes at the peak of a batch that ran; None where memory has no limit.
        is_complete: whether nothing interrupted it.
    """

    points: tuple[Point, ...]
    fits: int | None
    is_complete: bool


class MeasuringProgress(NamedTuple):
    """What is being done.

    Attributes:
        stage: in a few words.
        shape: the batch.
        done: batches of the stage that are done.
        of: all of them; 0 where that is not known.
    """

    stage: str
    shape: Shape
    done: int
    of: int


OnProgress = Callable[[MeasuringProgress], object]


@dataclass
class _Runs:
    """The runs of one shape."""

    first: WarmUp
    timings: list[Timing] = field(default_factory=list)

    def point(self, shape: Shape) -> Point:
        return Point(
            rows=shape.rows,
            width=shape.width,
            samples_per_row=shape.samples_per_row,
            seconds=median(each.seconds for each in self.timings),
            update_seconds=median(each.update_seconds for each in self.timings),
            first_seconds=self.first.seconds,
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
    """Measure batches of many shapes, those of the most tokens first.

    An interrupt ends the measurement; what is measured by then is returned if it is enough.

    Args:
        device: what runs them.
        widest: tokens of the widest row.
        tokens_per_batch: the most total tokens of a batch; by default as many as fit, or 16,384
            where the device has no limit.
        packed: whether to measure rows of several samples, too.
        on_progress: called before each run.

    Raises:
        InputError: one row of the widest does not fit, or too few batches do.
        KeyboardInterrupt: too few batches were measured.
    """
    runs: dict[Shape, _Runs] = {}
    peaks: list[int] = []
    is_complete = False
    try:
        most = _most_tokens(device, widest, tokens_per_batch, peaks, on_progress)
        shapes = design(most, min(widest, most), packed=packed)
        for i, shape in enumerate(shapes):
            on_progress(MeasuringProgress("warming up", shape, i, len(shapes)))
            try:
                runs[shape] = _Runs(device.warm_up(shape))
            except BatchTooLargeError:
                continue  # what was found to fit may not fit again, as memory is in pieces by then
        _time(device, runs, on_progress)
        is_complete = True
    except KeyboardInterrupt:
        if _count(runs) < _LEAST_POINTS:
            raise
    if _count(runs) < _LEAST_POINTS:
        raise InputError(
            f"only {_count(runs)} batches of different shapes fit {device.hardware.name}, and "
            f"{_LEAST_POINTS} are needed: raise --tokens-per-batch or lower --max-length"
        )
    points = tuple(each.point(shape) for shape, each in runs.items() if each.timings)
    peaks += [point.peak for point in points if point.peak is not None]
    has_limit = device.hardware.memory is not None and peaks
    return Measured(points=points, fits=max(peaks) if has_limit else None, is_complete=is_complete)


def _count(runs: dict[Shape, _Runs]) -> int:
    return sum(bool(each.timings) for each in runs.values())


def _time(device: Device, runs: dict[Shape, _Runs], on_progress: OnProgress) -> None:
    """Time all shapes in turn."""
    for number in range(ROUNDS):
        stage = f"timing round {number + 1} of {ROUNDS}"
        for i, (shape, own) in enumerate(runs.items()):
            on_progress(MeasuringProgress(stage, shape, i, len(runs)))
            with suppress(BatchTooLargeError):  # what fitted once may not fit again
                own.timings += _repeated(device, shape)


def _repeated(device: Device, shape: Shape) -> Iterator[Timing]:
    began = time.perf_counter()
    for _ in range(_MOST_REPEATS):
        yield device.run(shape)
        if time.perf_counter() - began >= _LEAST_SECONDS:
            return


def _most_tokens(
    device: Device,
    widest: int,
    wanted: int | None,
    peaks: list[int],
    on_progress: OnProgress,
) -> int:
    """Return the most total tokens of a batch that fits, as rows of the widest; note its peak.

    Raises:
        InputError: a single row does not fit.
    """
    if device.hardware.memory is None:
        return wanted or _WITHOUT_LIMIT
    if wanted is not None and wanted < widest:
        widest = wanted

    def fits(rows: int) -> bool:
        shape = Shape(rows, widest)
        on_progress(MeasuringProgress("finding the largest batch", shape, 0, 0))
        try:
            peaks.append(device.warm_up(shape).peak or 0)
        except BatchTooLargeError:
            return False
        return True

    if not fits(1):
        raise InputError(
            f"one row of {widest:,} tokens does not fit {device.hardware.name}: lower "
            "--max-length, or pass --gradient-checkpointing or --dtype bfloat16"
        )
    return widest * _largest(fits, None if wanted is None else wanted // widest)


def _largest(fits: Callable[[int], bool], most: int | None) -> int:
    """Return the largest number, at most `most`, that fits: 1 does, and numbers below it do."""
    low, high = 1, None
    while high is None and low != most:
        tried = 2 * low if most is None else min(2 * low, most)
        if fits(tried):
            low = tried
        else:
            high = tried
    while high is not None and high - low > max(1, low // _EXACT):
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
