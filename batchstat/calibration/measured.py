"""The batches that a device is measured on, what was measured, and fits of time and memory."""

from dataclasses import dataclass
from typing import Annotated

from batchstat.calibration.cost_model import BatchMemory
from batchstat.storage.sealed_records import between

_NARROWEST = 16  # tokens of the narrowest row, where the widest is at least four times as wide
_WIDTHS = 5  # widths that are measured
_SHARE = 4  # each batch of a width has this many times fewer tokens than the one before


@dataclass(frozen=True, order=True)
class Shape:
    """A batch: rows of one width, each of one sample, or packed."""

    rows: int
    width: int
    samples_per_row: int = 1

    @property
    def tokens(self) -> int:
        """Total tokens."""
        return self.rows * self.width

    @property
    def lengths(self) -> tuple[int, ...]:
        """(samples_per_row,) lengths of the samples of a row; they differ by at most one."""
        # The first `longer` samples have a token more than `short`.
        short, longer = divmod(self.width, self.samples_per_row)
        return tuple(short + (i < longer) for i in range(self.samples_per_row))

    @property
    def pairs(self) -> int:
        """Pairs of tokens that attend to each other: Σ length² of the samples of all rows."""
        return self.rows * sum(length**2 for length in self.lengths)

    def __str__(self) -> str:
        packed = f" of {self.samples_per_row} samples each" if self.samples_per_row > 1 else ""
        return f"{self.rows:,} x {self.width:,}{packed}"


def design(most_tokens: int, widest: int, *, packed: bool = False) -> list[Shape]:
    """Return the shapes to measure, those of the most tokens first. There are 5 widths, each the
    same share of the next wider one, and 3 sizes of batches of each, each a quarter of the next
    larger one. So the costs of a batch, of a token and of a pair of tokens can be told apart:
    widths of 16 to 1,024 and 16,384 tokens give 16 x 1,024, 4 x 1,024, 1 x 1,024, 45 x 362, ….
    """
    narrowest = max(1, min(_NARROWEST, widest // _SHARE))
    ratio = (widest / narrowest) ** (1 / (_WIDTHS - 1))  # of a width to the next narrower one
    widths = [round(widest / ratio**i) for i in range(_WIDTHS)]
    sizes = [most_tokens // _SHARE**i for i in range(3)]  # total tokens of batches
    # A set, since small sizes may give one shape twice.
    shapes = {Shape(max(1, tokens // width), width) for width in widths for tokens in sizes}
    # Batches of one row, full of samples as long as the widest row, or a quarter of that.
    if packed:
        shapes |= {
            Shape(1, width, width // length)
            for width in (most_tokens, most_tokens // _SHARE)
            for length in (widest, max(1, widest // _SHARE))
            if width >= 2 * length  # at least two samples
        }
    return sorted(shapes, key=lambda shape: (-shape.tokens, -shape.width, shape.samples_per_row))


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
