"""Measurement of a device: the largest batch that fits, then the time and memory of every shape."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import NamedTuple, Protocol

from batchstat.calibration.calibration import Hardware, Point
from batchstat.calibration.shapes import Shape, design
from batchstat.errors import InputError, counted

ROUNDS = 3
"""All shapes are timed in turn, so often, so that what else the machine does meets all of them."""

_LEAST_SECONDS, _MOST_REPEATS = 0.2, 10
"""A shape is repeated in a round until either is reached."""

_WITHOUT_LIMIT = 16_384
"""Total tokens of the largest batch where memory does not say it."""

_LEAST_POINTS = 4
"""One more than the coefficients of a batch's time."""

_EXACT = 16
"""The largest batch is found to a sixteenth of its tokens."""


class BatchTooLargeError(Exception):
    """A batch that the device has no memory for."""


class WarmUp(NamedTuple):
    """The first run of a shape.

    Attributes:
        seconds: of the forward and backward pass.
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

    @property
    def gradients(self) -> int | None:
        """Bytes of gradients, known after a step; None where they are not."""

    def warm_up(self, shape: Shape) -> WarmUp:
        """Run a step for the first time. Raises BatchTooLargeError."""

    def run(self, shape: Shape) -> Timing:
        """Run a step that ran before. Raises BatchTooLargeError."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured.

    Attributes:
        points: the batches.
        fits: the most bytes at the peak of a batch that ran; None where nothing ran out of memory,
            so that the limit is not known.
        too_large: how many batches are missing among them, since they ran out of memory.
        is_complete: whether nothing interrupted it.
    """

    points: tuple[Point, ...]
    fits: int | None
    too_large: int
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
    """The runs of one shape, and whether it ran out of memory after the first."""

    first: WarmUp
    timings: list[Timing]
    is_lost: bool = False

    def point(self, shape: Shape) -> Point:
        seconds = median(each.seconds for each in self.timings)
        if seconds <= 0:  # a coarse clock, or one that was set back
            raise InputError(
                f"a batch of {shape.rows:,} x {shape.width:,} tokens took {seconds:g} seconds by "
                "the clock of this machine: measure a step that takes longer, or run again"
            )
        return Point(
            **asdict(shape),
            seconds=seconds,
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
    search = _Search(device, on_progress)
    runs: dict[Shape, _Runs] = {}
    too_large, is_complete = 0, False
    try:
        most_tokens = search.most_tokens(widest, tokens_per_batch)
        shapes = design(most_tokens, min(widest, most_tokens), packed=packed)
        for i, shape in enumerate(shapes):
            on_progress(MeasuringProgress("warming up", shape, i, len(shapes)))
            # What was found to fit may not fit again, as memory is in pieces by then.
            with search.surviving():
                runs[shape] = _Runs(search.first_run(shape), [device.run(shape)])
            too_large += shape not in runs
        _time(device, runs, search, on_progress)
        is_complete = True
    except KeyboardInterrupt:
        if len(runs) < _LEAST_POINTS:
            raise
    kept = {shape: each for shape, each in runs.items() if not each.is_lost}
    if len(kept) < _LEAST_POINTS:
        raise _too_few(device, len(kept), search.too_large)
    lost = len(runs) - len(kept)
    ran = [each.first.peak for each in kept.values() if each.first.peak is not None]
    peaks = ran if lost else search.peaks
    return Measured(
        points=tuple(each.point(shape) for shape, each in kept.items()),
        fits=max(peaks) if search.too_large and peaks else None,
        too_large=too_large + lost,
        is_complete=is_complete,
    )


def _too_few(device: Device, count: int, too_large: int) -> InputError:
    name, ran = device.hardware.name, counted(count, "batch", "batches")
    if too_large:
        return InputError(
            f"{name} ran out of memory in {counted(too_large, 'batch', 'batches')}, and only "
            f"{ran} of different shapes ran, of which {_LEAST_POINTS} are needed: lower "
            "--max-length or --tokens-per-batch, or pass --gradient-checkpointing"
        )
    return InputError(
        f"only {ran} of different shapes can be made, and {_LEAST_POINTS} are needed: raise "
        "--tokens-per-batch or --max-length"
    )


def _time(
    device: Device, runs: dict[Shape, _Runs], search: "_Search", on_progress: OnProgress
) -> None:
    """Time all shapes in turn."""
    for number in range(ROUNDS):
        stage = f"timing round {number + 1} of {ROUNDS}"
        for i, (shape, own) in enumerate(runs.items()):
            on_progress(MeasuringProgress(stage, shape, i, len(runs)))
            before = search.too_large
            with search.surviving():
                began = time.perf_counter()
                for _ in range(_MOST_REPEATS):
                    own.timings.append(device.run(shape))
                    if time.perf_counter() - began >= _LEAST_SECONDS:
                        break
            own.is_lost |= search.too_large > before  # what fitted before may not fit again


class _Search:
    """First runs of batches, and the search for the largest that fits.

    Attributes:
        peaks: bytes at the peak of those that ran, where they are known.
        too_large: how often one ran out of memory.
    """

    def __init__(self, device: Device, on_progress: OnProgress) -> None:
        self._device, self._on_progress = device, on_progress
        self.peaks: list[int] = []
        self.too_large = 0

    @contextmanager
    def surviving(self) -> Iterator[None]:
        """Count a batch that runs out of memory, and go on."""
        try:
            yield
        except BatchTooLargeError:
            self.too_large += 1

    def first_run(self, shape: Shape) -> WarmUp:
        """Run a batch for the first time, and note its peak. Raises BatchTooLargeError."""
        first = self._device.warm_up(shape)
        if first.peak is not None:
            self.peaks.append(first.peak)
        return first

    def most_tokens(self, widest: int, wanted: int | None) -> int:
        """Return the most total tokens of a batch that fits: of rows of the widest, then of rows as
        narrow as the search is exact, since one of the widest may be much of the memory.

        Raises:
            InputError: a single row does not fit.
        """
        widest = min(widest, wanted or widest)
        # Whatever fits, the first step makes the optimizer's state, which later peaks have.
        if not self._fits(1, widest):
            raise self._nothing_fits(widest)
        if self._device.hardware.memory is None:
            return wanted or _WITHOUT_LIMIT
        low, high = self._doubled(widest, None if wanted is None else wanted // widest)
        narrow = max(1, widest // _EXACT)
        if high is None:
            assert wanted is not None
            if wanted == low * widest or self._fits(wanted // narrow, narrow):
                return wanted
            high = low + 1
        else:
            low, high = self._bisected(low, high, widest)
        rows, _ = self._bisected(low * widest // narrow, high * widest // narrow, narrow)
        return max(low * widest, rows * narrow)

    def _nothing_fits(self, widest: int) -> InputError:
        name = self._device.hardware.name
        if widest == 1 or not self._fits(1, 1):
            return InputError(
                f"weights, gradients and optimizer state alone do not fit {name}: pass --dtype "
                "bfloat16 or --optimizer sgd, or another --device"
            )
        return InputError(
            f"one row of {widest:,} tokens does not fit {name}: lower --max-length, or pass "
            "--gradient-checkpointing or --dtype bfloat16"
        )

    def _fits(self, rows: int, width: int) -> bool:
        shape = Shape(rows, width)
        self._on_progress(MeasuringProgress("finding the largest batch", shape, 0, 0))
        before = self.too_large
        with self.surviving():
            self.first_run(shape)
        return self.too_large == before

    def _doubled(self, width: int, most: int | None) -> tuple[int, int | None]:
        """Return a number of rows that fits, and one up to twice as large that does not; None where
        `most` fits. One row does.
        """
        low = 1
        while low != most:
            tried = 2 * low if most is None else min(2 * low, most)
            if not self._fits(tried, width):
                return low, tried
            low = tried
        return low, None

    def _bisected(self, low: int, high: int, width: int) -> tuple[int, int]:
        """Return the same, as close as the search is exact; `low` fits and `high` does not."""
        while high - low > max(1, low // _EXACT):
            middle = (low + high) // 2
            if self._fits(middle, width):
                low = middle
            else:
                high = middle
        return low, high
