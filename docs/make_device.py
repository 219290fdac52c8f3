"""Writes device.json beside this script: the calibration of a device that nobody has, by which the
examples show time and memory wherever they run.
"""

from pathlib import Path

from batchstat.calibration.calibration import Calibration, save_calibration
from batchstat.calibration.measured import Hardware, MemoryFit, Point, Shape, TimeFit, design
from batchstat.calibration.setup import Setup

_BATCH, _TOKEN, _PAIR, _UPDATE = 2e-3, 6e-6, 1.2e-9, 8e-3
"""Seconds."""
_FIXED, _TOKEN_BYTES = 5 * 2**30, 3 * 2**20
_ERROR = 0.02


def calibration() -> Calibration:
    """Return constants of our choice, and points that lie 2 % above and below them in turn."""
    shapes = design(16_384, 2048, packed=True)
    return Calibration(
        created="2026-01-01T00:00:00+00:00",
        setup=Setup(model="example:step", shape=None),
        hardware=Hardware(device="cuda", name="a made-up device", memory=64 * 2**30, versions={}),
        points=tuple(_point(shape, (-1) ** i * _ERROR) for i, shape in enumerate(shapes)),
        time=TimeFit(
            per_step=_UPDATE,
            per_batch=_BATCH,
            per_token=_TOKEN,
            per_pair=_PAIR,
            per_shape=0.0,
            residual=_ERROR,
            worst=_ERROR,
        ),
        memory=MemoryFit(
            fixed=_FIXED,
            per_token=float(_TOKEN_BYTES),
            per_pair=0.0,
            least=_FIXED,
            gradients=None,
            residual=0.0,
            worst=0.0,
        ),
        fits=max(_FIXED + _TOKEN_BYTES * shape.tokens for shape in shapes),
    )


def _point(shape: Shape, error: float) -> Point:
    seconds = round((_BATCH + _TOKEN * shape.tokens + _PAIR * shape.pairs) * (1 + error), 9)
    return Point(
        rows=shape.rows,
        width=shape.width,
        samples_per_row=shape.samples_per_row,
        seconds=seconds,
        update_seconds=_UPDATE,
        first_seconds=seconds,
        peak=_FIXED + _TOKEN_BYTES * shape.tokens,
        update_peak=_FIXED,
    )


if __name__ == "__main__":
    path = Path(__file__).parent / "device.json"
    path.write_text(save_calibration(calibration()), encoding="utf-8", newline="\n")
