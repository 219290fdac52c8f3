"""Calibrations of devices whose constants are known, made from synthetic points."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from batchstat.calibration.calibration import Calibration, save_calibration
from batchstat.calibration.cost_model import CostModel
from batchstat.calibration.fit import fit_calibration
from batchstat.calibration.measured import Hardware, MemoryFit, Point, design
from batchstat.calibration.setup import Setup

SHAPE = CostModel(hidden=64, layers=2, heads=4, vocabulary=1000)
GIB = 2**30


@dataclass(frozen=True)
class Constants:
    """Seconds and bytes of a batch of known numbers of tokens and pairs."""

    step: float = 0.004
    batch: float = 0.002
    token: float = 3e-6
    pair: float = 4e-9
    shape: float = 0.0
    fixed: int = 2 * GIB
    token_bytes: float = 2.0**20

    def seconds(self, tokens: int, pairs: int) -> float:
        return self.batch + self.token * tokens + self.pair * pairs

    def peak(self, tokens: int) -> int:
        return int(self.fixed + self.token_bytes * tokens)


def calibration(
    constants: Constants = Constants(),
    *,
    most_tokens: int = 4096,
    widest: int = 1024,
    packed: bool = True,
    fits: int | None = None,
    gradients: int | None = 0,
    **setup: Any,
) -> Calibration:
    """A calibration of such a device, without noise."""
    measured = Setup(**{"model": "a-decoder", "shape": SHAPE, "dtype": "bfloat16"} | setup)
    shapes = design(most_tokens, widest, packed=packed)
    points = tuple(
        Point(
            **asdict(shape),
            seconds=(seconds := constants.seconds(shape.tokens, shape.pairs)),
            update_seconds=constants.step,
            first_seconds=seconds + constants.shape,
            peak=constants.peak(shape.tokens),
            update_peak=constants.fixed,
        )
        for shape in shapes
        if fits is None or constants.peak(shape.tokens) <= fits
    )
    time, memory = fit_calibration(points, constants.fixed, gradients)
    return Calibration(
        created="2026-01-02T03:04:05+00:00",
        setup=measured,
        hardware=Hardware(device="cuda", name="NVIDIA H200", memory=140 * GIB, versions={}),
        points=points,
        time=time,
        memory=memory,
        fits=fits,
    )


def estimate(fits: int | None = None) -> Calibration:
    """An estimate of memory, without a run."""
    constants = Constants()
    return Calibration(
        created="2026-01-02T03:04:05+00:00",
        setup=Setup(model="a-decoder", shape=SHAPE, dtype="bfloat16"),
        hardware=Hardware(device="cuda", name="NVIDIA H200", memory=fits, versions={}),
        points=(),
        time=None,
        memory=MemoryFit(
            fixed=constants.fixed,
            per_token=constants.token_bytes,
            per_pair=0.0,
            least=constants.fixed,
            gradients=0,
            residual=None,
            worst=None,
        ),
        fits=fits,
    )


def write(path: Path, made: Calibration) -> Path:
    """The file of a calibration."""
    path.write_text(save_calibration(made), encoding="utf-8")
    return path
