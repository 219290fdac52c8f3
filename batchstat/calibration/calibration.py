"""`Calibration`: what training on batches of any shape takes on one device."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from batchstat.calibration.cost_model import BatchCost
from batchstat.calibration.measured import Hardware, MemoryFit, Point, Shape, TimeFit, _Bytes
from batchstat.calibration.setup import Setup
from batchstat.errors import InputError, OptionError, arguments_named
from batchstat.parameters import whole_number
from batchstat.storage.addresses import check_regular, local_path, unreadable
from batchstat.storage.sealed_records import OtherSchemaError, decoded, parse, seal, unseal
from batchstat.words import short

SCHEMA = "batchstat.calibration/1"

_ROUNDING = 16  # bytes that rounding may add to a fitted peak: a batch is not refused for them
MOST_NOISE = 0.2  # residual of fitted times above which they are not used: 1.3x may then be 1x
PER_SECOND = 10**12  # compute is counted in picoseconds, so that it is exact and adds up


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The time and memory of training on batches of any shape, on one device.

    Example:
        >>> calibration = batchstat.load_calibration("docs/device.json")
        >>> calibration.tokens_that_fit(max_length=512)
        16384

    Attributes:
        created: time of creation, ISO 8601 in UTC.
        setup: the model, and how it was trained.
        hardware: the device; for an estimate, the memory that batches are held to.
        points: the batches that were measured; empty for an estimate.
        time: the fit of seconds; None for an estimate of memory.
        memory: the fit of bytes; None where they are not known.
        fits: bytes that are known to fit: where a batch ran out of memory, the highest peak of one
            that ran; for an estimate, the memory that batches are held to. None where the limit is
            not known.
        too_large: number of batches that ran out of memory, and are missing among the points.
        is_complete: whether nothing interrupted the measurement.
    """

    created: str
    setup: Setup
    hardware: Hardware
    points: tuple[Point, ...]
    time: TimeFit | None
    memory: MemoryFit | None
    fits: _Bytes | None
    too_large: int = 0
    is_complete: bool = True

    @property
    def is_estimate(self) -> bool:
        """Whether nothing was measured: the memory is estimated from the model's shape."""
        return not self.points

    @property
    def most_tokens(self) -> int:
        """Total tokens of the largest measured batch; times of larger ones are extrapolated."""
        return max((point.shape.tokens for point in self.points), default=0)

    @property
    def widest(self) -> int:
        """Tokens of the widest row measured that holds one sample."""
        return max((p.width for p in self.points if p.samples_per_row == 1), default=0)

    @property
    def has_packed(self) -> bool:
        """Whether rows of several samples were measured."""
        return any(point.samples_per_row > 1 for point in self.points)

    @property
    def cost(self) -> BatchCost:
        """The cost of a batch, in picoseconds; in tokens, where only memory was estimated. Its
        memory is that of the first batch of a step, without gradients of an earlier batch.
        """
        if self.time is None:
            return BatchCost(memory=self.memory)
        names = ("per_step", "per_batch", "per_token", "per_pair", "per_shape")
        units = {name: round(getattr(self.time, name) * PER_SECOND) for name in names}
        return BatchCost(**units, memory=self.memory)

    def seconds(self, shape: Shape) -> float | None:
        """Return the fitted seconds of forward and backward; None for an estimate of memory."""
        if (fit := self.time) is None:
            return None
        return fit.per_batch + fit.per_token * shape.tokens + fit.per_pair * shape.pairs

    def bytes(self, shape: Shape) -> int | None:
        """Return the fitted bytes at the peak of a step; None where they are not known."""
        if (fit := self.memory) is None:
            return None
        return fit.peak(fit.per_token * shape.tokens + fit.per_pair * shape.pairs)

    def kept_gradients(self, accumulates: bool) -> int:
        """Return the bytes of earlier batches' gradients as a batch begins; 0 where not known."""
        return (self.memory.gradients or 0) if accumulates and self.memory is not None else 0

    def tokens_that_fit(self, max_length: int, *, accumulates: bool = False) -> int | None:
        """Return the largest `tokens_per_batch` whose batches all fit the device, with rows of at
        most `max_length` tokens; None where the limit is not known.

        It is the size of the largest batch with all rows of that width, which takes more memory per
        token than any other: sorting by length may make one.

        Args:
            max_length: tokens of the widest row.
            accumulates: whether steps have several batches, which keep their gradients.

        Raises:
            OptionError: `max_length` is below 1 or not whole.
        """
        max_length = whole_number("max_length", max_length)
        if self.memory is None or (most_bytes := self.most_bytes) is None:
            return None
        # A token of a row of w tokens is in w pairs.
        per_token = self.memory.per_token + self.memory.per_pair * max_length
        ran_tokens = [
            point.shape.tokens
            for point in self._points_that_fit(accumulates)
            if point.samples_per_row == 1 and point.width >= max_length
        ]
        # The fit found no bytes per token: it gives no limit, and what ran is all that is known.
        if not per_token:
            return max(ran_tokens, default=None)
        fixed = self.memory.fixed + self.kept_gradients(accumulates)
        fitted_tokens = int((most_bytes - fixed) / per_token)
        if not self.is_estimate:  # a batch above all measured ones may have its peak elsewhere
            fitted_tokens = min(fitted_tokens, self.most_tokens)
        return max(0, fitted_tokens, *ran_tokens)

    @property
    def most_bytes(self) -> int | None:
        """The highest fitted peak, in bytes, of a batch taken to fit without a run; None if
        unknown: `fits` less the worst error of the fit, which a batch may take on top of its peak.
        """
        if self.memory is None or self.fits is None:
            return None
        if self.memory.worst is None:  # an estimate: no error was measured
            return self.fits
        return max(0, int(self.fits * (1 - self.memory.worst))) + _ROUNDING

    def fits_memory(
        self, peak: int, tokens: int, longest: int, *, packed: bool, accumulates: bool = False
    ) -> bool | None:
        """Return whether batches fit the device; None where that is not known: by the highest
        fitted peak, in bytes, and the most total tokens of any of them, and the longest sample in a
        row, padding included; `packed` rows have several samples, and gradients stay where a step
        `accumulates` several batches.

        A batch that ran fits, and so does a smaller one. For others the fitted peak decides: it
        must be within `most_bytes`. Where nothing ran out of memory, a peak above all memory of the
        device does not fit, and below it nothing is known, since one program never gets all.
        """
        if self.memory is None:
            return None
        # Whether a measured batch is at least as large. Packed rows take no more memory than
        # others, so that both kinds tell of packed batches; a packed one tells nothing of others.
        is_measured = any(
            point.shape.tokens >= tokens and point.shape.lengths[-1] >= longest
            for point in self._points_that_fit(accumulates)
            if packed or point.samples_per_row == 1
        )
        if (limit := self.most_bytes) is not None:
            # A peak up to `least` is that of the optimizer's update: measured, it needs no margin.
            return peak <= max(limit, self.memory.least) or is_measured
        if self.hardware.memory is None:  # as of a CPU
            return None
        if peak > self.hardware.memory:
            return False
        return True if is_measured else None

    def _points_that_fit(self, accumulates: bool) -> Iterator[Point]:
        kept_gradients = self.kept_gradients(accumulates)
        highest_peak = max((point.peak or 0 for point in self.points), default=0)
        return (p for p in self.points if (p.peak or 0) + kept_gradients <= highest_peak)


def save_calibration(calibration: Calibration) -> str:
    """Return the text of a calibration file."""
    record = {"schema": SCHEMA, **asdict(calibration)}
    return json.dumps(seal(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@arguments_named()
def load_calibration(path: str | Path) -> Calibration:
    """Return the calibration in a file that `batchstat calibrate` wrote.

    Example:
        >>> batchstat.load_calibration("docs/device.json").most_tokens
        16384

    Raises:
        OptionError: `path` is neither text nor a Path.
        InputError: there is no such file, it is damaged or edited, or it has another schema.
    """
    if not isinstance(path, str | Path):
        raise OptionError(f"calibration={short(path)}", "must be a Calibration, or the file of one")
    path = local_path(path)
    shown = path.as_posix()
    try:
        check_regular(path)
        # Refuses a file that was changed since it was written.
        record: Any = unseal(parse(path.read_bytes()), SCHEMA)
        content = {key: value for key, value in record.items() if key != "schema"}
        calibration: Calibration = decoded(Calibration, content)
        cost = calibration.cost
        if not (cost.per_batch or cost.per_token or cost.per_pair):
            raise ValueError("per_batch, per_token and per_pair are 0: no batch takes time")
    except OSError as error:
        raise unreadable(shown, error, "write it with batchstat calibrate") from None
    except (JSONDecodeError, UnicodeDecodeError):
        raise InputError(
            f"{shown} is not a calibration, nor JSON at all",
            "write it again with batchstat calibrate",
        ) from None
    except (OtherSchemaError, ValueError) as error:
        raise InputError(f"{shown}: {error}", "write it again with batchstat calibrate") from None
    return calibration
