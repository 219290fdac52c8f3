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
"""What no device exceeds: a file with more in it was not measured, and its compute would be more
than whole numbers of 64 bits hold.
"""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The device that was measured.

    Attributes:
        device: type of the device: cpu, cuda, mps, …
        name: its name.
        memory: bytes of its memory; None where batches are not held to it.
        versions: versions of torch, transformers and Python.
    """

    device: str
    name: str
    memory: _Bytes | None
    versions: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One batch that was measured.

    Attributes:
        rows: number of rows.
        width: tokens of each row.
        samples_per_row: number of samples in each row.
        seconds: time of the forward and backward pass, the median of several runs.
        update_seconds: time of the optimizer's update, the median of several runs; 0 where
            `seconds` includes it.
        first_seconds: time of the first forward and backward pass of this shape, for which it may
            be compiled; `seconds` where that is not known.
        peak: bytes at the peak of the forward and backward pass; None where they are not known.
        update_peak: bytes at the peak of the update.
    """

    rows: _Tokens
    width: _Tokens
    samples_per_row: _Tokens = 1
    seconds: _Seconds
    update_seconds: _Seconds
    first_seconds: _Seconds
    peak: _Bytes | None
    update_peak: _Bytes | None

    def __post_init__(self) -> None:
        if self.samples_per_row > self.width:
            raise ValueError(f"{self.samples_per_row:,} samples in a row of {self.width:,} tokens")

    @property
    def shape(self) -> Shape:
        """The shape of the batch."""
        return Shape(self.rows, self.width, self.samples_per_row)


@dataclass(frozen=True, kw_only=True)
class TimeFit:
    """The seconds of a batch: per_batch + per_token × tokens + per_pair × pairs.

    Attributes:
        per_step: seconds of an optimizer's update.
        per_batch: seconds of a batch, whatever is in it.
        per_token: seconds of a token.
        per_pair: seconds of a pair of tokens that attend to each other.
        per_shape: seconds that the first batch of a (rows, width) takes beyond later ones, to
            compile it, or for what the device's libraries plan for each shape.
        residual: root mean square of (fitted − measured) / measured, over the points.
        worst: the largest of these, without sign.
    """

    per_step: _Seconds
    per_batch: _Seconds
    per_token: _SecondsEach
    per_pair: _SecondsEach
    per_shape: _Seconds
    residual: _Share
    worst: _Share


@dataclass(frozen=True, kw_only=True)
class MemoryFit(BatchMemory):
    """The bytes at the peak: fixed + per_token × tokens + per_pair × pairs, at least `least`.

    Attributes:
        fixed: bytes of weights, gradients, optimizer state and buffers.
        per_token: bytes of a token.
        per_pair: bytes of a pair of tokens that attend to each other.
        least: bytes at the peak of an optimizer's update.
        gradients: bytes of gradients, which are in memory already when the second batch of a step
            begins; 0 for an estimate, which has them in `fixed`; None where they are not known.
        residual: root mean square of (fitted − measured) / measured; None for an estimate.
        worst: the largest of these, without sign.
    """

    fixed: _Bytes
    per_token: _BytesEach
    per_pair: _BytesEach
    least: _Bytes
    gradients: _Bytes | None
    residual: _Share | None
    worst: _Share | None
