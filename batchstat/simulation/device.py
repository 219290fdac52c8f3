"""`Device`: a device that was calibrated, and what an epoch takes on it."""

from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from batchstat.calibration.calibration import MOST_NOISE, PER_SECOND, Calibration
from batchstat.calibration.cost_model import CostModel
from batchstat.calibration.costs import TOTAL_TOKENS, BatchCost
from batchstat.errors import InputError, OptionError, short
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import RowRequest
from batchstat.recording.recorded_times import read_calibration
from batchstat.simulation.meters.counts import PlanCounts

_SECONDS_PER_HOUR = 3600
_MOST_DIFFERING = 3
"""Sizes of two models that a message compares."""


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """An epoch of a row on the device that was calibrated; None for what is not known of it.

    Attributes:
        seconds: time of the epoch, by the slowest rank in each step; of the first epoch, where
            shapes are compiled.
        cost: of all ranks for that time.
        rank_idle_time: share of the ranks' time spent waiting for the slowest one.
        is_extrapolated: whether a batch is larger or wider than all that were measured, or rows are
            packed and none of these was measured.
        fits_memory: whether its peak fits, with the margin of the calibration's worst residual
            where no batch as large was measured; None where that is not known.
    """

    seconds: float | None = None
    cost: float | None = None
    rank_idle_time: float | None = None
    is_extrapolated: bool = False
    fits_memory: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that was calibrated.

    Attributes:
        calibration: the time and memory of batches on it.
        file: the calibration's file, or the folder of a recorded run; None if it was given as a
            record.
        cost_per_hour: of one such device, in any currency; None where it is not known.
        accumulates: whether steps have several batches, which keep their gradients.
    """

    calibration: Calibration
    file: str | None = None
    cost_per_hour: float | None = None
    accumulates: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether it says how long batches take; else only what they need in memory."""
        return self.calibration.time is not None and not self.is_noisy

    @property
    def is_noisy(self) -> bool:
        """Whether measured times differ too much from the fitted ones to be used."""
        return (self.time_residual or 0) > MOST_NOISE

    @property
    def time_residual(self) -> float | None:
        """How far the fitted time of a batch is from the measured one; None without times."""
        return None if self.calibration.time is None else self.calibration.time.residual

    @property
    def memory_residual(self) -> float | None:
        """The same of its peak; None where nothing was measured."""
        return None if self.calibration.memory is None else self.calibration.memory.residual

    @property
    def identity(self) -> str:
        """What its numbers depend on: the device, the model and the time of the calibration."""
        calibration = self.calibration
        return f"{calibration.hardware.name}, {calibration.setup.model}, {calibration.created}"

    @property
    def cost(self) -> BatchCost:
        """What a batch costs, in picoseconds; in tokens, for an estimate of memory."""
        cost = self.calibration.cost
        kept = self.calibration.kept_gradients(self.accumulates)
        # Between the batches of a step gradients stay, where a step of one batch frees them first.
        if cost.memory is None or not kept:
            return cost
        return replace(cost, memory=replace(cost.memory, fixed=cost.memory.fixed + kept))

    def accumulating(self, gradient_accumulation_steps: int) -> "Device":
        """Return the same device for steps of so many batches."""
        return replace(self, accumulates=gradient_accumulation_steps > 1)

    def cost_of(self, seconds: float, world_size: int) -> float | None:
        """Return the cost of so many devices for a time; None where it is not known."""
        if self.cost_per_hour is None:
            return None
        return seconds / _SECONDS_PER_HOUR * world_size * self.cost_per_hour

    def compile_seconds(self, shapes: int) -> float:
        """Return the time of compiling for a number of (rows, width); 0 where nothing compiles."""
        return self.cost.per_shape * shapes / PER_SECOND

    def tokens_that_fit(self, max_length: int) -> int | None:
        """Return the largest `tokens_per_batch` whose batches all fit, with rows of at most
        `max_length` tokens; None where memory has no limit or is not known.
        """
        return self.calibration.tokens_that_fit(max_length, accumulates=self.accumulates)

    def epoch(self, request: RowRequest, counts: PlanCounts, widest: int, longest: int) -> OnDevice:
        """Return what an epoch takes.

        Args:
            request: the strategy, with its settings.
            counts: its counts, with compute in the calibration's unit.
            widest: width of its widest batch.
            longest: tokens of its longest sample.
        """
        calibration, tokens = self.calibration, counts.max_batch_tokens
        packed = request.strategy.attends_within_samples
        # Variable-length kernels cost by the samples of a row, not by its width.
        in_a_row = longest if packed else widest
        seconds = cost = idle = fits = None
        if self.is_timed:
            seconds, idle = counts.compute / PER_SECOND, counts.ranks.idle_compute
            cost = self.cost_of(seconds, counts.ranks.world_size)
        if (peak := counts.peak_bytes) is not None:
            fits = calibration.fits_memory(
                peak, tokens, in_a_row, packed=packed, accumulates=self.accumulates
            )
        is_beyond = in_a_row > calibration.widest or tokens > calibration.most_tokens
        is_beyond = is_beyond or (packed and not calibration.has_packed)
        return OnDevice(
            seconds=seconds,
            cost=cost,
            rank_idle_time=idle,
            is_extrapolated=is_beyond and not calibration.is_estimate,
            fits_memory=fits,
        )


def batch_cost(model: CostModel | None, device: Device | None) -> BatchCost:
    """Return what compute is counted in: time, if the device has it, else operations of a model,
    else total tokens; each with the memory of batches, if that is known.
    """
    if device is not None and device.is_timed:
        return device.cost
    cost = TOTAL_TOKENS if model is None else model.cost
    return cost if device is None else replace(cost, memory=device.cost.memory)


def as_device(
    calibration: Calibration | str | Path | None,
    cost_per_hour: float | None,
    model: CostModel | None = None,
    settings: Settings | None = None,
) -> Device | None:
    """Return the device of a calibration, of the file of one, or of a recorded run; None without
    one.

    Args:
        calibration: the calibration, its file, or the folder of a recorded run.
        cost_per_hour: of one device.
        model: the model that is trained; None if it is not known.
        settings: those it trains with; None where they are decided later, see `accumulating`.

    Raises:
        OptionError: a cost that is not positive, or without a calibration that has times.
        InputError: a file that cannot be read, a recorded run whose times cannot be used, or a
            calibration of another model.
    """
    if cost_per_hour is not None:
        _check_cost(cost_per_hour)
    if calibration is None:
        if cost_per_hour is not None:
            raise OptionError(
                f"cost_per_hour={cost_per_hour} needs the time of an epoch: name a calibration "
                "with --calibration PATH"
            )
        return None
    known, file = read_calibration(calibration)
    shown = file or "the calibration"
    if cost_per_hour is not None and known.time is None:
        raise OptionError(
            f"cost_per_hour={cost_per_hour} needs the time of an epoch, but {shown} only estimates "
            "memory: measure one with batchstat calibrate"
        )
    own = known.setup.shape
    if model is not None and own is not None and not _same(own, model):
        differing = [
            f"{name} {value}, not {getattr(model, name)}"
            for name, value in vars(own).items()
            if getattr(model, name) != value
        ]
        raise InputError(
            f"{shown} was measured for {known.setup.model}, not for the model you named "
            f"({', '.join(differing[:_MOST_DIFFERING])}): remove --model, or run batchstat "
            "calibrate for it"
        )
    device = Device(calibration=known, file=file, cost_per_hour=cost_per_hour)
    if cost_per_hour is not None and device.is_noisy:
        raise InputError(
            f"cost_per_hour={cost_per_hour} needs the time of an epoch, but the times of {shown} "
            f"are ±{device.time_residual:.0%}, too noisy: measure again on an idle device"
        )
    return device if settings is None else device.accumulating(settings.gradient_accumulation_steps)


def _check_cost(cost: object) -> None:
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    if not (is_number and isfinite(cost) and cost > 0):  # type: ignore[arg-type, operator]
        raise OptionError(f"cost_per_hour={short(cost)}: must be a number above 0")


def _same(own: CostModel, other: CostModel) -> bool:
    """Return whether two models compute the same and, where both say it, take the same memory."""
    if own.cost != other.cost:
        return False
    plain = CostModel(hidden=1, layers=1)
    found = [[getattr(model, name) for name in _OF_MEMORY] for model in (own, other, plain)]
    return found[2] in found[:2] or found[0] == found[1]


_OF_MEMORY = ("total_experts", "tied", "positions", "norms", "head_norms", "activation")
"""Sizes that decide about memory only. A shape that is written by hand has them at their defaults.
"""
