"""Devices whose constants are known."""

from dataclasses import dataclass, field

import numpy as np

from batchstat.calibration.measured import Hardware, Shape
from batchstat.calibration.measuring import BatchTooLargeError, Timing, WarmUp


@dataclass
class KnownDevice:
    """A device of known constants: seconds and bytes of a batch, with noise on the seconds, and on
    the bytes by shape, at most as large as it says.
    """

    per_step: float = 2e-3
    per_batch: float = 5e-3
    per_token: float = 2e-6
    per_pair: float = 3e-10
    per_shape: float = 0.0
    noise: float = 0.0
    memory_noise: float = 0.0
    memory: int | None = None
    state: int = 3_000_000
    bytes_per_token: float = 5_000.0
    bytes_per_pair: float = 4.0
    update_bytes: int = 1_000_000
    gradients: int = 700_000
    optimizer_state: int = 900_000
    """Part of `state` that the first update makes."""
    interrupted_after: int | None = None
    halved_after: int | None = None
    """Runs after which only half of the memory is in one piece."""
    ran: list[Shape] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(0)

    @property
    def hardware(self) -> Hardware:
        return Hardware(device="cuda", name="Known", memory=self.memory, versions={"torch": "0"})

    @property
    def fixed(self) -> int:
        return self.state

    def peak(self, shape: Shape) -> int:
        varying = self.bytes_per_token * shape.tokens + self.bytes_per_pair * shape.pairs
        exact = self.state + int(varying)
        off = 2 * np.random.default_rng([shape.rows, shape.width]).random() - 1
        return int(exact * (1 + self.memory_noise * off)) if self.memory_noise else exact

    def seconds(self, shape: Shape) -> float:
        exact = self.per_batch + self.per_token * shape.tokens + self.per_pair * shape.pairs
        return exact * (1 + self.noise * float(self._rng.standard_normal()))

    def warm_up(self, shape: Shape) -> WarmUp:
        timing = self.run(shape)
        peak = self.peak(shape) - (self.optimizer_state if len(self.ran) == 1 else 0)
        update_peak = self.state + self.update_bytes
        return WarmUp(timing.seconds + self.per_shape, peak, update_peak)

    def run(self, shape: Shape) -> Timing:
        if self.interrupted_after is not None and len(self.ran) >= self.interrupted_after:
            raise KeyboardInterrupt
        self.ran.append(shape)
        is_halved = self.halved_after is not None and len(self.ran) > self.halved_after
        memory = self.memory and self.memory // (1 + is_halved)
        if memory is not None and self.peak(shape) > memory:
            raise BatchTooLargeError
        return Timing(self.seconds(shape), self.per_step)
