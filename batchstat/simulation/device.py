"""`Device`: a device that was calibrated, and what an epoch takes on it."""

from dataclasses import dataclass, replace
from math import isfinite
from operator import attrgetter
from pathlib import Path

from batchstat.calibration.calibration import MOST_NOISE, PER_SECOND, Calibration
from batchstat.calibration.cost_model import TOTAL_TOKENS, BatchCost, CostModel
from batchstat.errors import InputError, OptionError
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import RowRequest
from batchstat.recording.recorded_times import read_calibration
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.words import short

_OF_MEMORY = ("total_experts", "tied", "positions", "norms", "head_norms", "activation")
"""Sizes of a model that change its memory, and not its compute."""


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """What an epoch of one row takes on a calibrated device; None where that is not known."""

    seconds: float | None = None  # by the slowest rank wherever ranks meet, in the first epoch
    cost: float | None = None  # of all ranks for that time
    rank_idle_time: float | None = None  # share of the ranks' time spent waiting for the slowest
    is_extrapolated: bool = False  # whether a batch is larger, wider or packed as none measured
    fits_memory: bool | None = None  # with a margin where no batch as large was measured


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that was calibrated."""

    calibration: Calibration  # the time and memory of batches on it
    file: str | None = None  # the calibration's, or the folder of a recorded run; None for a record
    cost_per_hour: float | None = None  # of one such device, in any currency; None if unknown
    accumulates: bool = False  # whether steps have several batches, which keep their gradients

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
        """What a batch costs: picoseconds, or tokens if only memory is estimated; and bytes."""
        cost = self.calibration.cost
        gradients_kept = self.calibration.kept_gradients(self.accumulates)
        if cost.memory is None or not gradients_kept:
            return cost
        # Measured steps freed gradients before the forward pass; accumulation keeps them.
        return replace(cost, memory=replace(cost.memory, fixed=cost.memory.fixed + gradients_kept))

    def accumulating(self, gradient_accumulation_steps: int) -> "Device":
        """Return the same device, for steps of this many batches."""
        return replace(self, accumulates=gradient_accumulation_steps > 1)

    def cost_of(self, seconds: float, world_size: int) -> float | None:
        """Return the cost of `world_size` devices for this time; None if no price was named."""
        if self.cost_per_hour is None:
            return None
        return seconds / 3600 * world_size * self.cost_per_hour

    @property
    def seconds_per_shape(self) -> float:
        """What the first batch of each (rows, width) takes longer than later ones."""
        return self.cost.per_shape / PER_SECOND if self.is_timed else 0.0

    def tokens_that_fit(self, max_length: int) -> int | None:
        """Return the largest `tokens_per_batch` that fits; None where that is not known."""
        return self.calibration.tokens_that_fit(max_length, accumulates=self.accumulates)

    def epoch(self, request: RowRequest, counts: PlanCounts, widest: int, longest: int) -> OnDevice:
        """Return the time, cost and memory of an epoch on this device."""
        calibration, largest_batch = self.calibration, counts.max_batch_tokens
        packed = request.strategy.attends_within_samples
        # Variable-length kernels cost by the length of samples, not by the width of the row.
        attended = longest if packed else widest
        seconds = cost = idle = fits = None
        # A calibration that only estimates memory, or has noisy times, gives no seconds.
        if self.is_timed:
            seconds, idle = counts.compute / PER_SECOND, counts.ranks.idle_compute
            cost = self.cost_of(seconds, counts.ranks.world_size)
        if (peak := counts.peak_bytes) is not None:
            fits = calibration.fits_memory(
                peak, largest_batch, attended, packed=packed, accumulates=self.accumulates
            )
        is_larger = attended > calibration.widest or largest_batch > calibration.most_tokens
        is_unmeasured = is_larger or (packed and not calibration.has_packed)
        return OnDevice(
            seconds=seconds,
            cost=cost,
            rank_idle_time=idle,
            # An estimate has no measured batches to extrapolate from: it is a formula everywhere.
            is_extrapolated=is_unmeasured and not calibration.is_estimate,
            fits_memory=fits,
        )


def batch_cost(model: CostModel | None, device: Device | None) -> BatchCost:
    """Return the unit of compute: time if measured, else the model's operations, or tokens."""
    if device is not None and device.is_timed:
        return device.cost
    cost = TOTAL_TOKENS if model is None else model.cost
    # A device without usable times still says how much memory a batch takes.
    return cost if device is None else replace(cost, memory=device.cost.memory)


def as_device(
    calibration: Calibration | str | Path | None,
    cost_per_hour: float | None,
    model: CostModel | None = None,
    settings: Settings | None = None,
) -> Device | None:
    """Check the options --calibration and --cost-per-hour, and return the device that they name;
    None without a calibration. Raises OptionError: a cost that is not positive, or without a
    calibration that has times; InputError: a file that cannot be read, a recorded run with times
    that cannot be used, or a calibration of another model.
    """
    if cost_per_hour is not None:
        # A bool is an int.
        is_number = isinstance(cost_per_hour, int | float) and not isinstance(cost_per_hour, bool)
        if not (is_number and isfinite(cost_per_hour) and cost_per_hour > 0):
            raise OptionError(f"cost_per_hour={short(cost_per_hour)}", "must be a number above 0")
    if calibration is None:
        if cost_per_hour is not None:
            raise OptionError(
                f"cost_per_hour={cost_per_hour} needs the time of an epoch",
                "name a calibration with --calibration PATH",
            )
        return None
    loaded, file = read_calibration(calibration)
    shown = file or "the calibration"
    # `calibrate --estimate` writes the memory of a model, and no times.
    if cost_per_hour is not None and loaded.time is None:
        raise OptionError(
            f"cost_per_hour={cost_per_hour} needs the time of an epoch, but {shown} only estimates "
            "memory",
            "measure one with batchstat calibrate",
        )
    measured_model = loaded.setup.shape  # None for a user's own step function, or a recorded run
    if model is not None and measured_model is not None and not _are_same(measured_model, model):
        differing = [
            f"{name} {value}, not {getattr(model, name)}"
            for name, value in vars(measured_model).items()
            if getattr(model, name) != value
        ]
        raise InputError(
            f"{shown} was measured for {loaded.setup.model}, not for the model you named "
            f"({', '.join(differing[:3])})",
            "remove --model, or run batchstat calibrate for it",
        )
    device = Device(calibration=loaded, file=file, cost_per_hour=cost_per_hour)
    if cost_per_hour is not None and device.is_noisy:
        raise InputError(
            f"cost_per_hour={cost_per_hour} needs the time of an epoch, but the times of {shown} "
            f"are ±{device.time_residual:.0%}, too noisy",
            "measure again on an idle device",
        )
    return device if settings is None else device.accumulating(settings.gradient_accumulation_steps)


def _are_same(measured: CostModel, named: CostModel) -> bool:
    """Return whether two models compute the same and take the same memory."""
    # A shape by hand (`hidden=768,layers=12`) says nothing about memory: compute is compared.
    if measured.cost != named.cost:
        return False
    memory_sizes = attrgetter(*_OF_MEMORY)
    measured_sizes, named_sizes = memory_sizes(measured), memory_sizes(named)
    unset_sizes = memory_sizes(CostModel(hidden=1, layers=1))
    return unset_sizes in (measured_sizes, named_sizes) or bool(measured_sizes == named_sizes)
