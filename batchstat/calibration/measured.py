"""What was measured on a device, and the fits of its time and memory."""

from dataclasses import dataclass
from typing import Annotated

from batchstat.calibration.costs import BatchMemory
from batchstat.calibration.shapes import Shape
from batchstat.storage.sealed_records import between

_Tokens = Annotated[int, between(1, 2**31 - 1)]
_Bytes = Annotated[int, between(0, 2**50)]
_BytesEach = Annotated[float, between(0, 2**40)]
_Seconds = Annotated[float, between(0, 86_400)]
_SecondsEach = Annotated[float, between(0, 1)]
_Share = Annotated[float, between(0, 1_000_000)]
"""What no device exceeds: a file with more was not measured, and its compute exceeds 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The device that was measured."""

    device: str
    name: str
    memory: _Bytes | None  # bytes of its memory; None where batches are not held to it
    versions: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One batch that was measured."""

    rows: _Tokens
    width: _Tokens
    samples_per_row: _Tokens = 1
    seconds: _Seconds
    update_seconds: _Seconds  # time of the optimizer's update, the median of several runs
    first_seconds: _Seconds
    peak: _Bytes | None  # bytes at the peak of the forward and backward pass
    update_peak: _Bytes | None  # bytes at the peak of the update

    def __post_init__(self) -> None:
        if self.samples_per_row > self.width:
            raise ValueError(f"{self.samples_per_row:,} samples in a row of {self.width:,} tokens")

    @property
    def shape(self) -> Shape:
        """The shape of the batch."""
        return Shape(self.rows, self.width, self.samples_per_row)


@dataclass(frozen=True, kw_only=True)
class TimeFit:
    """The seconds of a batch: per_batch + per_token × tokens + per_pair × pairs."""

    per_step: _Seconds  # seconds of an optimizer's update
    per_batch: _Seconds  # seconds of a batch, whatever is in it
    per_token: _SecondsEach  # seconds of a token
    per_pair: _SecondsEach  # seconds of a pair of tokens that attend to each other
    per_shape: _Seconds
    residual: _Share
    worst: _Share


@dataclass(frozen=True, kw_only=True)
class MemoryFit(BatchMemory):
    """The bytes at the peak: fixed + per_token × tokens + per_pair × pairs, at least `least`."""

    fixed: _Bytes  # bytes of weights, gradients, optimizer state and buffers
    per_token: _BytesEach  # bytes of a token
    per_pair: _BytesEach  # bytes of a pair of tokens that attend to each other
    least: _Bytes  # bytes at the peak of an optimizer's update
    gradients: _Bytes | None
    residual: _Share | None  # root mean square of (fitted − measured) / measured
    worst: _Share | None
